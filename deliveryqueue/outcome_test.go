package deliveryqueue

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/delivery"
	"example.com/awsretry/internal/httpfake"
)

// responses is a Base that responds with one status after another, and with a body
// that has a control character. Status 0 is an error.
func responses(statuses ...int) httpfake.Base {
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
		return httpfake.Response(req, status, io.NopCloser(strings.NewReader(body))), nil
	}
}

// OnOutcome is called once for each attempt, when its outcome is in the store,
// and Observe and Base have the ID.
func TestOnOutcome(t *testing.T) {
	t.Parallel()
	outcomes, observed := make(chan Delivery, 10), make(chan int64, 10)
	var q *Queue
	q = open(t, newSQLite(t), Config{
		Base: responses(503, 0, 200, 400),
		Observe: func(a awsretry.Attempt) {
			id, _ := ID(a.Request.Context())
			observed <- id
		},
		OnOutcome: func(d Delivery) {
			stored := get(t, q, d.ID)
			if stored.Attempts < d.Attempts || d.State != Waiting && (stored.State != d.State || !stored.Ended.Equal(d.Ended)) ||
				!stored.Enqueued.Equal(d.Enqueued) || stored.URL != d.URL || stored.IdempotencyKey != d.IdempotencyKey {
				t.Errorf("OnOutcome has %+v, and List %+v", d, stored)
			}
			outcomes <- d
			panic("boom") // nothing depends on it
		},
	})
	first := enqueue(t, q, post(t, "http://endpoint.test/a?b=c", "hello"), Options{Policy: retries(t, 2)})
	start(t, q)
	waitFor(t, q, Stats{Delivered: 1})
	second := enqueue(t, q, post(t, "http://endpoint.test/", "hello"), Options{})
	for i, want := range []Delivery{
		{ID: first, State: Waiting, Attempts: 1, Status: 503},
		{ID: first, State: Waiting, Attempts: 2, Err: "boom"},
		{ID: first, State: Delivered, Attempts: 3, Status: 200},
		{ID: second, State: Dead, Attempts: 1, Status: 400, Reason: "permanent"},
	} {
		d, id := <-outcomes, <-observed
		if d.ID != want.ID || d.State != want.State || d.Attempts != want.Attempts || d.Status != want.Status ||
			!strings.HasPrefix(d.Err, want.Err) || d.Reason != want.Reason || d.Next.IsZero() != (d.State != Waiting) {
			t.Errorf("outcome %d is %+v, want %+v", i+1, d, want)
		}
		if id != want.ID {
			t.Errorf("Observe has the ID %d, want %d", id, want.ID)
		}
	}
	if id, ok := ID(t.Context()); ok {
		t.Errorf("another context has the ID %d", id)
	}
}

// A change that was too late to change the store is not an outcome.
func TestOutcomeThatIsNone(t *testing.T) {
	t.Parallel()
	q := open(t, newSQLite(t), Config{OnOutcome: func(d Delivery) { t.Errorf("%+v", d) }})
	id := enqueue(t, q, post(t, "http://endpoint.test", ""), Options{})
	setJob(t, q, id, `state = 'running', attempted_at = `+q.store.after(`0`))
	q.settle(t.Context(), again(underWay(t, q, id, time.Second), record{}, 0))
	silent := again(underWay(t, q, id, 0), record{}, 0)
	silent.silent = true // the wait for a turn, or the end of Run
	q.settle(t.Context(), silent)
	waitFor(t, q, Stats{Waiting: 1})
}

// List has the last attempts with the beginnings of the responses, but not of a
// sealed delivery.
func TestLastAttempts(t *testing.T) {
	t.Parallel()
	plain := func(b []byte) ([]byte, error) { return b, nil }
	for _, sealed := range []bool{false, true} {
		statuses := []int{500, 501, 502, 0, 503, 504, 200}
		config := Config{Base: responses(statuses...)}
		if sealed {
			config.Seal, config.Open = plain, plain
		}
		q := open(t, newSQLite(t), config)
		id := enqueue(t, q, post(t, "http://endpoint.test/", "hello"), Options{Policy: retries(t, 10)})
		start(t, q)
		waitFor(t, q, Stats{Delivered: 1})
		last := get(t, q, id).Last
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
}

// A Transport is kept for each policy, but only for a bounded number of policies.
func TestTransports(t *testing.T) {
	t.Parallel()
	q := &Queue{config: Config{}.withDefaults()}
	policy := &delivery.Policy{}
	transport := func(text string) *delivery.Transport { return q.transport(unread{policy: policy, policyText: text}) }
	if first := transport("a"); transport("a") != first || transport("b") == first {
		t.Error("the Transport is not that of the policy")
	}
	for i := range maxTransports {
		transport(strings.Repeat("c", i))
	}
	if n := len(q.transports.byPolicy); n > maxTransports {
		t.Errorf("%d Transports", n)
	}
}

func TestAttemptTimeout(t *testing.T) {
	t.Parallel()
	ended := make(chan awsretry.Class, 1)
	q := open(t, newSQLite(t), Config{
		AttemptTimeout: 20 * time.Millisecond, Observe: func(a awsretry.Attempt) { ended <- a.Class },
		Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
			req.Body.Close()
			<-req.Context().Done()
			return nil, req.Context().Err()
		}),
	})
	enqueue(t, q, post(t, "http://endpoint.test/", "hello"), Options{Policy: retries(t, 0)})
	start(t, q)
	select {
	case class := <-ended:
		if class != awsretry.Timeout {
			t.Errorf("the attempt ended as %v", class)
		}
	case <-time.After(10 * time.Second):
		t.Error("the attempt does not end")
	}
}

// Close closes all connections, also those that replace one on which an attempt timed
// out.
func TestCloseConnections(t *testing.T) {
	t.Parallel()
	var requests, opened, closed atomic.Int64
	end := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			<-r.Context().Done()
		}
	}))
	end.EnableHTTP2 = true
	end.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			opened.Add(1)
		case http.StateClosed:
			closed.Add(1)
		}
	}
	end.StartTLS()
	defer end.Close()
	q := must[*Queue](t)(Open(t.Context(), newSQLite(t), Config{Base: end.Client().Transport, AttemptTimeout: time.Second}))
	enqueue(t, q, post(t, end.URL, "hello"), Options{Policy: retries(t, 5)})
	stop := run(q)
	waitFor(t, q, Stats{Delivered: 1})
	check(t, errors.Join(stop(), q.Close()))
	if opened.Load() < 2 {
		t.Error("the retry uses the connection on which an attempt timed out")
	}
	eventually(t, "all connections are closed", func() bool { return closed.Load() == opened.Load() })
}
