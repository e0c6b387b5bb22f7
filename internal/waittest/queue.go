// Package waittest starts callers that wait in line, and records how their
// waits end. It is for tests in synctest bubbles.
package waittest

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing/synctest"
	"time"
)

// An End is the end of one caller's wait.
type End struct {
	ID  int
	At  time.Duration // since the queue was made
	Err error
}

// A Queue starts callers one after another, and records when their waits end.
type Queue struct {
	start time.Time
	wg    sync.WaitGroup
	mu    sync.Mutex // guards the field below
	ends  []End
}

// NewQueue returns a queue without callers.
func NewQueue() *Queue { return &Queue{start: time.Now()} }

// Join starts a caller that waits by calling wait. It returns when the caller
// is in line, or its wait has ended.
func (q *Queue) Join(id int, wait func() error) {
	q.wg.Go(func() {
		err := wait()
		q.mu.Lock()
		defer q.mu.Unlock()
		q.ends = append(q.ends, End{id, time.Since(q.start), err})
	})
	synctest.Wait()
}

// Ended returns the waits that have ended in the order of their times, and those
// of one instant in the order of their IDs: goroutines that are woken at one
// instant run in any order.
func (q *Queue) Ended() []End {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.SortedFunc(slices.Values(q.ends), func(a, b End) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.ID, b.ID))
	})
}

// Wait waits until all waits have ended, and returns them as Ended does.
func (q *Queue) Wait() []End {
	q.wg.Wait()
	return q.Ended()
}

// CancelAfter returns a context that ends after d with the cause, and has no
// deadline.
func CancelAfter(ctx context.Context, d time.Duration, cause error) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(d, func() { cancel(cause) })
	return ctx, func() { timer.Stop(); cancel(nil) }
}
