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

// The processes that have this client share what a service allows them.
func Example() {
	client := fleet.Dial(valkey.ClientOption{InitAddress: []string{"127.0.0.1:6379"}})
	defer client.Close()
	shared, err := fleet.New(client, fleet.Config{})
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
