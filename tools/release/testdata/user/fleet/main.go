// Command fleet sends a request while the store of its fleet cannot be reached.
package main

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"github.com/valkey-io/valkey-go"
)

func main() {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	store := fleet.Dial(valkey.ClientOption{InitAddress: []string{"127.0.0.1:1"}})
	defer store.Close()
	shared, err := fleet.New(store, fleet.Config{Prefix: "orders"})
	if err != nil {
		log.Fatal(err)
	}
	defer shared.Close()
	client := &http.Client{Transport: &awsretry.Transport{Mode: awsretry.Adaptive, Shared: shared}}
	resp, err := client.Get(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode)
}
