package deliveryqueue

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/delivery"
	"example.com/awsretry/deliveryqueue/internal/storetest"
)

// responses is a Base that responds with one status after the other, and with a
// body that has a control character.
func responses(statuses ...int) roundTripper {
	var mu sync.Mutex
	return func(req *http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		req.Body.Close()
		status := statuses[0]
		statuses = statuses[1:]
		if status == 0 {
			return nil, errors.New("boom\x1b[31m")
		}
		body := strings.Repeat("\x1b", 10) + strings.Repeat("é", 600)
		return &http.Response{
			StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: req,
		}, nil
	}
}

// OnOutcome is called once for each attempt, when its outcome is in the store,
// and Observe and Base have the ID.
func TestOnOutcome(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		var q *Queue
		var mu sync.Mutex
		var outcomes []Delivery
		var observed []int64
		q = open(t, store, Config{
			Base: responses(503, 0, 200, 404),
			Observe: func(a awsretry.Attempt) {
				id, _ := ID(a.Request.Context())
				mu.Lock()
				defer mu.Unlock()
				observed = append(observed, id)
			},
			OnOutcome: func(d Delivery) {
				stored := list(t, q, Filter{IDs: []int64{d.ID}})[0]
				if stored.Attempts < d.Attempts || d.State != Waiting && (stored.State != d.State || !stored.Ended.Equal(d.Ended)) ||
					!stored.Enqueued.Equal(d.Enqueued) || stored.URL != d.URL || stored.IdempotencyKey != d.IdempotencyKey {
					t.Errorf("OnOutcome has %+v, and List %+v", d, stored)
				}
				mu.Lock()
				defer mu.Unlock()
				outcomes = append(outcomes, d)
				panic("boom") // nothing depends on it
			},
		})
		first := enqueue(t, q, post(t, "http://endpoint.test/a?b=c", "hello"), Options{
			Policy: parse(t, `{"healthyRetryPolicy": {"numRetries": 2, "numNoDelayRetries": 2}}`)})
		start(t, q)
		waitFor(t, q, Stats{Delivered: 1})
		second := enqueue(t, q, post(t, "http://endpoint.test/", "hello"), Options{})
		waitFor(t, q, Stats{Delivered: 1, Dead: 1})
		eventually(t, "all outcomes", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(outcomes) == 4
		})
		if want := []int64{first, first, first, second}; !slices.Equal(observed, want) {
			t.Errorf("Observe has the IDs %d, want %d", observed, want)
		}
		for i, want := range []Delivery{
			{ID: first, State: Waiting, Attempts: 1, Status: 503},
			{ID: first, State: Waiting, Attempts: 2, Err: "boom"},
			{ID: first, State: Delivered, Attempts: 3, Status: 200},
			{ID: second, State: Dead, Attempts: 1, Status: 404, Reason: "permanent"},
		} {
			d := outcomes[i]
			if d.ID != want.ID || d.State != want.State || d.Attempts != want.Attempts || d.Status != want.Status ||
				!strings.HasPrefix(d.Err, want.Err) || d.Reason != want.Reason || d.Next.IsZero() != (d.State != Waiting) {
				t.Errorf("outcome %d is %+v, want %+v", i+1, d, want)
			}
		}
		if id, ok := ID(t.Context()); ok {
			t.Errorf("another context has the ID %d", id)
		}
	})
}

// What changed nothing in the store, because it came too late, is no outcome.
func TestOutcomeThatIsNone(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{OnOutcome: func(d Delivery) { t.Errorf("%+v", d) }})
		id := enqueue(t, q, post(t, "http://endpoint.test", ""), Options{})
		setJob(t, q, id, `state = 'running', attempt = 2`)
		q.settle(t.Context(), again(underWay(t, q, id, 1), record{}, 0))
		silent := again(underWay(t, q, id, 2), record{}, 0)
		silent.silent = true // the wait for a turn, or the end of Run
		q.settle(t.Context(), silent)
		waitFor(t, q, Stats{Waiting: 1})
	})
}

