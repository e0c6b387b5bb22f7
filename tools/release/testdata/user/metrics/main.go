// Command metrics sends a request through an otelretry.Transport.
package main

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"example.com/awsretry"
	"example.com/awsretry/otelretry"
)

func main() {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	transport, err := otelretry.NewTransport(&awsretry.Transport{}, nil)
	if err != nil {
		log.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport}).Get(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode)
}
