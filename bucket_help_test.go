package awsretry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// newTestBucket returns an empty bucket whose clock starts now.
func newTestBucket(rate, capacity float64) *bucket {
	return &bucket{start: time.Now(), rate: rate, capacity: capacity}
}

// errRefused is the error of a wait that was not begun.
var errRefused = errors.New("refused")

// take takes n tokens, however long the wait for them.
func take(ctx context.Context, b *bucket, n float64) error {
	return b.take(ctx, n, clockEnd, errRefused)
}

// join takes the last place in line for n tokens, which are not there.
func join(b *bucket, n float64) *waiter {
	w, _ := b.takeOrJoin(n, clockEnd)
	return w
}

// cancelAfter returns a context that ends after d, and says nothing of that before.
func cancelAfter(ctx context.Context, d time.Duration, cause error) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(d, func() { cancel(cause) })
	return ctx, func() { timer.Stop(); cancel(nil) }
}

func readVectors(t testing.TB, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "vectors", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// wantIdle fails unless b has neither waiters nor a timer. It must be called inside the bubble, and lets weeks pass there.
func wantIdle(t testing.TB, b *bucket) {
	t.Helper()
	synctest.Wait()
	b.mu.Lock()
	if b.first != nil || b.last != nil {
		t.Error("the line is not empty")
	}
	if b.timer != nil {
		t.Error("the timer is still there")
	}
	fired := b.fired
	b.mu.Unlock()
	time.Sleep(1000 * time.Hour)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fired != fired {
		t.Error("a timer was left running")
	}
}

func near(got, want, tolerance float64) bool {
	return math.Abs(got-want) <= tolerance*max(1, math.Abs(want))
}

// A served is one waiter's end.
type served struct {
	id  int
	at  time.Duration
	err error
}

// A queue starts waiters one after another, so that their order is known, and notes in which order and when they end.
type queue struct {
	b     *bucket
	start time.Time
	mu    sync.Mutex
	ended []served
	wg    sync.WaitGroup
}

func newQueue(b *bucket) *queue { return &queue{b: b, start: time.Now()} }

func (q *queue) join(ctx context.Context, id int, n float64) {
	q.wg.Go(func() {
		err := take(ctx, q.b, n)
		q.mu.Lock()
		defer q.mu.Unlock()
		q.ended = append(q.ended, served{id, time.Since(q.start), err})
	})
	synctest.Wait()
}

func (q *queue) wait() []served {
	q.wg.Wait()
	return q.ended
}

// BenchmarkLine is the cost of a token for a caller at the end of a line of so many: join, the grant of the first, leave.
func BenchmarkLine(b *testing.B) {
	for _, waiters := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("waiters=%d", waiters), func(b *testing.B) {
			line := newTestBucket(1e-9, 1)
			for range waiters {
				join(line, 1)
			}
			b.ReportAllocs()
			for b.Loop() {
				middle := join(line, 1)
				join(line, 1)
				line.mu.Lock()
				line.put(line.now(), 1)
				line.mu.Unlock()
				line.leave(middle)
			}
			b.StopTimer()
			for line.first != nil {
				line.leave(line.first)
			}
		})
	}
}
