// Command hashicorp makes a GET by the names of hashicorp/go-retryablehttp.
package main

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"example.com/awsretry/retryablehttp"
)

func main() {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	resp, err := retryablehttp.Get(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode)
}
