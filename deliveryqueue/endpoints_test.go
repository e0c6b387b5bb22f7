package deliveryqueue

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/awsretry/delivery"
)

// endpoints returns the endpoints by their URLs.
func endpoints(t *testing.T, q *Queue) map[string]Endpoint {
	t.Helper()
	all, err := q.Endpoints(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	byURL := make(map[string]Endpoint)
	for _, e := range all {
		byURL[e.URL] = e
	}
	if len(byURL) != len(all) {
		t.Errorf("an endpoint is there twice: %+v", all)
	}
	return byURL
}

// retriesAtOnce is a policy.
const retriesAtOnce = `{"healthyRetryPolicy": {"numRetries": %[1]d, "numNoDelayRetries": %[1]d}}`

func TestEndpoints(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		const a, b = "http://a.test", "http://b.test"
		var ids []int64
		for _, url := range []string{a, a, b, b, b} {
			ids = append(ids, enqueue(t, q, post(t, url, "hello"), Options{}))
		}
		setJob(t, q, ids[0], `created_at = `+q.store.after(`-60`))
		setJob(t, q, ids[1], `state = 'scheduled', scheduled_at = `+q.store.after(`60`))
		setJob(t, q, ids[2], `state = 'running', attempted_at = `+q.store.after(`0`))
		setJob(t, q, ids[3], `state = 'discarded', finalized_at = `+q.store.after(`0`))
		setJob(t, q, ids[4], `state = 'completed', finalized_at = `+q.store.after(`0`))
		if err := q.Pause(t.Context(), "HTTPS://C.test"); err != nil {
			t.Fatal(err)
		}
		all := endpoints(t, q)
		paused := all["https://c.test"].Paused
		if time.Since(paused).Abs() > time.Minute {
			t.Errorf("it is paused since %v", paused)
		}
		oldest := all[a].Oldest
		if age := time.Since(oldest); age < 50*time.Second || age > 2*time.Minute {
			t.Errorf("the oldest was enqueued %v ago", age)
		}
		want := map[string]Endpoint{
			a:                {URL: a, Waiting: 2, Oldest: oldest},
			b:                {URL: b, Running: 1, Dead: 1},
			"https://c.test": {URL: "https://c.test", Paused: paused},
		}
		if !reflect.DeepEqual(all, want) {
			t.Errorf("%+v\nwant %+v", all, want)
		}
	})
}

// The endpoints are counted in the order of the indexes.
func TestEndpointsAreCountedInIndexes(t *testing.T) {
	t.Parallel()
	q := open(t, newSQLite(t), Config{})
	for index, condition := range map[string]string{"deliveryqueue_due": q.store.available(), "deliveryqueue_aside": aside} {
		var plan []string
		if err := q.store.each(t.Context(), func(rows *sql.Rows) error {
			var id, parent, unused int
			var step string
			err := rows.Scan(&id, &parent, &unused, &step)
			plan = append(plan, step)
			return err
		}, `EXPLAIN QUERY PLAN `+q.store.countQuery(index, condition)); err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(plan, "\n"); text != "SCAN river_job USING INDEX "+index {
			t.Errorf("the plan is\n%s", text)
		}
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		paused, other := newEndpoint(t, 200), newEndpoint(t, 200)
		q := open(t, store, Config{})
		if err := q.Pause(t.Context(), paused.URL); err != nil {
			t.Fatal(err)
		}
		enqueue(t, q, post(t, paused.URL, "hello"), Options{})
		enqueue(t, q, post(t, other.URL, "hello"), Options{})
		start(t, q)
		waitFor(t, q, Stats{Delivered: 1, Waiting: 1})
		time.Sleep(100 * time.Millisecond)
		paused.check(t, 0)
		if err := q.Resume(t.Context(), paused.URL); err != nil {
			t.Fatal(err)
		}
		waitFor(t, q, Stats{Delivered: 2})
	})
}

