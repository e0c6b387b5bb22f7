// Command webhooks delivers a stored request.
package main

import (
	"context"
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
)

func main() {
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		fmt.Printf("delivered %s\n", body)
		stop()
	}))
	defer endpoint.Close()
	dir, err := os.MkdirTemp("", "webhooks")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := deliver(ctx, filepath.Join(dir, "deliveries.db"), endpoint.URL); err != nil {
		log.Fatal(err)
	}
}

func deliver(ctx context.Context, store, url string) error {
	queue, err := deliveryqueue.Open(ctx, store, deliveryqueue.Config{})
	if err != nil {
		return err
	}
	defer queue.Close()
	req, err := http.NewRequest("POST", url, strings.NewReader("order 7"))
	if err != nil {
		return err
	}
	if _, err := queue.Enqueue(ctx, req, deliveryqueue.Options{Policy: delivery.CustomerManaged()}); err != nil {
		return err
	}
	return queue.Run(ctx)
}
