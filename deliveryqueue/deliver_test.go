package deliveryqueue

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/awsretry/delivery"
)

func TestDeliver(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 200)
		q := open(t, store, Config{})
		req := post(t, end.URL+"/hook?token=secret", "hello")
		req.Header = http.Header{"Authorization": {"Bearer secret"}, "X-Two": {"1", "2"}}
		id := enqueue(t, q, req, Options{Policy: parse(t, `{"requestPolicy": {"headerContentType": "application/json"}}`)})
		wantStats(t, q, Stats{Waiting: 1})
		start(t, q)
		waitFor(t, q, Stats{Delivered: 1})
		end.check(t, 1)
		g := end.requests()[0]
		h := g.header
		if g.body != "hello" || g.uri != "/hook?token=secret" || h.Get("Authorization") != "Bearer secret" ||
			strings.Join(h["X-Two"], " ") != "1 2" || h.Get("Content-Type") != "application/json" ||
			h.Get("Idempotency-Key") == "" {
			t.Errorf("got %+v", g)
		}
		d := get(t, q, id)
		if d.State != Delivered || d.Attempts != 1 || d.Status != 200 || d.URL != end.URL+"/hook" || d.Method != "POST" ||
			d.IdempotencyKey != h.Get("Idempotency-Key") || d.Err != "" || d.Reason != "" {
			t.Errorf("listed %+v", d)
		}
		if time.Since(d.Enqueued) > time.Minute || time.Since(d.Ended) > time.Minute || !d.Next.IsZero() {
			t.Errorf("times %v, %v, %v", d.Enqueued, d.Ended, d.Next)
		}
	})
}

func TestRetriesBySchedule(t *testing.T) {
	t.Parallel()
	end := newEndpoint(t, 503, 429, 500, 204)
	q := open(t, newSQLite(t), Config{})
	id := enqueue(t, q, post(t, end.URL, "hello"), Options{Policy: parse(t, `{"healthyRetryPolicy": {
		"numRetries": 3, "numNoDelayRetries": 2, "minDelayTarget": 1, "maxDelayTarget": 1}}`)})
	// With a delay this one is not delivered before the test gives up.
	atOnce := newEndpoint(t, 503, 503, 200)
	enqueue(t, q, post(t, atOnce.URL, "hello"), Options{Policy: parse(t, `{"healthyRetryPolicy": {
		"numRetries": 3, "numNoDelayRetries": 2, "minDelayTarget": 1000, "maxDelayTarget": 1000}}`)})
	start(t, q)
	waitFor(t, q, Stats{Delivered: 2})
	all := end.requests()
	if len(all) != 4 {
		t.Fatalf("%d attempts", len(all))
	}
	if delay := all[3].at.Sub(all[2].at); delay < time.Second {
		t.Errorf("the delay is %v, want 1s", delay)
	}
	for _, g := range all {
		if g.body != "hello" || g.header.Get("Idempotency-Key") != all[0].header.Get("Idempotency-Key") {
			t.Errorf("an attempt has body %q, header %v", g.body, g.header)
		}
	}
	if d := get(t, q, id); d.Attempts != 4 || d.Status != 204 {
		t.Errorf("listed %+v", d)
	}
}

func TestDeadLettersAreRedriven(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		permanent, exhausted := newEndpoint(t, 400), newEndpoint(t, 503)
		q := open(t, store, Config{})
		enqueue(t, q, post(t, permanent.URL, "one"), Options{Policy: retries(t, 2), IdempotencyKey: "key 1"})
		enqueue(t, q, post(t, exhausted.URL, "two"), Options{Policy: retries(t, 2)})
		start(t, q)
		waitFor(t, q, Stats{Dead: 2})
		for i, want := range []Delivery{
			{Attempts: 1, Status: 400, Reason: "permanent"}, {Attempts: 3, Status: 503, Reason: "max_attempts"},
		} {
			d := list(t, q, Filter{State: Dead})[i]
			if d.Attempts != want.Attempts || d.Status != want.Status || d.Reason != want.Reason {
				t.Errorf("dead letter %+v", d)
			}
		}
		permanent.respond(200)
		exhausted.respond(200)
		must[int](t)(q.Redrive(t.Context(), Filter{Endpoint: permanent.URL}))
		waitFor(t, q, Stats{Delivered: 1, Dead: 1})
		must[int](t)(q.Redrive(t.Context(), Filter{Limit: 5}))
		waitFor(t, q, Stats{Delivered: 2})
		if last := permanent.requests()[1]; last.body != "one" || last.header.Get("Idempotency-Key") != "key 1" {
			t.Errorf("redriven: %+v", last)
		}
		if d := list(t, q, Filter{})[1]; d.Attempts != 1 || d.Reason != "" {
			t.Errorf("redriven: %+v", d)
		}
		if _, err := q.Redrive(t.Context(), Filter{State: Running}); err == nil {
			t.Error("Redrive took running ones")
		}
	})
}

