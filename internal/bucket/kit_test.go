package bucket

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// newEmpty returns a bucket without tokens.
func newEmpty(rate, capacity float64) *Bucket {
	b := New(rate, capacity)
	b.tokens = 0
	return b
}

// mustJoin returns the last place in line for n tokens, which must not be there.
func mustJoin(t testing.TB, b *Bucket, n float64) *waiter {
	t.Helper()
	w, _, ok := b.takeOrJoin(n, 0, false)
	if !ok || w == nil {
		t.Fatalf("no place in line for %v tokens", n)
	}
	return w
}

func (w *waiter) isGranted() bool {
	select {
	case <-w.granted:
		return true
	default:
		return false
	}
}

// late makes the bucket's clock jump, and its timer run late by that.
func (b *Bucket) late(by time.Duration) {
	b.start = b.start.Add(-by)
	b.fire()
}

// cancelAfter returns a context that ends after d, and has no deadline.
func cancelAfter(ctx context.Context, d time.Duration, cause error) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(d, func() { cancel(cause) })
	return ctx, func() { timer.Stop(); cancel(nil) }
}

// wantIdle fails the test unless b has neither waiters nor a timer. It must be
// called in a bubble, where it lets weeks pass.
func wantIdle(t testing.TB, b *Bucket) {
	t.Helper()
	synctest.Wait()
	b.mu.Lock()
	if b.line.Len() > 0 || b.queued != 0 {
		t.Errorf("%d are in line for %v tokens, want nobody", b.line.Len(), b.queued)
	}
	if b.timer != nil {
		t.Error("there is a timer, want none")
	}
	fired := b.fired
	b.mu.Unlock()
	time.Sleep(1000 * time.Hour)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fired != fired {
		t.Error("a timer ran, want none left")
	}
}

func near(got, want, tolerance float64) bool {
	return math.Abs(got-want) <= tolerance*max(1, math.Abs(want))
}

// A served is the end of one caller's wait.
type served struct {
	id  int
	at  time.Duration // since the queue was made
	err error
}

// A queue starts callers one after another, and records the order and the times
// in which their waits end. It must be used in a bubble.
type queue struct {
	b     *Bucket
	start time.Time
	wg    sync.WaitGroup
	mu    sync.Mutex // guards the field below
	ended []served
}

func newQueue(b *Bucket) *queue { return &queue{b: b, start: time.Now()} }

// join starts a caller that waits for n tokens.
func (q *queue) join(ctx context.Context, id int, n float64) {
	q.wg.Go(func() {
		err := q.b.Wait(ctx, n)
		q.mu.Lock()
		defer q.mu.Unlock()
		q.ended = append(q.ended, served{id, time.Since(q.start), err})
	})
	synctest.Wait()
}

// wait waits for all callers.
func (q *queue) wait() []served {
	q.wg.Wait()
	return q.ended
}
