package deliveryqueue

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
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
		var accepted atomic.Int64
		var group sync.WaitGroup
		closing := make(chan struct{})
		begun := sync.OnceFunc(func() { close(closing) })
		for range 4 {
			group.Go(func() {
				for i := 0; ; i++ {
					_, err := q.Enqueue(t.Context(), post(t, "http://endpoint.test", "hello"), Options{})
					if err != nil {
						return
					}
					accepted.Add(1)
					if i == 3 {
						begun()
					}
				}
			})
		}
		<-closing
		if err := q.Close(); err != nil {
			t.Error(err)
		}
		group.Wait()
		n := int(accepted.Load())
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
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			at := store(t)
			before := runtime.NumGoroutine()
			for range 3 {
				q, err := Open(t.Context(), at, Config{Base: roundTripper(noContent)})
				if err != nil {
					t.Fatal(err)
				}
				stop := run(q)
				enqueue(t, q, post(t, "http://endpoint.test", "hello"), Options{})
				eventually(t, "it is delivered", func() bool { return stats(t, q).open() == 0 })
				if err := errors.Join(stop(), q.Close()); err != nil {
					t.Error(err)
				}
			}
			eventually(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
		})
	}
}