func TestPauseRefuses(t *testing.T) {
	t.Parallel()
	q := open(t, newSQLite(t), Config{})
	for _, bad := range []string{"", "example.com", "ftp://example.com", "https://example.com/path", "https://u@example.com", "https://"} {
		for name, f := range map[string]error{"Pause": q.Pause(t.Context(), bad), "Resume": q.Resume(t.Context(), bad)} {
			if f == nil || !strings.Contains(f.Error(), fmt.Sprintf("%q; it must be", bad)) {
				t.Errorf("%s of %q: %v", name, bad, f)
			}
		}
	}
}

// A Retry-After is obeyed by all deliveries to the endpoint, also in other
// processes, up to the limit.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		for _, tt := range []struct {
			limit  time.Duration
			header string
			want   time.Duration
		}{{0, "1", time.Second}, {300 * time.Millisecond, "3600", 300 * time.Millisecond}, {-1, "3600", 0}} {
			var mu sync.Mutex
			var times []time.Time
			base := roundTripper(func(req *http.Request) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				times = append(times, time.Now())
				resp, err := noContent(req)
				if len(times) == 1 {
					resp.StatusCode, resp.Header = 503, http.Header{"Retry-After": {tt.header}}
				}
				return resp, err
			})
			q := open(t, store, Config{Base: base, MaxRetryAfter: tt.limit})
			url := fmt.Sprintf("http://endpoint%d.test", tt.limit)
			enqueue(t, q, post(t, url, "hello"), Options{Policy: parse(t, fmt.Sprintf(retriesAtOnce, 1))})
			stop, stopOther := start(t, q), start(t, open(t, store, Config{Base: base, MaxRetryAfter: tt.limit}))
			eventually(t, "the first attempt", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(times) > 0
			})
			time.Sleep(50 * time.Millisecond) // so that the outcome is committed
			enqueue(t, q, post(t, url, "hello"), Options{})
			eventually(t, "both are delivered", func() bool { return stats(t, q).open() == 0 })
			stop()
			stopOther()
			// SQLite's clock has milliseconds.
			if waited := times[1].Sub(times[0]); len(times) != 3 || waited < tt.want-2*time.Millisecond || tt.want == 0 && waited > time.Minute {
				t.Errorf("Retry-After %s, at most %v: %d attempts, the second after %v", tt.header, tt.limit, len(times), waited)
			}
		}
	})
}

// An endpoint that fails for long is disabled: its deliveries wait, and their
// policies do not go on, until a probe succeeds.
func TestDisableAfter(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		const limit = 300 * time.Millisecond
		end := newEndpoint(t, 503)
		var mu sync.Mutex
		var disabled []string
		config := Config{DisableAfter: limit, OnDisabled: func(endpoint string, since time.Time) {
			mu.Lock()
			defer mu.Unlock()
			disabled = append(disabled, endpoint)
			if failing := time.Since(since); failing < limit || failing > time.Minute {
				t.Errorf("it has been failing for %v", failing)
			}
			panic("boom") // nothing depends on it
		}}
		q, other := open(t, store, config), open(t, store, config)
		q.timing.probe, other.timing.probe = 200*time.Millisecond, 200*time.Millisecond
		for range 3 {
			enqueue(t, q, post(t, end.URL, "hello"), Options{Policy: delivery.CustomerManaged()})
			enqueue(t, q, post(t, end.URL, "hello"), Options{Policy: parse(t, fmt.Sprintf(retriesAtOnce, 100))})
		}
		start(t, q)
		start(t, other)
		eventually(t, "it is disabled", func() bool { return !endpoints(t, q)[end.URL].Disabled.IsZero() })
		eventually(t, "what was in progress has ended", func() bool { return stats(t, q).Running == 0 })
		attempts := func() (sum int) {
			for d, err := range q.List(t.Context(), Filter{}) {
				if err != nil {
					t.Fatal(err)
				}
				sum += d.Attempts
			}
			return sum
		}
		begin, requests, counted := time.Now(), len(end.requests()), attempts()
		end.wait(t, requests+3)
		if took := time.Since(begin); took < 2*q.timing.probe {
			t.Errorf("3 probes in %v", took)
		}
		if n := attempts(); n != counted {
			t.Errorf("the policies count %d of the probes", n-counted)
		}
		end.respond(200)
		waitFor(t, q, Stats{Delivered: 6})
		if e := endpoints(t, q)[end.URL]; e != (Endpoint{}) {
			t.Errorf("%+v", e)
		}
		mu.Lock()
		defer mu.Unlock()
		if !reflect.DeepEqual(disabled, []string{end.URL}) {
			t.Errorf("disabled: %q", disabled)
		}
	})
}

