package deliveryqueue

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"testing"
)

// Enqueue beside Close stores a delivery or returns an error.
func TestEnqueueWhileClosing(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q, err := Open(t.Context(), store, Config{})
		if err != nil {
			t.Fatal(err)
		}
		var accepted sync.Map
		var group sync.WaitGroup
		closing := make(chan struct{})
		for range 4 {
			group.Go(func() {
				for i := 0; ; i++ {
					id, err := q.Enqueue(t.Context(), post(t, "http://endpoint.test", "hello"), Options{})
					if err != nil {
						return
					}
					accepted.Store(id, true)
					if i == 3 {
						select {
						case closing <- struct{}{}:
						default:
						}
					}
				}
			})
		}
		<-closing
		if err := q.Close(); err != nil {
			t.Error(err)
		}
		group.Wait()
		n := 0
		accepted.Range(func(any, any) bool {
			n++
			return true
		})
		again := open(t, store, Config{})
		if s := stats(t, again); s.Waiting < n || s.Waiting > n+4 {
			t.Errorf("%d were accepted, %+v", n, s)
		}
		if err := q.Run(t.Context()); err == nil {
			t.Error("Run works a store that is closed")
		}
	})
}

// Run and Close leave no goroutine. This test does not run beside others, whose
// goroutines it would count.
func TestNothingGoesOn(t *testing.T) {
	for name, store := range map[string]func(testing.TB) string{"SQLite": newSQLite, "PostgreSQL": newPostgres} {
		t.Run(name, func(t *testing.T) {
			at := store(t)
			before := runtime.NumGoroutine()
			for range 3 {
				q, err := Open(t.Context(), at, Config{Base: roundTripper(func(req *http.Request) (*http.Response, error) {
					req.Body.Close()
					return &http.Response{StatusCode: 204, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
				})})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- q.Run(ctx) }()
				enqueue(t, q, post(t, "http://endpoint.test", "hello"), Options{})
				eventually(t, "it is delivered", func() bool { return stats(t, q).Waiting+stats(t, q).Running == 0 })
				stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
				if err := q.Close(); err != nil {
					t.Error(err)
				}
			}
			eventually(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
		})
	}
}
