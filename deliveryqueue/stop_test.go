package deliveryqueue

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestGracefulStop(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 200)
		end.delay = 300 * time.Millisecond
		q := open(t, store, Config{})
		enqueue(t, q, post(t, end.URL, "hello"), Options{})
		stop := start(t, q)
		eventually(t, "the attempt is made", func() bool { return len(end.requests()) == 1 })
		begin := time.Now()
		stop()
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("the stop took %v", took)
		}
		if s := stats(t, q); s != (Stats{Delivered: 1}) {
			t.Errorf("%+v", s)
		}
	})
}

func TestStopCutsOff(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 1, 200)
		q := open(t, store, Config{StopTimeout: 200 * time.Millisecond})
		enqueue(t, q, post(t, end.URL, "hello"), Options{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- q.Run(ctx) }()
		eventually(t, "the attempt is made", func() bool { return len(end.requests()) == 1 })
		begin := time.Now()
		cancel()
		err := <-done
		if took := time.Since(begin); took > 3*time.Second || err == nil || !strings.Contains(err.Error(), "cut off") {
			t.Errorf("after %v: %v", took, err)
		}
		if s := stats(t, q); s != (Stats{Waiting: 1}) {
			t.Errorf("%+v", s)
		}
		start(t, q)
		waitFor(t, q, Stats{Delivered: 1})
		if d := list(t, q, Filter{})[0]; d.Attempts != 1 {
			t.Errorf("%+v", d)
		}
	})
}
