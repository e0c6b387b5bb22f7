// Command api makes a GET that fails once.
package main

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"example.com/awsretry"
)

func main() {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	client := &http.Client{Transport: &awsretry.Transport{
		Policy:  awsretry.IdempotentOnly(nil),
		Backoff: awsretry.Exponential{Initial: time.Millisecond},
	}}
	resp, err := client.Get(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, "after", requests.Load(), "requests")
}
