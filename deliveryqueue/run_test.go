package deliveryqueue

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/httpfake"
	"github.com/riverqueue/river/rivertype"
)

func TestGracefulStop(t *testing.T) {
	t.Parallel()
	end := newEndpoint(t, 200)
	end.hold = make(chan struct{})
	q := open(t, newSQLite(t), Config{})
	stop := startOne(t, q, end)
	time.AfterFunc(100*time.Millisecond, func() { close(end.hold) })
	stop()
	wantStats(t, q, Stats{Delivered: 1})
}

// The end of the context is no error, also before Run has begun.
func TestRunAfterTheEnd(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		check(t, q.Run(ctx))
	})
}

func TestStopCutsOff(t *testing.T) {
	t.Parallel()
	end := newEndpoint(t, 1, 200)
	q := open(t, newSQLite(t), Config{StopTimeout: 100 * time.Millisecond})
	id := enqueue(t, q, post(t, end.URL, "hello"), Options{})
	stop := run(q)
	end.wait(t, 1)
	if err := stop(); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("error %v", err)
	}
	wantStats(t, q, Stats{Waiting: 1})
	q.config.StopTimeout = time.Minute
	start(t, q)
	waitFor(t, q, Stats{Delivered: 1})
	if d := get(t, q, id); d.Attempts != 1 {
		t.Errorf("%+v", d)
	}
}

// River itself commits no outcome: it would do so too late.
func TestRiverCommitsNothing(t *testing.T) {
	t.Parallel()
	var log httpfake.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	q := open(t, newSQLite(t), Config{Workers: 1, Base: responses(503, 200, 400), Logger: logger})
	enqueue(t, q, post(t, "http://endpoint.test", "hello"), Options{Policy: retries(t, 1)})
	stop := start(t, q)
	waitFor(t, q, Stats{Delivered: 1})
	enqueue(t, q, post(t, "http://endpoint.test", "hello"), Options{})
	waitFor(t, q, Stats{Delivered: 1, Dead: 1})
	stop()
	text := log.String()
	if !strings.Contains(text, "River client started") {
		t.Error("nothing was logged")
	}
	for _, no := range []string{"errored", "snoozed", "Completing batch"} {
		if strings.Contains(text, no) {
			t.Errorf("River has %q:\n%s", no, text)
		}
	}
}

// Run and Close leave no goroutine. This test does not run beside others, whose
// goroutines it would count.
func TestNothingGoesOn(t *testing.T) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			at := store(t)
			before := runtime.NumGoroutine()
			q := must[*Queue](t)(Open(t.Context(), at, Config{Base: httpfake.Statuses(204)}))
			stop := run(q)
			enqueue(t, q, post(t, "http://endpoint.test", "hello"), Options{})
			waitFor(t, q, Stats{Delivered: 1})
			check(t, errors.Join(stop(), q.Close()))
			eventually(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
			_, err := q.Enqueue(t.Context(), post(t, "http://endpoint.test", "hello"), Options{})
			if err == nil || q.Run(t.Context()) == nil {
				t.Error("a store that is closed is used")
			}
		})
	}
}

// Outcomes that arrive during a commit are committed together after it.
func TestGroup(t *testing.T) {
	for _, want := range []error{nil, errors.New("boom"), errNotCommitted} {
		synctest.Test(t, func(t *testing.T) {
			var commits []int
			g, begin := newGroup(), time.Now()
			store := func(_ context.Context, changes []*change) (map[int64]committed, error) {
				time.Sleep(time.Second)
				commits = append(commits, len(changes))
				if want == errNotCommitted {
					panic("boom")
				}
				made := make(map[int64]committed)
				for _, c := range changes {
					if c.ID%2 == 0 {
						made[c.ID] = committed{state: rivertype.JobStateCompleted}
					}
				}
				return made, want
			}
			var wg sync.WaitGroup
			for i := range int64(10) {
				wg.Go(func() {
					time.Sleep(time.Duration(i) * time.Millisecond)
					made, err := false, errNotCommitted
					httpfake.Recovered(func() { _, made, err = g.commit(t.Context(), store, &change{ID: i}) })
					if made != (i%2 == 0 && want != errNotCommitted) || !errors.Is(err, want) {
						t.Errorf("outcome %d is made: %v, %v", i, made, err)
					}
				})
			}
			wg.Wait()
			if took := time.Since(begin); took != 2*time.Second || !slices.Equal(commits, []int{1, 9}) {
				t.Errorf("commits of %d took %v", commits, took)
			}
		})
	}
}
