package deliveryqueue

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry/internal/httpfake"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

var benchBody = strings.Repeat("x", 1<<10)

// A load is a store with deliveries or, for comparison, with River's bare jobs,
// which have arguments of the same length and do nothing. The tests' PostgreSQL
// does not sync to disk; SQLite does.
type load struct {
	q       *Queue
	done    *atomic.Int64 // jobs
	enqueue func() error
	start   func() (stop func())
}

// newDeliveries returns deliveries to that many endpoints.
func newDeliveries(t testing.TB, store string, config Config, endpoints int) load {
	t.Helper()
	var done atomic.Int64
	config.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
		done.Add(1)
		return httpfake.Empty(204, req), req.Body.Close()
	})
	q, n := open(t, store, config), 0
	return load{q, &done,
		func() error {
			n++
			url := fmt.Sprintf("http://endpoint%d.test/hook", n%endpoints)
			_, err := q.Enqueue(t.Context(), post(t, url, benchBody), Options{})
			return err
		},
		func() (stop func()) { return start(t, q) },
	}
}

func newBare(t testing.TB, store string, config Config, _ int) load {
	t.Helper()
	q, done := open(t, store, config), new(atomic.Int64)
	own := must[newJob](t)(q.job(post(t, "http://endpoint.test/hook", benchBody), Options{}))
	text := strings.Repeat("x", len(own.Args)-len(`{"x":""}`))
	a, opts := args{must[[]byte](t)(json.Marshal(map[string]string{"x": text}))}, &river.InsertOpts{Queue: queueName}
	return load{q, done,
		func() (err error) {
			switch jobs := q.store.jobs.(type) {
			case *riverJobs[*sql.Tx]:
				_, err = jobs.client.Insert(t.Context(), a, opts)
			case *riverJobs[pgx.Tx]:
				_, err = jobs.client.Insert(t.Context(), a, opts)
			}
			return err
		},
		func() (stop func()) { return startBare(t, q, done) },
	}
}

// startBare runs jobs that only count themselves.
func startBare(t testing.TB, q *Queue, done *atomic.Int64) (stop func()) {
	t.Helper()
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[args]) error {
		done.Add(1)
		return nil
	}))
	config := &river.Config{
		Queues:  map[string]river.QueueConfig{queueName: {MaxWorkers: q.config.Workers}},
		Workers: workers, Logger: q.river,
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
	ctx, cancel := context.WithCancel(context.Background())
	check(t, r.Start(ctx))
	return func() {
		cancel()
		<-r.Stopped()
	}
}

// onEachLoad runs a benchmark with deliveries and with bare jobs. With
// DELIVERYQUEUE_WAITING=n, n other deliveries wait in the store, and all are for
// one endpoint.
func onEachLoad(b *testing.B, config Config, f func(*testing.B, load)) {
	waiting, _ := strconv.Atoi(os.Getenv("DELIVERYQUEUE_WAITING"))
	endpoints := 50
	if waiting > 0 {
		endpoints, config.PerEndpoint = 1, config.Workers
	}
	loads := map[string]func(testing.TB, string, Config, int) load{"": newDeliveries, " bare": newBare}
	for name, store := range stores {
		for suffix, newLoad := range loads {
			b.Run(name+suffix, func(b *testing.B) {
				l := newLoad(b, store(b), config, endpoints)
				if waiting > 0 {
					check(b, l.enqueue())
					backlog(b, l.q, waiting)
				}
				if waiting > 0 && !l.q.store.sqlite {
					execute(b, l.q.store.db, "ANALYZE river_job") // as its autovacuum does within a minute
				}
				size := "SELECT pg_database_size(current_database())"
				if l.q.store.sqlite {
					size = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
				}
				b.ResetTimer()
				f(b, l)
				b.ReportMetric(float64(scan[int](b, l.q, size))/1e6, "store-MB")
			})
		}
	}
}

func BenchmarkEnqueue(b *testing.B) {
	onEachLoad(b, Config{}, func(b *testing.B, l load) {
		for range b.N {
			check(b, l.enqueue())
		}
	})
}

func BenchmarkStats(b *testing.B) {
	onEachLoad(b, Config{}, func(b *testing.B, l load) {
		for range b.N {
			stats(b, l.q)
		}
	})
}

func BenchmarkList(b *testing.B) {
	onEachLoad(b, Config{}, func(b *testing.B, l load) {
		for range b.N {
			for _, err := range l.q.List(b.Context(), Filter{}) {
				check(b, err)
			}
		}
	})
}

// Both stores sync to disk, unless many wait.
func BenchmarkDeliver(b *testing.B) {
	for _, workers := range []int{10, 50, defaultWorkers} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			onEachLoad(b, Config{Workers: workers}, func(b *testing.B, l load) {
				if !l.q.store.sqlite && os.Getenv("DELIVERYQUEUE_WAITING") == "" {
					execute(b, l.q.store.db, "ALTER SYSTEM SET fsync = on")
					execute(b, l.q.store.db, "SELECT pg_reload_conf()")
				}
				for range b.N {
					check(b, l.enqueue())
				}
				runtime.GC()
				b.ResetTimer()
				stop := l.start()
				for l.done.Load() < int64(b.N) {
					time.Sleep(time.Millisecond)
				}
				b.StopTimer()
				var memory runtime.MemStats
				runtime.ReadMemStats(&memory)
				b.ReportMetric(float64(memory.HeapAlloc)/1e6, "heap-MB")
				stop()
			})
		})
	}
}
