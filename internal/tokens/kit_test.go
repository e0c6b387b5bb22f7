package tokens

import (
	"context"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/announced"
	"example.com/awsretry/internal/waittest"
)

// newEmpty returns a bucket without tokens.
func newEmpty(rate, capacity float64) *Bucket {
	b := New(time.Now(), rate, capacity)
	b.tokens = 0
	return b
}

// mustJoin returns the last place in line for n tokens, which must not be
// available.
func mustJoin(t testing.TB, b *Bucket, n float64) *waiter {
	t.Helper()
	return mustJoinFor(t, b, n, announced.Request{})
}

// mustJoinFor is mustJoin for a request.
func mustJoinFor(t testing.TB, b *Bucket, n float64, req announced.Request) *waiter {
	t.Helper()
	w, err := b.join(n, req, clockEnd, clockEnd)
	if err != nil {
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

// An announcing bucket waits for what a service announces.
type announcing struct {
	*Bucket
	ledger *announced.Ledger
}

func newAnnouncing(rate, capacity float64, paced bool) announcing {
	a := announcing{New(time.Now(), rate, capacity), announced.New(0)}
	a.Limit(a.ledger, paced)
	return a
}

// hear is a success that announces limits, for the request that was sent at sent.
func (a announcing) hear(sent time.Duration, limits ...announced.Limit) {
	a.Locked(func(now time.Duration) {
		a.ledger.Announce(now, sent, announced.Answer{Limits: limits})
		a.ledger.Settle(sent, true)
	})
}

// costing returns a request that costs so many units of a limit.
func costing(name string, units float64) announced.Request {
	return announced.Request{Costs: map[string]float64{name: units}}
}

// late makes the bucket's clock jump, and its timer run late by as much.
func (b *Bucket) late(by time.Duration) {
	b.start = b.start.Add(-by)
	b.fire()
}

// wantIdle fails the test if b has waiters or a timer. It must be called in a
// bubble.
func wantIdle(t testing.TB, b *Bucket) {
	t.Helper()
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting > 0 || len(b.queues) > 0 {
		t.Errorf("%d are in line in %d queues, want nobody", b.waiting, len(b.queues))
	}
	if b.timer != nil {
		t.Error("there is a timer, want none")
	}
}

func near(got, want, tolerance float64) bool {
	return math.Abs(got-want) <= tolerance*max(1, math.Abs(want))
}

type ends = []waittest.End

func end(id int, at time.Duration, err error) waittest.End {
	return waittest.End{ID: id, At: at, Err: err}
}

// join starts a caller that waits for n tokens.
func join(ctx context.Context, q *waittest.Queue, b *Bucket, id int, n float64) {
	q.Join(id, func() error { return b.Wait(ctx, n) })
}

// wantEnds fails the test unless the waits of q end like that. Waits that end at
// one instant are wanted in the order of their IDs.
func wantEnds(t testing.TB, q *waittest.Queue, want ...waittest.End) {
	t.Helper()
	if got := q.Wait(); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}