// List has the last attempts with the beginnings of the responses, but not of a
// sealed delivery.
func TestLastAttempts(t *testing.T) {
	t.Parallel()
	plain := func(b []byte) ([]byte, error) { return b, nil }
	onEach(t, func(t *testing.T, store string) {
		for _, sealed := range []bool{false, true} {
			statuses := []int{500, 501, 502, 0, 503, 504, 200}
			config := Config{Base: responses(statuses...)}
			if sealed {
				config.Seal, config.Open = plain, plain
			}
			q := open(t, store, config)
			id := enqueue(t, q, post(t, "http://endpoint.test/", "hello"), Options{
				Policy: parse(t, `{"healthyRetryPolicy": {"numRetries": 10, "numNoDelayRetries": 10}}`)})
			stop := start(t, q)
			eventually(t, "it is delivered", func() bool { return stats(t, q).open() == 0 })
			stop()
			last := list(t, q, Filter{IDs: []int64{id}})[0].Last
			if len(last) != keptResults {
				t.Fatalf("%d results", len(last))
			}
			for i, r := range last {
				body := strings.Repeat("é", (beginningSize-10)/2)
				if r.Status == 0 || sealed {
					body = ""
				}
				if r.Status != statuses[len(statuses)-keptResults+i] || (r.Err != "") != (r.Status == 0) ||
					strings.Trim(r.Body, "\uFFFD") != body || strings.Contains(r.Body+r.Err, "\x1b") ||
					r.Elapsed <= 0 || time.Since(r.Start).Abs() > time.Minute {
					t.Errorf("sealed: %v, result %d: %+v", sealed, i, r)
				}
			}
		}
	})
}

// The next attempt does not use an HTTP/2 connection on which one timed out.
func TestNextAttemptLeavesTheConnection(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var connections []string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		connections = append(connections, r.RemoteAddr)
		hangs := r.RemoteAddr == connections[0]
		mu.Unlock()
		if hangs {
			<-r.Context().Done()
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	q := open(t, newSQLite(t), Config{Base: server.Client().Transport, AttemptTimeout: 200 * time.Millisecond})
	enqueue(t, q, post(t, server.URL, "hello"), Options{Policy: parse(t, `{"healthyRetryPolicy": {
		"numRetries": 3, "numNoDelayRetries": 3}}`)})
	start(t, q)
	waitFor(t, q, Stats{Delivered: 1})
	if d := list(t, q, Filter{})[0]; d.Attempts != 2 {
		t.Errorf("%+v", d)
	}
}

// A Transport is kept for each policy, but not for any number of them.
func TestTransports(t *testing.T) {
	t.Parallel()
	q := &Queue{config: Config{}.withDefaults()}
	policy := &delivery.Policy{}
	first := q.transport(unread{policy: policy, policyText: "a"})
	if q.transport(unread{policy: policy, policyText: "a"}) != first || q.transport(unread{policy: policy, policyText: "b"}) == first {
		t.Error("the Transport is not that of the policy")
	}
	for i := range maxTransports {
		q.transport(unread{policy: policy, policyText: strings.Repeat("c", i)})
	}
	if n := len(q.transports.byPolicy); n > maxTransports {
		t.Errorf("%d Transports", n)
	}
}

// A stored request that was moved to the row of another delivery is not sent.
func TestRowOfAnotherDelivery(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 200)
		q := open(t, store, Config{})
		enqueue(t, q, post(t, end.URL, "hello"), Options{})
		enqueue(t, q, post(t, end.URL, "hello"), Options{})
		execute(t, q.store.db, `UPDATE river_job SET args = (SELECT args FROM river_job WHERE id = 1) WHERE id = 2`)
		start(t, q)
		waitFor(t, q, Stats{Delivered: 1, Dead: 1})
		if d := list(t, q, Filter{State: Dead})[0]; d.Reason != reasonUnreadable || !strings.Contains(d.Err, "another delivery") {
			t.Errorf("%+v", d)
		}
		end.check(t, 1)
	})
}

