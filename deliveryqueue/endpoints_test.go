package deliveryqueue

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry/delivery"
	"example.com/awsretry/internal/httpfake"
)

// endpoints returns the endpoints by their URLs.
func endpoints(t *testing.T, q *Queue) map[string]Endpoint {
	t.Helper()
	byURL := make(map[string]Endpoint)
	for _, e := range must[[]Endpoint](t)(q.Endpoints(t.Context())) {
		byURL[e.URL] = e
	}
	return byURL
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		const a, b = "http://a.test", "http://b.test"
		var ids []int64
		for _, url := range []string{a, a, b, b, b} {
			ids = append(ids, enqueue(t, q, post(t, url, "hello"), Options{}))
		}
		setJob(t, q, ids[0], `scheduled_at = `+q.store.after(`-30`))
		setJob(t, q, ids[1], `state = 'scheduled', scheduled_at = `+q.store.after(`60`))
		setJob(t, q, ids[2], `state = 'running', attempted_at = `+q.store.after(`0`))
		setJob(t, q, ids[3], `state = 'discarded', finalized_at = `+q.store.after(`0`))
		setJob(t, q, ids[4], `state = 'completed', finalized_at = `+q.store.after(`0`))
		check(t, q.Pause(t.Context(), "HTTPS://C.test"))
		all := endpoints(t, q)
		paused := all["https://c.test"].Paused
		if time.Since(paused).Abs() > time.Minute {
			t.Errorf("it is paused since %v", paused)
		}
		if late := time.Since(all[a].Due); late < 25*time.Second || late > time.Minute {
			t.Errorf("it has been due for %v", late)
		}
		want := map[string]Endpoint{
			a:                {URL: a, Waiting: 2, Due: all[a].Due},
			b:                {URL: b, Running: 1, Dead: 1},
			"https://c.test": {URL: "https://c.test", Paused: paused},
		}
		if !reflect.DeepEqual(all, want) {
			t.Errorf("%+v\nwant %+v", all, want)
		}
	})
}

func TestPause(t *testing.T) {
	t.Parallel()
	paused, other := newEndpoint(t, 200), newEndpoint(t, 200)
	q := open(t, newSQLite(t), Config{})
	check(t, q.Pause(t.Context(), paused.URL))
	enqueue(t, q, post(t, paused.URL, "hello"), Options{})
	enqueue(t, q, post(t, other.URL, "hello"), Options{})
	start(t, q)
	waitFor(t, q, Stats{Delivered: 1, Waiting: 1})
	time.Sleep(100 * time.Millisecond)
	paused.check(t, 0)
	check(t, q.Resume(t.Context(), paused.URL))
	waitFor(t, q, Stats{Delivered: 2})
	for _, bad := range []string{"ftp://example.com", "https://u@example.com/path", "https://"} {
		for _, err := range []error{q.Pause(t.Context(), bad), q.Resume(t.Context(), bad)} {
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q; it must be", bad)) {
				t.Errorf("%q: %v", bad, err)
			}
		}
	}
}

// Resume fails if there is nothing to end.
func TestResumeOfNothing(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		const name = "http://endpoint.test"
		resume := func(what string, paused bool) {
			t.Helper()
			if err := q.Resume(t.Context(), name); errors.Is(err, ErrNotPaused) == paused || paused && err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		resume("unknown", false)
		check(t, q.Pause(t.Context(), name))
		resume("paused", true)
		resume("resumed", false)
		check(t, q.store.leaveAlone(t.Context(), name, time.Minute))
		resume("after a Retry-After", true)
		check(t, q.store.setHealth(t.Context(), name, true))
		resume("failing", true)
		check(t, q.store.setHealth(t.Context(), name, true))
		if _, disabled, err := q.store.disable(t.Context(), name, 0, -time.Hour, false); !disabled || err != nil {
			t.Fatal(disabled, err)
		}
		resume("disabled", true)
	})
}

