package fleet_test

import (
	"crypto/tls"
	"log"
	"net/http"
	"os"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"github.com/valkey-io/valkey-go"
)

// Each process that runs this has its part of the rate that all find together.
// The folder example has a program.
func Example() {
	client := fleet.Dial(valkey.ClientOption{InitAddress: []string{"127.0.0.1:6379"}})
	defer client.Close()
	shared, err := fleet.New(client, fleet.Config{Prefix: "orders"})
	if err != nil {
		log.Fatal(err)
	}
	defer shared.Close()
	transport := &awsretry.Transport{Mode: awsretry.Adaptive, Shared: shared}

	_ = http.Client{Transport: transport}
}

// A store that speaks TLS and has a user for the fleet. Without RootCAs, the
// certificate must be of an authority that the system knows.
func ExampleDial() {
	client := fleet.Dial(valkey.ClientOption{
		InitAddress: []string{"store.example:6380"},
		TLSConfig:   &tls.Config{ServerName: "store.example"},
		Username:    "fleet",
		Password:    os.Getenv("STORE_PASSWORD"),
	})
	defer client.Close()
}