// Many dead letters are redriven in several statements, each once.
func TestManyAreRedriven(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long with the race detector; make test runs it without")
	}
	t.Parallel()
	q := open(t, newSQLite(t), Config{})
	const n = batchSize + 10
	enqueue(t, q, post(t, "http://endpoint.test", "hello"), Options{})
	backlog(t, q, n)
	execute(t, q.store.db, `UPDATE river_job SET state = 'discarded', finalized_at = CURRENT_TIMESTAMP`)
	for _, tt := range []struct{ limit, want int }{{batchSize + 1, batchSize + 1}, {0, n - batchSize - 1}, {0, 0}} {
		if got, err := q.Redrive(t.Context(), Filter{Limit: tt.limit}); got != tt.want || err != nil {
			t.Errorf("redrove %d, %v; want %d", got, err, tt.want)
		}
	}
	wantStats(t, q, Stats{Waiting: n})
}

// River counts attempts in 16 bits, and the policy of AWS-managed endpoints has
// 100,015 retries.
func TestManyAttempts(t *testing.T) {
	t.Parallel()
	end := newEndpoint(t, 503)
	q := open(t, newSQLite(t), Config{})
	for _, attempts := range []int{100_014, 100_015} {
		id := enqueue(t, q, post(t, end.URL, "hello"), Options{Policy: delivery.AWSManaged()})
		setJob(t, q, id, fmt.Sprintf(`metadata = jsonb_patch(metadata, '{"output": {"attempts": %d}}')`, attempts))
	}
	start(t, q)
	waitFor(t, q, Stats{Waiting: 1, Dead: 1})
	eventually(t, "the last retry waits", func() bool { return list(t, q, Filter{})[0].Attempts == 100_015 })
	waiting, dead := list(t, q, Filter{})[0], list(t, q, Filter{})[1]
	if delay := time.Until(waiting.Next); delay < 10*time.Second || delay > 22*time.Second {
		t.Errorf("the last retry is in %v", delay)
	}
	if dead.Attempts != 100_016 || dead.Reason != "max_attempts" {
		t.Errorf("%+v", dead)
	}
}

// 401, 403 and 404 are retried for an hour from the first of them, unless RetryStatus
// says otherwise.
func TestRefusals(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		for _, status := range []int{401, 403, 404} {
			end := newEndpoint(t, status)
			q := open(t, store, Config{})
			id := enqueue(t, q, post(t, end.URL, "hello"), Options{Policy: parse(t, `{"healthyRetryPolicy": {"minDelayTarget": 300, "maxDelayTarget": 300}}`)})
			stop := start(t, q)
			eventually(t, "an attempt", func() bool { return get(t, q, id).Attempts == 1 })
			if d := get(t, q, id); d.State != Waiting || time.Until(d.Next) > time.Hour {
				t.Errorf("%d: %+v", status, d)
			}
			again := func(since time.Duration) {
				record := fmt.Sprintf(`{"output": {"attempts": 1, "refused": %d}}`, time.Now().Add(-since).UnixMicro())
				merged := `metadata || '` + record + `'`
				if q.store.sqlite {
					merged = `jsonb_patch(metadata, '` + record + `')`
				}
				setJob(t, q, id, `state = 'available', scheduled_at = `+q.store.after(`0`)+`, metadata = `+merged)
			}
			again(refusedFor - time.Minute)
			eventually(t, "the second", func() bool { return get(t, q, id).Attempts == 2 })
			if d := get(t, q, id); d.State != Waiting {
				t.Errorf("%d, before an hour: %+v", status, d)
			}
			again(refusedFor)
			eventually(t, "the third", func() bool { return get(t, q, id).State == Dead })
			if d := get(t, q, id); d.Reason != "permanent" || d.Attempts != 2 {
				t.Errorf("%d, after an hour: %+v", status, d)
			}
			stop()
			q = open(t, store, Config{RetryStatus: func(int) bool { return false }})
			id = enqueue(t, q, post(t, end.URL, "hello"), Options{})
			stop = start(t, q)
			eventually(t, "it is dead", func() bool { return get(t, q, id).State == Dead })
			stop()
		}
	})
}