// A Retry-After is obeyed by all deliveries to the endpoint, also in other
// processes and if the endpoint has a throttle, up to the limit.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		limit  time.Duration
		header string
		want   time.Duration
	}{{0, "1", time.Second}, {300 * time.Millisecond, "3600", 300 * time.Millisecond}, {-1, "3600", 0}} {
		t.Run(fmt.Sprint(tt.limit), func(t *testing.T) {
			t.Parallel()
			times, store := make(chan time.Time, 10), newSQLite(t)
			base := httpfake.Base(func(req *http.Request) (*http.Response, error) {
				times <- time.Now()
				if len(times) == 1 {
					return httpfake.Response(req, 503, http.NoBody, "Retry-After", tt.header), req.Body.Close()
				}
				return httpfake.Empty(204, req), req.Body.Close()
			})
			q := open(t, store, Config{Base: base, MaxRetryAfter: tt.limit})
			policy := retries(t, 1)
			policy.ThrottlePolicy = throttle(t, 100).ThrottlePolicy
			first := enqueue(t, q, post(t, "http://endpoint.test", "hello"), Options{Policy: policy})
			start(t, q)
			start(t, open(t, store, Config{Base: base, MaxRetryAfter: tt.limit}))
			eventually(t, "the first attempt's outcome", func() bool { return get(t, q, first).Attempts > 0 })
			enqueue(t, q, post(t, "http://endpoint.test", "hello"), Options{})
			waitFor(t, q, Stats{Delivered: 2})
			begin, second := <-times, <-times
			waited := second.Sub(begin)
			// SQLite's clock has milliseconds.
			if len(times) != 1 || waited < tt.want-2*time.Millisecond || tt.want == 0 && waited > time.Minute {
				t.Errorf("%d attempts, the second after %v", len(times)+2, waited)
			}
		})
	}
}

// A delivery's next attempt is not before its endpoint's Retry-After.
func TestNextKnowsRetryAfter(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		outcomes := make(chan Delivery, 1)
		q := open(t, store, Config{
			OnOutcome: func(d Delivery) { outcomes <- d },
			Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
				return httpfake.Response(req, 503, http.NoBody, "Retry-After", "1000"), req.Body.Close()
			}),
		})
		start(t, q)
		id := enqueue(t, q, post(t, "http://endpoint.test", "hello"), Options{Policy: retries(t, 3)})
		for _, d := range []Delivery{<-outcomes, get(t, q, id)} {
			if wait := time.Until(d.Next); wait < 990*time.Second || wait > 1010*time.Second {
				t.Errorf("the next attempt is in %v", wait)
			}
		}
	})
}

// An endpoint that fails for long is disabled: its deliveries wait, and their
// policies do not continue, until a probe succeeds.
func TestDisableAfter(t *testing.T) {
	t.Parallel()
	const limit = 200 * time.Millisecond
	end, store := newEndpoint(t, 503), newSQLite(t)
	disabled := make(chan string, 10)
	config := Config{DisableAfter: limit, OnDisabled: func(endpoint string, since time.Time) {
		if failing := time.Since(since); failing < limit || failing > time.Minute {
			t.Errorf("it has been failing for %v", failing)
		}
		disabled <- endpoint
		panic("boom") // nothing depends on it
	}}
	q, other := open(t, store, config), open(t, store, config)
	for range 3 {
		enqueue(t, q, post(t, end.URL, "hello"), Options{Policy: delivery.CustomerManaged()})
		enqueue(t, q, post(t, end.URL, "hello"), Options{Policy: retries(t, 100)})
	}
	start(t, q)
	start(t, other)
	eventually(t, "it is disabled", func() bool { return !endpoints(t, q)[end.URL].Disabled.IsZero() })
	eventually(t, "what was in progress has ended", func() bool { return stats(t, q).Running == 0 })
	attempts := func() (sum int) {
		for _, d := range list(t, q, Filter{}) {
			sum += d.Attempts
		}
		return sum
	}
	requests, counted := len(end.requests()), attempts()
	for n := 1; n <= 3; n++ {
		if wait := time.Until(endpoints(t, q)[end.URL].Next); wait < probeInterval-time.Minute || wait > probeInterval {
			t.Errorf("the next probe is in %v", wait)
		}
		passProbeInterval(t, q)
		end.wait(t, requests+n)
		eventually(t, "the probe has ended", func() bool { return stats(t, q).Running == 0 })
	}
	end.check(t, requests+3)
	if n := attempts(); n != counted {
		t.Errorf("the policies count %d of the probes", n-counted)
	}
	end.respond(200)
	passProbeInterval(t, q)
	waitFor(t, q, Stats{Delivered: 6})
	if e := endpoints(t, q)[end.URL]; e != (Endpoint{}) {
		t.Errorf("%+v", e)
	}
	if name := <-disabled; name != end.URL || len(disabled) > 0 {
		t.Errorf("%q is disabled, and %d more", name, len(disabled))
	}
}

