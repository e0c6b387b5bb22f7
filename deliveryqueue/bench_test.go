package deliveryqueue

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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

// onEachStoreAndWorkers runs a benchmark with stores that sync to disk.
func onEachStoreAndWorkers(b *testing.B, f func(b *testing.B, q *Queue)) {
	for _, workers := range []int{10, 50} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			onEachStore(b, func(b *testing.B, store string) {
				q := open(b, store, Config{Workers: workers})
				if !q.store.sqlite {
					execute(b, q.store.db, "ALTER SYSTEM SET fsync = on")
					execute(b, q.store.db, "SELECT pg_reload_conf()")
				}
				f(b, q)
			})
		})
	}
}

func BenchmarkDeliver(b *testing.B) {
	onEachStoreAndWorkers(b, func(b *testing.B, q *Queue) {
		var done atomic.Int64
		q.config.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
			done.Add(1)
			return noContent(req)
		})
		for i := range b.N {
			enqueue(b, q, post(b, fmt.Sprintf("http://endpoint%d.test/hook", i%50), benchBody), Options{})
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
	onEachStoreAndWorkers(b, func(b *testing.B, q *Queue) {
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
	config := &river.Config{
		Queues:  map[string]river.QueueConfig{queueName: {MaxWorkers: q.config.Workers}},
		Workers: workers, Logger: q.config.Logger,
		FetchCooldown: 10 * time.Millisecond, FetchPollInterval: q.config.PollInterval,
	}
	var r runner
	var err error
	switch jobs := q.store.jobs.(type) {
	case *riverJobs[*sql.Tx]:
		r, err = river.NewClient(jobs.driver, config)
	case *riverJobs[pgx.Tx]:
		r, err = river.NewClient(jobs.driver, config)
	}
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
