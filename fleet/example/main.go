// Example is a process that shares a rate with others for a minute. Start a store
// and a service, and run it twice:
//
//	redis-server --port 6379 --save ""
//	python3 -m http.server 8080 --bind 127.0.0.1
package main

import (
	"fmt"
	"log"
	"net/http"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"github.com/valkey-io/valkey-go"
)

func main() {
	connection := fleet.Dial(valkey.ClientOption{InitAddress: []string{"127.0.0.1:6379"}})
	defer connection.Close()
	shared, err := fleet.New(connection, fleet.Config{
		Prefix: "orders", MaxRate: 50, OnError: func(_ string, err error) { log.Print(err) },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer shared.Close()
	transport := &awsretry.Transport{Mode: awsretry.Adaptive, Shared: shared}
	client := http.Client{Transport: transport}
	end := time.Now().Add(time.Minute)
	for range 4 {
		go func() {
			for time.Now().Before(end) {
				if resp, err := client.Get("http://127.0.0.1:8080/"); err == nil {
					resp.Body.Close()
				}
			}
		}()
	}
	for ; time.Now().Before(end); time.Sleep(time.Second) {
		state, _ := transport.State("127.0.0.1:8080") // the host and port of the URL
		fmt.Printf("%d processes, this one sends %.1f of %.1f requests a second\n", state.Fleet.Members, state.SendRate, state.Fleet.Rate)
	}
}