// A probe that the endpoint refuses for good is a dead letter, and Resume enables
// the endpoint.
func TestProbeIsRefused(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 404)
		q := open(t, store, Config{DisableAfter: time.Millisecond})
		q.timing.probe = 50 * time.Millisecond
		for range 4 {
			enqueue(t, q, post(t, end.URL, "hello"), Options{})
		}
		stop := start(t, q)
		waitFor(t, q, Stats{Dead: 4})
		stop()
		if endpoints(t, q)[end.URL].Disabled.IsZero() {
			t.Errorf("%+v", endpoints(t, q))
		}
		if err := q.Resume(t.Context(), end.URL); err != nil {
			t.Fatal(err)
		}
		if e := endpoints(t, q)[end.URL]; !e.Disabled.IsZero() || !e.Failing.IsZero() || !e.Next.IsZero() {
			t.Errorf("%+v", e)
		}
	})
}

// A Retry-After is obeyed too where some deliveries to the endpoint have a
// throttle.
func TestRetryAfterBesideAThrottle(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		var mu sync.Mutex
		var times []time.Time
		q := open(t, store, Config{PollInterval: 500 * time.Millisecond, Base: roundTripper(
			func(req *http.Request) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				times = append(times, time.Now())
				resp, err := noContent(req)
				if len(times) == 2 {
					resp.StatusCode, resp.Header = 503, http.Header{"Retry-After": {"1"}}
				}
				return resp, err
			})})
		enqueue(t, q, post(t, "http://a.test", "x"), Options{Policy: parse(t, `{"throttlePolicy": {"maxReceivesPerSecond": 10}}`)})
		start(t, q)
		waitFor(t, q, Stats{Delivered: 1})
		enqueue(t, q, post(t, "http://a.test", "x"), Options{Policy: parse(t, fmt.Sprintf(retriesAtOnce, 1))})
		waitFor(t, q, Stats{Delivered: 2})
		if waited := times[2].Sub(times[1]); waited < 990*time.Millisecond {
			t.Errorf("the retry came after %v", waited)
		}
	})
}

// A success clears what another process noted before it.
func TestSuccessBesideAFailure(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 200)
		end.hold = make(chan struct{})
		q := open(t, store, Config{})
		q.timing.sweep = 20 * time.Millisecond
		hasResponded(t, q, end.URL)
		startOne(t, q, end)
		if err := q.store.setHealth(t.Context(), end.URL, false, true); err != nil {
			t.Fatal(err)
		}
		if endpoints(t, q)[end.URL].Failing.IsZero() {
			t.Error("it is not failing")
		}
		time.Sleep(10 * time.Millisecond)
		close(end.hold)
		waitFor(t, q, Stats{Delivered: 1})
		eventually(t, "it is not failing", func() bool { return endpoints(t, q)[end.URL].Failing.IsZero() })
	})
}

// What is known of an endpoint that is not used is forgotten, apart from what
// somebody has to know.
func TestForget(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		for _, url := range []string{"http://old.test", "http://failing.test", "http://paused.test", "http://new.test"} {
			if err := q.store.setHealth(t.Context(), url, false, url == "http://failing.test"); err != nil {
				t.Fatal(err)
			}
		}
		if err := q.Pause(t.Context(), "http://paused.test"); err != nil {
			t.Fatal(err)
		}
		execute(t, q.store.db, q.store.query(`UPDATE deliveryqueue_endpoint SET used_at = used_at - $1 WHERE endpoint <> 'http://new.test'`),
			(keepEndpoint + time.Hour).Microseconds())
		start(t, q)
		const count = `SELECT count(*), count(CASE WHEN endpoint = 'http://old.test' THEN 1 END) FROM deliveryqueue_endpoint`
		var all, old int
		eventually(t, "one is forgotten", func() bool {
			if err := q.store.db.QueryRow(count).Scan(&all, &old); err != nil {
				t.Fatal(err)
			}
			return old == 0
		})
		if all != 3 {
			t.Errorf("%d are left", all)
		}
	})
}