// passProbeInterval changes the times in the store to those of probeInterval ago.
func passProbeInterval(t *testing.T, q *Queue) {
	t.Helper()
	execute(t, q.store.db, `UPDATE river_job SET state = 'available', scheduled_at = `+q.store.after(`0`)+` WHERE state = 'scheduled'`)
	execute(t, q.store.db, q.store.query(`UPDATE deliveryqueue_endpoint SET alone_until = alone_until - $1`),
		probeInterval.Microseconds())
}

// No delivery is taken from an endpoint that was disabled since the look.
func TestDisabledSinceTheLook(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		enqueue(t, q, post(t, "http://endpoint.test", "hello"), Options{})
		check(t, q.store.setHealth(t.Context(), "http://endpoint.test", true))
		f := q.newFetcher(t.Context())
		chosen := must[[]candidate](t)(f.choose(t.Context()))
		if _, disabled, err := q.store.disable(t.Context(), "http://endpoint.test", 0, probeInterval, false); !disabled || err != nil {
			t.Fatal(disabled, err)
		}
		all := must[[]taken](t)(q.store.take(t.Context(), chosen, "a client"))
		if len(chosen) != 1 || len(all) != 0 {
			t.Errorf("%+v of %+v", all, chosen)
		}
	})
}

// A probe that the endpoint refuses for good becomes a dead letter, and Resume
// enables the endpoint.
func TestProbeIsRefused(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 410)
		q := open(t, store, Config{PerEndpoint: 1}) // they fail one after another
		for range 4 {
			enqueue(t, q, post(t, end.URL, "hello"), Options{})
		}
		for dead := 1; dead <= 4; dead++ {
			stop := start(t, q)
			waitFor(t, q, Stats{Waiting: 4 - dead, Dead: dead})
			eventually(t, "it is disabled", func() bool { return !endpoints(t, q)[end.URL].Disabled.IsZero() })
			stop() // a look from before it was disabled would take a delivery after the interval
			passProbeInterval(t, q)
		}
		if endpoints(t, q)[end.URL].Disabled.IsZero() {
			t.Errorf("%+v", endpoints(t, q))
		}
		check(t, q.Resume(t.Context(), end.URL))
		if e := endpoints(t, q)[end.URL]; !e.Disabled.IsZero() || !e.Failing.IsZero() || !e.Next.IsZero() {
			t.Errorf("%+v", e)
		}
	})
}

// A success clears failures that another process recorded before it, also if its own
// process stops.
func TestSuccessBesideAFailure(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		for i, stops := range []bool{true, false} {
			end := newEndpoint(t, 200)
			end.hold = make(chan struct{})
			q := open(t, store, Config{})
			check(t, q.store.setHealth(t.Context(), end.URL, false))
			stop := startOne(t, q, end)
			check(t, q.store.setHealth(t.Context(), end.URL, true))
			if endpoints(t, q)[end.URL].Failing.IsZero() {
				t.Error("it is not failing")
			}
			// An attempt's time is the time of its fetch plus its duration, so it may
			// be early.
			execute(t, q.store.db, `UPDATE deliveryqueue_endpoint SET failing_since = failing_since - 60000000`)
			close(end.hold)
			waitFor(t, q, Stats{Delivered: i + 1})
			if stops {
				stop()
			} else {
				eventually(t, "it is not failing", func() bool { return endpoints(t, q)[end.URL].Failing.IsZero() })
			}
			if e := endpoints(t, q)[end.URL]; !e.Failing.IsZero() {
				t.Errorf("%+v", e)
			}
		}
	})
}

// The row of an unused endpoint is deleted, unless the endpoint is paused or, while
// it has deliveries, failing.
func TestForget(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		for _, name := range []string{"old", "paused", "new", "failed", "failing", "dead", "running"} {
			check(t, q.store.setHealth(t.Context(), "http://"+name+".test", !strings.Contains("old paused new", name)))
		}
		check(t, q.Pause(t.Context(), "http://paused.test"))
		for name, state := range map[string]string{
			"failing": `state = 'scheduled', scheduled_at = ` + q.store.after(`600`),
			"dead":    `state = 'discarded', finalized_at = ` + q.store.after(`0`),
			"running": `state = 'running', attempted_at = ` + q.store.after(`0`),
		} {
			setJob(t, q, enqueue(t, q, post(t, "http://"+name+".test", "hello"), Options{}), state)
		}
		execute(t, q.store.db, q.store.query(`UPDATE deliveryqueue_endpoint SET used_at = used_at - $1 WHERE endpoint <> 'http://new.test'`),
			(keepEndpoint + time.Hour).Microseconds())
		check(t, q.store.forget(t.Context()))
		var left []string
		for name := range endpoints(t, q) {
			left = append(left, name)
		}
		slices.Sort(left)
		want := []string{"http://dead.test", "http://failing.test", "http://paused.test", "http://running.test"}
		if !slices.Equal(left, want) || scan[int](t, q, `SELECT count(*) FROM deliveryqueue_endpoint`) != len(want)+1 {
			t.Errorf("%q are left, want %q and http://new.test", left, want)
		}
	})
}

