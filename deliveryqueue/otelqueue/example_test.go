package otelqueue_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"example.com/awsretry/deliveryqueue"
	"example.com/awsretry/deliveryqueue/otelqueue"
)

// watched runs a queue whose state is shown in metrics.
func watched(ctx context.Context, store string) error {
	recorder, err := otelqueue.New(nil) // the global MeterProvider
	if err != nil {
		return err
	}
	queue, err := deliveryqueue.Open(ctx, store, deliveryqueue.Config{OnOutcome: recorder.Outcome})
	if err != nil {
		return err
	}
	defer queue.Close()
	watching, err := recorder.Watch(queue) // in one process of the store
	if err != nil {
		return err
	}
	defer watching.Unregister()
	return queue.Run(ctx)
}

func Example() {
	check := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("", "")
	check(err)
	defer os.RemoveAll(dir)
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	endpoint := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stop() }))
	defer endpoint.Close()
	store := filepath.Join(dir, "deliveries.db")
	queue, err := deliveryqueue.Open(ctx, store, deliveryqueue.Config{}) // of another process
	check(err)
	defer queue.Close()
	req, err := http.NewRequest("POST", endpoint.URL, strings.NewReader("hello"))
	check(err)
	_, err = queue.Enqueue(ctx, req, deliveryqueue.Options{})
	check(err)
	fmt.Println(watched(ctx, store))
	// Output: <nil>
}
