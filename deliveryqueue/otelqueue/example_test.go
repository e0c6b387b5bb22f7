package otelqueue_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
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
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer stop()
	fmt.Println(watched(ctx, filepath.Join(dir, "deliveries.db")))
	// Output: <nil>
}