// A response 410 disables an endpoint with a name, and an origin unless another
// delivery to it succeeded lately.
func TestGone(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		for _, tt := range []struct {
			name       string
			named      string // Options.Endpoint
			works      bool   // something is delivered to the origin before
			retry      bool   // Config.RetryStatus retries 410
			isDisabled bool
		}{
			{"origin", "", false, false, true}, {"shared", "", true, false, false},
			{"named", "customer", true, false, true}, {"retried", "", false, true, false},
		} {
			base := httpfake.Base(func(req *http.Request) (*http.Response, error) {
				if req.URL.Path == "/gone" {
					return httpfake.Empty(410, req), req.Body.Close()
				}
				return httpfake.Empty(204, req), req.Body.Close()
			})
			config := Config{Base: base}
			if tt.retry {
				config.RetryStatus = func(status int) bool { return status == 410 }
			}
			q := open(t, store, config)
			stop := start(t, q)
			origin := "http://" + tt.name + ".test"
			before := stats(t, q)
			if tt.works {
				enqueue(t, q, post(t, origin+"/works", "hello"), Options{})
				eventually(t, "it works", func() bool { return stats(t, q).Delivered > before.Delivered })
			}
			id := enqueue(t, q, post(t, origin+"/gone", "hello"), Options{Endpoint: tt.named, Policy: retries(t, 0)})
			eventually(t, "it is dead", func() bool { return get(t, q, id).State == Dead })
			stop()
			if e := endpoints(t, q)[cmp.Or(tt.named, origin)]; e.Disabled.IsZero() == tt.isDisabled || e.Dead != 1 {
				t.Errorf("%s: %+v", tt.name, e)
			}
		}
	})
}

// Nor if another process has delivered something to it, or if a success is not yet
// committed.
func TestGoneBesideSuccesses(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		var responses atomic.Int64
		base := httpfake.Base(func(req *http.Request) (*http.Response, error) {
			if req.URL.Path == "/gone" {
				return httpfake.Empty(410, req), req.Body.Close()
			}
			responses.Add(1)
			return httpfake.Empty(204, req), req.Body.Close()
		})
		gone := func(q *Queue, origin string) {
			t.Helper()
			id := enqueue(t, q, post(t, origin+"/gone", "hello"), Options{Policy: retries(t, 0)})
			eventually(t, "it is dead", func() bool { return get(t, q, id).State == Dead })
		}
		config := Config{Base: base, OnDisabled: func(endpoint string, _ time.Time) { t.Errorf("%s is disabled", endpoint) }}
		q, other := open(t, store, config), open(t, store, config)
		stop := start(t, other)
		enqueue(t, other, post(t, "http://other.test/works", "hello"), Options{})
		waitFor(t, other, Stats{Delivered: 1})
		stop()
		stop = start(t, q)
		gone(q, "http://other.test")

		refuse, restore := `CREATE TRIGGER refuse BEFORE UPDATE ON river_job WHEN NEW.state = 'completed' BEGIN SELECT RAISE(ABORT, 'no'); END`,
			`DROP TRIGGER refuse`
		if !q.store.sqlite {
			refuse, restore = `ALTER TABLE river_job ADD CONSTRAINT refuse CHECK (state <> 'completed') NOT VALID`,
				`ALTER TABLE river_job DROP CONSTRAINT refuse`
		}
		execute(t, q.store.db, refuse)
		enqueue(t, q, post(t, "http://slow.test/works", "hello"), Options{})
		eventually(t, "a success", func() bool { return responses.Load() > 1 })
		gone(q, "http://slow.test")
		execute(t, q.store.db, restore)
		stop()
		wantStats(t, q, Stats{Delivered: 2, Dead: 2})
	})
}
