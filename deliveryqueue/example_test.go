package deliveryqueue_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"example.com/awsretry/delivery"
	"example.com/awsretry/deliveryqueue"
	"example.com/awsretry/deliveryqueue/webhook"
)

// deliver stores a delivery and works the queue until ctx ends.
func deliver(ctx context.Context, store string, req *http.Request, policy *delivery.Policy) error {
	queue, err := deliveryqueue.Open(ctx, store, deliveryqueue.Config{}) // a file, or postgres://…
	if err != nil {
		return err
	}
	defer queue.Close()
	if _, err := queue.Enqueue(ctx, req, deliveryqueue.Options{Policy: policy}); err != nil {
		return err
	}
	return queue.Run(ctx) // this process may be killed, and another one run the queue
}

// The shortest program: see deliver.
func Example_short() {
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		fmt.Println("got", req.URL.Path)
		stop()
	}))
	defer endpoint.Close()
	dir, err := os.MkdirTemp("", "deliveryqueue")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	req, err := http.NewRequest("POST", endpoint.URL+"/hook", strings.NewReader(`{"order": 7}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(deliver(ctx, filepath.Join(dir, "deliveries.db"), req, delivery.CustomerManaged()))
	// Output:
	// got /hook
	// <nil>
}

// A delivery is stored, and then worked until the endpoint takes it. In a
// program, Run usually gets a context of signal.NotifyContext.
func Example() {
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		fmt.Printf("%s got %s, order %s\n", req.URL.Path, body, req.Header.Get("Idempotency-Key"))
		stop()
	}))
	defer endpoint.Close()
	dir, err := os.MkdirTemp("", "deliveryqueue")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	queue, err := deliveryqueue.Open(ctx, filepath.Join(dir, "deliveries.db"), deliveryqueue.Config{Workers: 4})
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()

	req, err := http.NewRequest("POST", endpoint.URL+"/hook", strings.NewReader(`{"order": 7}`))
	if err != nil {
		log.Fatal(err)
	}
	_, err = queue.Enqueue(ctx, req, deliveryqueue.Options{
		Policy:         delivery.CustomerManaged(), // 50 retries in 6 hours
		IdempotencyKey: "7",
	})
	if err != nil {
		log.Fatal(err)
	}
	// The process may be killed from here on.

	if err := queue.Run(ctx); err != nil {
		log.Fatal(err)
	}
	stats, err := queue.Stats(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stats.Delivered, "delivered")
	// Output:
	// /hook got {"order": 7}, order 7
	// 1 delivered
}

// After an outage of an endpoint, its dead letters are delivered again.
func ExampleQueue_Redrive() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "deliveryqueue")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	queue, err := deliveryqueue.Open(ctx, filepath.Join(dir, "deliveries.db"), deliveryqueue.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()

	for d, err := range queue.List(ctx, deliveryqueue.Filter{State: deliveryqueue.Dead}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.ID, d.URL, d.Attempts, d.Reason, d.Status, d.Err)
	}
	n, err := queue.Redrive(ctx, deliveryqueue.Filter{Endpoint: "https://example.com", Limit: 1000})
	fmt.Println(n, err)
	// Output: 0 <nil>
}

// The order and its webhook are stored together, or not at all.
func ExampleQueue_EnqueueTx() {
	save := func(ctx context.Context, queue *deliveryqueue.Queue, req *http.Request) error {
		db, err := sql.Open("sqlite", "file:deliveries.db?_busy_timeout=5000&_txlock=immediate")
		if err != nil {
			return err
		}
		defer db.Close()
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // which does nothing after Commit
		if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id) VALUES (7)"); err != nil {
			return err
		}
		if _, err := queue.EnqueueTx(ctx, tx, req, deliveryqueue.Options{}); err != nil {
			return err
		}
		return tx.Commit()
	}
	_ = save
}

// guarded opens a queue for endpoints that may fail for long.
func guarded(ctx context.Context, store string) (*deliveryqueue.Queue, error) {
	return deliveryqueue.Open(ctx, store, deliveryqueue.Config{
		RetryStatus:  webhook.RetryStatus,
		DisableAfter: 24 * time.Hour,
		OnDisabled: func(endpoint string, since time.Time) {
			log.Printf("%s has been failing since %v", endpoint, since)
		},
	})
}

// An endpoint is paused, and its deliveries are canceled.
func ExampleQueue_Pause() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	queue, err := guarded(ctx, filepath.Join(dir, "deliveries.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()
	const endpoint = "https://hooks.example.com"
	if err := queue.Pause(ctx, endpoint); err != nil {
		log.Fatal(err)
	}
	req, err := http.NewRequest("POST", endpoint+"/orders", strings.NewReader("{}"))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := queue.Enqueue(ctx, req, deliveryqueue.Options{}); err != nil {
		log.Fatal(err)
	}
	all, err := queue.Endpoints(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range all {
		fmt.Println(e.URL, e.Waiting, "waiting, paused:", !e.Paused.IsZero())
	}
	n, err := queue.CancelAll(ctx, deliveryqueue.Filter{Endpoint: endpoint})
	fmt.Println(n, "canceled", err)
	// Output:
	// https://hooks.example.com 1 waiting, paused: true
	// 1 canceled <nil>
}
