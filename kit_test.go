package awsretry

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/bucket"
)

// readVectors reads a file of testdata/vectors.
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

// cancelAfter returns a context that ends after d, and has no deadline.
func cancelAfter(ctx context.Context, d time.Duration, cause error) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(d, func() { cancel(cause) })
	return ctx, func() { timer.Stop(); cancel(nil) }
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
	start time.Time
	wg    sync.WaitGroup
	mu    sync.Mutex // guards the field below
	ended []served
}

func newQueue() *queue { return &queue{start: time.Now()} }

// join starts a caller that waits by calling wait.
func (q *queue) join(id int, wait func() error) {
	q.wg.Go(func() {
		err := wait()
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

// wantNoLine fails the test if someone waits for tokens of b.
func wantNoLine(t testing.TB, b *bucket.Bucket) {
	t.Helper()
	if waiting, _ := b.Line(1); waiting > 0 {
		t.Errorf("%d are in line, want nobody", waiting)
	}
}
