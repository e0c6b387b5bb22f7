package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"example.com/awsretry/delivery"
	"example.com/awsretry/deliveryqueue"
	"example.com/awsretry/deliveryqueue/webhook"
)

// secretsOf returns the secrets of the endpoint of a request, the new one first
// during a replacement. In a program, they are in its database.
func secretsOf(*http.Request) ([]string, error) {
	return []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, nil
}

// openQueue opens a queue whose deliveries are signed, and are sent only to public
// addresses and those in allow.
func openQueue(ctx context.Context, store string, allow ...netip.Prefix) (*deliveryqueue.Queue, error) {
	base := webhook.Sign(webhook.PublicOnly(allow...), func(req *http.Request) (*webhook.Signer, error) {
		secrets, err := secretsOf(req) // of the endpoint: req.URL has it
		if err != nil {
			return nil, err
		}
		return webhook.NewSigner(secrets...)
	})
	return deliveryqueue.Open(ctx, store, deliveryqueue.Config{Base: base})
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A queue that signs its deliveries and protects its own network.
func Example() {
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		scheme, _, _ := strings.Cut(req.Header.Get("webhook-signature"), ",")
		fmt.Printf("got %s, %s, signed with %s\n", req.Header.Get("webhook-id"), body, scheme)
		stop()
	}))
	defer endpoint.Close()
	dir, err := os.MkdirTemp("", "webhook")
	check(err)
	defer os.RemoveAll(dir)

	// The endpoint of this example is on this machine.
	queue, err := openQueue(ctx, filepath.Join(dir, "deliveries.db"), netip.MustParsePrefix("127.0.0.1/32"))
	check(err)
	defer queue.Close()
	req, err := http.NewRequest("POST", endpoint.URL, strings.NewReader(`{"order": 7}`))
	check(err)
	_, err = queue.Enqueue(ctx, req, deliveryqueue.Options{IdempotencyKey: "order-7"})
	check(err)
	check(queue.Run(ctx))
	// Output: got order-7, {"order": 7}, signed with v1
}

// A customer's URL that leads to the sender's own network is not requested. The
// failure is permanent, so it is not retried.
func ExamplePublicOnly() {
	client := &http.Client{Transport: &delivery.Transport{Base: webhook.PublicOnly()}}
	resp, err := client.Post("http://127.0.0.1:1/", "application/json", strings.NewReader("{}"))
	if err == nil {
		resp.Body.Close()
	}
	if refused := (*webhook.AddressError)(nil); errors.As(err, &refused) {
		fmt.Println(refused)
	}
	// Output: webhook: 127.0.0.1:1: 127.0.0.1 (loopback) is not a public address
}