// River learns in time that its queue is paused, also if a look takes longer than
// Config.PollInterval.
func TestSlowLooks(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f := q.newFetcher(ctx)
		f.poll = time.Nanosecond
		go func() {
			_, err := f.fetch(t.Context(), "a client")
			ended <- err
		}()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("the fetch goes on")
		}
	})
}

// A look goes over so many endpoints at most, and the next one goes on from there.
func TestManyEndpoints(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		const n = 8000
		enqueue(t, q, post(t, "http://seed.test", "x"), Options{})
		numbers := `(SELECT generate_series(1, $1) AS n) AS g`
		meta := `jsonb_build_object('delivery', jsonb_build_object('endpoint', 'http://h' || n, 'key', 'k'))`
		if q.store.sqlite {
			numbers = `(WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < ?1) SELECT n FROM c) AS g`
			meta = `jsonb_object('delivery', jsonb_object('endpoint', 'http://h' || n, 'key', 'k'))`
		}
		execute(t, q.store.db, `INSERT INTO river_job (args, kind, max_attempts, metadata, priority, queue, scheduled_at, state)
			SELECT args, kind, max_attempts, `+meta+`, priority, queue, scheduled_at, state FROM river_job, `+numbers, n)
		execute(t, q.store.db, `INSERT INTO deliveryqueue_endpoint (endpoint, next_at, tail_at, slow)
			SELECT 'http://h' || n, 0, 0, 2 FROM `+numbers, n)
		f := q.newFetcher(t.Context())
		for job := range int64(2) { // the part of those that hang
			f.lanes.enter(job, fmt.Sprint(job), health{slow: 2})
		}
		looks := 1
		for ; looks < 20; looks++ {
			f.next = time.Now().Add(f.poll)
			taken, err := f.choose(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(taken) > 0 {
				break
			}
			if time.Until(f.next) > f.poll/2 {
				t.Errorf("look %d: the next is in %v", looks, time.Until(f.next))
			}
		}
		if looks < 3 || looks > 8 { // to http://seed.test, the last
			t.Errorf("%d looks", looks)
		}
	})
}

// Endpoints with a throttle do not hold up the others.
func TestThrottlesHoldUpNobody(t *testing.T) {
	if testing.Short() {
		t.Skip("under the race detector, its times say nothing")
	}
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		var mu sync.Mutex
		var late []time.Duration
		q := open(t, store, Config{PollInterval: defaultPollInterval, Base: roundTripper(
			func(req *http.Request) (*http.Response, error) {
				if sent, err := strconv.ParseInt(req.URL.Query().Get("sent"), 10, 64); err == nil {
					mu.Lock()
					late = append(late, time.Since(time.Unix(0, sent)))
					mu.Unlock()
				}
				return noContent(req)
			})})
		policy := parse(t, `{"throttlePolicy": {"maxReceivesPerSecond": 1}}`)
		for i := range 60 {
			for range 5 {
				enqueue(t, q, post(t, fmt.Sprintf("http://throttled%d.test", i), "x"), Options{Policy: policy})
			}
		}
		start(t, q)
		const n = 40
		for range n {
			time.Sleep(50 * time.Millisecond)
			enqueue(t, q, post(t, fmt.Sprintf("http://other.test/?sent=%d", time.Now().UnixNano()), "x"), Options{})
		}
		eventually(t, "the others are delivered", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(late) == n
		})
		slices.Sort(late)
		if median, p99 := late[n/2], late[n-1]; median > 300*time.Millisecond || p99 > 2*time.Second {
			t.Errorf("half were later than %v, and one %v", median, p99)
		}
		t.Logf("median %v, at most %v", late[n/2], late[n-1])
	})
}
