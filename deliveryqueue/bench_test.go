package deliveryqueue

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riverqueue/river"
)

// Side by side with River's bare jobs, whose arguments are as long. The tests'
// PostgreSQL does not sync to disk; SQLite does.

var benchBody = strings.Repeat("x", 1<<10)

func onEachStore(b *testing.B, f func(b *testing.B, store string)) {
	for name, store := range stores {
		b.Run(name, func(b *testing.B) { f(b, store(b)) })
	}
}

func bareArgs(b testing.TB, q *Queue) args {
	b.Helper()
	a, _, err := q.encode(post(b, "http://endpoint.test/hook", benchBody), Options{})
	if err != nil {
		b.Fatal(err)
	}
	raw, err := json.Marshal(map[string]string{"x": strings.Repeat("x", len(a.raw)-len(`{"x":""}`))})
	if err != nil {
		b.Fatal(err)
	}
	return args{raw}
}

func BenchmarkEnqueue(b *testing.B) {
	onEachStore(b, func(b *testing.B, store string) {
		q := open(b, store, Config{})
		for b.Loop() {
			enqueue(b, q, post(b, "http://endpoint.test/hook", benchBody), Options{})
		}
	})
}

func BenchmarkEnqueueBare(b *testing.B) {
	onEachStore(b, func(b *testing.B, store string) {
		q := open(b, store, Config{})
		a := bareArgs(b, q)
		for b.Loop() {
			if _, err := q.store.insert(b.Context(), a, &river.InsertOpts{Queue: queueName}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkDeliver(b *testing.B) {
	onEachStore(b, func(b *testing.B, store string) {
		var done atomic.Int64
		q := open(b, store, Config{Base: roundTripper(func(req *http.Request) (*http.Response, error) {
			done.Add(1)
			return noContent(req)
		})})
		for range b.N {
			enqueue(b, q, post(b, "http://endpoint.test/hook", benchBody), Options{})
		}
		b.ResetTimer()
		stop := start(b, q)
		for done.Load() < int64(b.N) {
			time.Sleep(time.Millisecond)
		}
		stop()
	})
}

// A bareWorker does nothing.
type bareWorker struct {
	river.WorkerDefaults[args]
	done atomic.Int64
}

func (w *bareWorker) Work(context.Context, *river.Job[args]) error {
	w.done.Add(1)
	return nil
}

func BenchmarkDeliverBare(b *testing.B) {
	onEachStore(b, func(b *testing.B, store string) {
		q := open(b, store, Config{})
		a := bareArgs(b, q)
		for range b.N {
			if _, err := q.store.insert(b.Context(), a, &river.InsertOpts{Queue: queueName}); err != nil {
				b.Fatal(err)
			}
		}
		w := &bareWorker{}
		b.ResetTimer()
		stop := startBare(b, q, w)
		for w.done.Load() < int64(b.N) {
			time.Sleep(time.Millisecond)
		}
		stop()
	})
}

// startBare runs bare jobs until stop.
func startBare(t testing.TB, q *Queue, w *bareWorker) (stop func()) {
	t.Helper()
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	r, err := q.store.runner(&river.Config{
		Queues:  map[string]river.QueueConfig{queueName: {MaxWorkers: q.config.Workers}},
		Workers: workers, Logger: q.config.Logger,
		FetchCooldown: fetchCooldown, FetchPollInterval: q.config.PollInterval,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := r.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}
}
