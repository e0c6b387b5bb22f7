package fleet_test

import (
	"net/http"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"github.com/valkey-io/valkey-go"
)

// The processes that have this client share what a service allows them.
func Example() {
	client := fleet.Dial(valkey.ClientOption{InitAddress: []string{"127.0.0.1:6379"}})
	defer client.Close()
	shared := fleet.New(client, fleet.Config{})
	defer shared.Close()
	transport := &awsretry.Transport{Mode: awsretry.Adaptive, Shared: shared}

	_ = http.Client{Transport: transport}
}