// A file that is gone takes no deliveries, and Run stops.
func TestFileIsDeleted(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{"", "-wal"} {
		t.Run("file"+suffix, func(t *testing.T) {
			t.Parallel()
			store := newSQLite(t)
			var log storetest.Buffer
			q := open(t, store, Config{})
			q.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
			q.timing.sweep = 20 * time.Millisecond
			ended := make(chan error, 1)
			go func() { ended <- q.Run(t.Context()) }()
			enqueue(t, q, post(t, "http://endpoint.test", "hello"), Options{})
			if err := os.Remove(store + suffix); err != nil {
				t.Fatal(err)
			}
			if _, err := q.Enqueue(t.Context(), post(t, "http://endpoint.test", "hello"), Options{}); !errors.Is(err, errReplaced) {
				t.Errorf("Enqueue: %v", err)
			}
			if _, err := q.EnqueueMany(t.Context(), []Item{{Request: post(t, "http://endpoint.test", "hello")}}); !errors.Is(err, errReplaced) {
				t.Errorf("EnqueueMany: %v", err)
			}
			select {
			case err := <-ended:
				if !errors.Is(err, errReplaced) {
					t.Errorf("Run: %v", err)
				}
			case <-time.After(time.Minute):
				t.Fatal("Run goes on")
			}
			if !strings.Contains(log.String(), "deleted or replaced") {
				t.Errorf("the log is %q", log.String())
			}
		})
	}
}

// A store that fails for long is logged, and that it is back. Without a Logger
// that goes to slog.Default, and nothing else.
func TestOutageIsLogged(t *testing.T) {
	var log storetest.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	ctx, cancel := context.WithCancel(t.Context())
	q, err := Open(ctx, newSQLite(t), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	q.timing.sweep, q.timing.outage = 10*time.Millisecond, 50*time.Millisecond
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	time.Sleep(200 * time.Millisecond)
	if text := log.String(); text != "" {
		t.Errorf("without an outage: %s", text)
	}
	execute(t, q.store.db, `ALTER TABLE river_job RENAME TO away`)
	eventually(t, "the outage is logged twice", func() bool { return strings.Count(log.String(), "the store fails") == 2 })
	execute(t, q.store.db, `ALTER TABLE away RENAME TO river_job`)
	eventually(t, "the end of it is logged", func() bool { return strings.Contains(log.String(), "the store is back") })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for line := range bytes.Lines([]byte(log.String())) {
		if !bytes.Contains(line, []byte("deliveryqueue: the store")) {
			t.Errorf("%s", line)
		}
	}
}

// A process that only enqueues does not take its own log for deleted after an
// Enqueue whose context ended while the file was locked.
func TestLogIsKept(t *testing.T) {
	t.Parallel()
	store := newSQLite(t)
	q := open(t, store, Config{})
	other, err := sql.Open("sqlite", store+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	tx, err := other.Begin()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := q.Enqueue(ctx, post(t, "http://endpoint.test", "hello"), Options{}); err == nil {
		t.Error("the file is not locked")
	}
	if err := errors.Join(tx.Rollback(), other.Close()); err != nil {
		t.Fatal(err)
	}
	enqueue(t, q, post(t, "http://endpoint.test", "hello"), Options{})
}

// Long reads do not hold up a fetch.
func TestLongReads(t *testing.T) {
	t.Parallel()
	end := newEndpoint(t, 200)
	q := open(t, newSQLite(t), Config{})
	start(t, q)
	for range 3 {
		rows, err := q.store.reading.QueryContext(t.Context(),
			`WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c`)
		if err != nil || !rows.Next() {
			t.Fatal(err)
		}
		defer rows.Close()
		if q.store.reading.Stats().InUse == 3 {
			break
		}
	}
	enqueue(t, q, post(t, end.URL, "hello"), Options{})
	end.wait(t, 1)
}

// A row whose endpoint is damaged is a dead letter, as other damaged rows are.
func TestDamagedEndpoint(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		set := `jsonb_set(metadata, '{delivery,endpoint}', '%s')`
		if q.store.sqlite {
			set = `jsonb_set(metadata, '$.delivery.endpoint', json('%s'))`
		}
		for _, endpoint := range []string{`""`, `7`, `null`, `{"a": 1}`} {
			id := enqueue(t, q, post(t, "http://endpoint.test", "hello"), Options{})
			setJob(t, q, id, `metadata = `+fmt.Sprintf(set, endpoint))
		}
		start(t, q)
		waitFor(t, q, Stats{Dead: 4})
		for _, d := range list(t, q, Filter{}) {
			if d.Reason != reasonUnreadable {
				t.Errorf("%+v", d)
			}
		}
	})
}
