package deliveryqueue_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"database/sql"
	"errors"
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
func deliver(
	ctx context.Context, store string, config deliveryqueue.Config, req *http.Request, policy *delivery.Policy,
) error {
	queue, err := deliveryqueue.Open(ctx, store, config) // a file, or postgres://…
	if err != nil {
		return err
	}
	defer queue.Close()
	if _, err := queue.Enqueue(ctx, req, deliveryqueue.Options{Policy: policy}); err != nil {
		return err
	}
	return queue.Run(ctx) // this process may be killed, and another one run the queue
}

// local sends to this machine, where the endpoints of the examples are. The zero
// Config sends only to public addresses.
var local = deliveryqueue.Config{Base: webhook.PublicOnly(webhook.Loopback()...)}

// check ends an example.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// newStore returns the name of a file that remove deletes.
func newStore() (store string, remove func()) {
	dir, err := os.MkdirTemp("", "deliveryqueue")
	check(err)
	return filepath.Join(dir, "deliveries.db"), func() { os.RemoveAll(dir) }
}

// A delivery is stored, and then attempted until the endpoint accepts it. In a
// program, Run usually gets a context from signal.NotifyContext.
func Example() {
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		fmt.Printf("%s got %s\n", req.URL.Path, body)
		stop()
	}))
	defer endpoint.Close()
	store, remove := newStore()
	defer remove()
	req, err := http.NewRequest("POST", endpoint.URL+"/hook", strings.NewReader(`{"order": 7}`))
	check(err)
	// CustomerManaged has 50 retries in more than 6 hours.
	fmt.Println(deliver(ctx, store, local, req, delivery.CustomerManaged()))
	// Output:
	// /hook got {"order": 7}
	// <nil>
}

// send delivers while its caller waits, and leaves to the queue what fails.
func send(queue *deliveryqueue.Queue, url, message string) (*http.Response, error) {
	policy, err := delivery.Parse([]byte(`{"healthyRetryPolicy": {"numRetries": 2, "numNoDelayRetries": 2}}`))
	if err != nil {
		return nil, err
	}
	keep := func(ctx context.Context, dead delivery.DeadLetter) error {
		_, err := queue.Enqueue(ctx, dead.Request, deliveryqueue.Options{Policy: delivery.CustomerManaged()})
		return err
	}
	client := &http.Client{
		Transport: &delivery.Transport{Policy: policy, DeadLetter: keep},
		// A redirect is a failed delivery; http.Client would follow it.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return client.Post(url, "application/json", strings.NewReader(message))
}

// What a delivery.Transport gave up is in the store, with its body and headers,
// and is delivered from there.
func Example_deadLetter() {
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	requests := 0
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if requests++; requests <= 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		body, _ := io.ReadAll(req.Body)
		fmt.Printf("request %d: %s, %s\n", requests, req.Header.Get("Content-Type"), body)
		stop()
	}))
	defer endpoint.Close()
	store, remove := newStore()
	defer remove()
	queue, err := deliveryqueue.Open(ctx, store, local)
	check(err)
	defer queue.Close()

	resp, err := send(queue, endpoint.URL, `{"order": 7}`)
	check(err)
	resp.Body.Close()
	fmt.Println(resp.Status)
	fmt.Println(queue.Run(ctx))
	// Output:
	// 503 Service Unavailable
	// request 4: application/json, {"order": 7}
	// <nil>
}

// After an outage of an endpoint, its dead letters are delivered again.
func ExampleQueue_Redrive() {
	ctx := context.Background()
	store, remove := newStore()
	defer remove()
	queue, err := deliveryqueue.Open(ctx, store, local)
	check(err)
	defer queue.Close()
	for d, err := range queue.List(ctx, deliveryqueue.Filter{State: deliveryqueue.Dead}) {
		check(err)
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
	ctx := context.Background()
	store, remove := newStore()
	defer remove()
	queue, err := guarded(ctx, store)
	check(err)
	defer queue.Close()
	const endpoint = "https://hooks.example.com"
	check(queue.Pause(ctx, endpoint))
	req, err := http.NewRequest("POST", endpoint+"/orders", strings.NewReader("{}"))
	check(err)
	_, err = queue.Enqueue(ctx, req, deliveryqueue.Options{})
	check(err)
	all, err := queue.Endpoints(ctx)
	check(err)
	for _, e := range all {
		fmt.Println(e.URL, e.Waiting, "waiting, paused:", !e.Paused.IsZero())
	}
	n, err := queue.CancelAll(ctx, deliveryqueue.Filter{Endpoint: endpoint})
	fmt.Println(n, "canceled", err)
	// Output:
	// https://hooks.example.com 1 waiting, paused: true
	// 1 canceled <nil>
}

// seal returns a Config.Seal and a Config.Open that encrypt stored requests with
// AES-256-GCM. The first key seals, and every key opens, so that a key can be
// replaced while deliveries wait.
func seal(keys ...[]byte) (seal, open func([]byte) ([]byte, error), err error) {
	var ciphers []cipher.AEAD
	for _, key := range keys {
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, nil, err
		}
		ciphers = append(ciphers, aead)
	}
	if len(ciphers) == 0 {
		return nil, nil, errors.New("no key")
	}
	seal = func(request []byte) ([]byte, error) { return ciphers[0].Seal(nil, nil, request, nil), nil }
	open = func(sealed []byte) (request []byte, err error) {
		for _, aead := range ciphers {
			if request, err = aead.Open(nil, nil, sealed, nil); err == nil {
				return request, nil
			}
		}
		return nil, err
	}
	return seal, open, nil
}

// The key is replaced while requests wait that the old key has sealed.
func ExampleConfig_seal() {
	old, current := make([]byte, 32), make([]byte, 32) // in a program, from where it keeps its secrets
	_, _ = rand.Read(old)
	_, _ = rand.Read(current)
	sealOld, _, err := seal(old)
	check(err)
	sealed, err := sealOld([]byte("a stored request"))
	check(err)

	seal, open, err := seal(current, old)
	check(err)
	config := deliveryqueue.Config{Seal: seal, Open: open}
	request, err := config.Open(sealed)
	fmt.Println(string(request), err)
	// Output: a stored request <nil>
}
