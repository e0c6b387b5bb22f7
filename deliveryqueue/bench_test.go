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

	"example.com/awsretry/internal/httpfake"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

var benchBody = strings.Repeat("x", 1<<10)

// A load is a store with deliveries or, to compare with, River's bare jobs, whose
// arguments are as long and which do nothing. The tests' PostgreSQL does not sync
// to disk; SQLite does.
type load struct {
	q       *Queue
	done    *atomic.Int64 // jobs
	enqueue func() error
	within  func(tx any) error // enqueues in a transaction
	start   func() (stop func())
}

// newDeliveries returns deliveries to so many endpoints.
func newDeliveries(t testing.TB, store string, config Config, endpoints int) load {
	t.Helper()
	var done atomic.Int64
	config.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
		done.Add(1)
		return httpfake.Empty(204, req), req.Body.Close()
	})
	q, n := open(t, store, config), 0
	request := func() *http.Request {
		n++
		return post(t, fmt.Sprintf("http://endpoint%d.test/hook", n%endpoints), benchBody)
	}
	return load{q, &done,
		func() error {
			_, err := q.Enqueue(t.Context(), request(), Options{})
			return err
		},
		func(tx any) error { return enqueueTx(t, q, tx, request()) },
		func() (stop func()) { return start(t, q) },
	}
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

func newBare(t testing.TB, store string, config Config, _ int) load {
	t.Helper()
	q, w := open(t, store, config), &bareWorker{}
	own, _, err := q.encode(post(t, "http://endpoint.test/hook", benchBody), Options{})
	check(t, err)
	text := strings.Repeat("x", len(own.raw)-len(`{"x":""}`))
	a, opts := args{must[[]byte](t)(json.Marshal(map[string]string{"x": text}))}, &river.InsertOpts{Queue: queueName}
	return load{q, &w.done,
		func() error {
			_, err := q.store.insert(t.Context(), a, opts)
			return err
		},
		func(tx any) error {
			_, err := q.store.insertTx(t.Context(), tx, a, opts)
			return err
		},
		func() (stop func()) { return startBare(t, q, w) },
	}
}

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
	check(t, err)
	check(t, r.Start(context.Background()))
	return func() { check(t, r.Stop(context.Background())) }
}

// onEachLoad runs a benchmark with deliveries to 50 endpoints, and bare.
func onEachLoad(b *testing.B, config Config, f func(*testing.B, load)) {
	for name, store := range stores {
		b.Run(name, func(b *testing.B) { f(b, newDeliveries(b, store(b), config, 50)) })
		b.Run(name+" bare", func(b *testing.B) { f(b, newBare(b, store(b), config, 50)) })
	}
}

func BenchmarkEnqueue(b *testing.B) {
	onEachLoad(b, Config{}, func(b *testing.B, l load) {
		for b.Loop() {
			check(b, l.enqueue())
		}
	})
}

// Both stores sync to disk.
func BenchmarkDeliver(b *testing.B) {
	for _, workers := range []int{10, 50} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			onEachLoad(b, Config{Workers: workers}, func(b *testing.B, l load) {
				if !l.q.store.sqlite {
					execute(b, l.q.store.db, "ALTER SYSTEM SET fsync = on")
					execute(b, l.q.store.db, "SELECT pg_reload_conf()")
				}
				for range b.N {
					check(b, l.enqueue())
				}
				b.ResetTimer()
				stop := l.start()
				for l.done.Load() < int64(b.N) {
					time.Sleep(time.Millisecond)
				}
				stop()
			})
		})
	}
}
