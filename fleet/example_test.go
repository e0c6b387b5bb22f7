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

// Each process that runs this gets its share of the rate that all of them find
// together. The folder example has a complete program.
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

// A store that uses TLS and has a user for the fleet. Without RootCAs, the
// certificate must be from an authority that the system trusts.
func ExampleDial() {
	client := fleet.Dial(valkey.ClientOption{
		InitAddress: []string{"store.example:6380"},
		TLSConfig:   &tls.Config{ServerName: "store.example"},
		Username:    "fleet",
		Password:    os.Getenv("STORE_PASSWORD"),
	})
	defer client.Close()
}
