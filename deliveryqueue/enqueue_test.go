package deliveryqueue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/awsretry/delivery"
	"github.com/jackc/pgx/v5"
)

// A closedBody records that it was closed.
type closedBody struct {
	io.Reader
	closed bool
}

func (b *closedBody) Close() error {
	b.closed = true
	return nil
}

func TestEnqueueRefuses(t *testing.T) {
	t.Parallel()
	q := open(t, newSQLite(t), Config{MaxBody: 5})
	for _, tt := range []struct {
		name, text string
		change     func(*http.Request, *Options)
	}{
		{"a body that is too long", "longer than Config.MaxBody, 5 bytes", func(r *http.Request, _ *Options) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader("123456")), -1
		}},
		{"a length that is too long", "longer than Config.MaxBody, 5 bytes", func(r *http.Request, _ *Options) {
			r.ContentLength = 6
		}},
		{"a wrong length", "ContentLength is 3 and its body has 5 bytes", func(r *http.Request, _ *Options) {
			r.ContentLength = 3
		}},
		{"a body that fails", "boom", func(r *http.Request, _ *Options) {
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader("1"), failing{}))
		}},
		{"no URL", "no URL", func(r *http.Request, _ *Options) { r.URL = nil }},
		{"another scheme", `scheme "ftp"`, func(r *http.Request, _ *Options) { r.URL.Scheme = "ftp" }},
		{"no host", "no host", func(r *http.Request, _ *Options) { r.URL.Host = "" }},
		{"a line break in a header", "invalid header field value", func(r *http.Request, _ *Options) { r.Header.Set("X", "a\nb") }},
		{"a name of a header with a space", "invalid header field name", func(r *http.Request, _ *Options) {
			r.Header["a b"] = []string{"c"}
		}},
		{"a control character in a header", "invalid header field value", func(r *http.Request, _ *Options) {
			r.Header.Set("X", "a\x01")
		}},
		{"a method with a space", "invalid method", func(r *http.Request, _ *Options) { r.Method = "A B" }},
		{"two keys", "2 headers Idempotency-Key", func(r *http.Request, _ *Options) {
			r.Header["Idempotency-Key"] = []string{"a", "b"}
		}},
		{"a key with NUL", "control character", func(_ *http.Request, o *Options) { o.IdempotencyKey = "a\x00b" }},
		{"a key that moves a cursor", "control character", func(r *http.Request, _ *Options) {
			r.Header.Set("Idempotency-Key", "a\x1b[2Jb")
		}},
		{"a key that is sent without its space", "a space around it", func(_ *http.Request, o *Options) {
			o.IdempotencyKey = "a "
		}},
		{"a key that List cannot show", "not UTF-8", func(_ *http.Request, o *Options) { o.IdempotencyKey = "a\xff" }},
		{"a negative delay", "Options.Delay is -1ns; it must not be negative", func(_ *http.Request, o *Options) { o.Delay = -1 }},
		{"an invalid policy", "maxReceivesPerSecond is 0", func(_ *http.Request, o *Options) {
			zero := 0
			o.Policy = &delivery.Policy{ThrottlePolicy: &delivery.ThrottlePolicy{MaxReceivesPerSecond: &zero}}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req, o := post(t, "http://endpoint.test", "hello"), Options{}
			tt.change(req, &o)
			body := &closedBody{Reader: req.Body}
			req.Body = body
			_, err := q.Enqueue(t.Context(), req, o)
			if err == nil || !strings.Contains(err.Error(), tt.text) || !strings.HasPrefix(err.Error(), "deliveryqueue: ") {
				t.Errorf("error %v", err)
			}
			if tooLarge := (*BodyTooLargeError)(nil); errors.As(err, &tooLarge) != strings.Contains(tt.name, "too long") {
				t.Errorf("error %T", err)
			}
			if !body.closed {
				t.Error("the body is open")
			}
		})
	}
	if s := stats(t, q); s != (Stats{}) {
		t.Errorf("%+v", s)
	}
}

func encodeAndRead(t *testing.T, q *Queue, req *http.Request, o Options) (m unread, key string) {
	t.Helper()
	a, h, err := q.encode(req, o)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = q.read(a.raw, h); err != nil {
		t.Fatal(err)
	}
	return m, h.Key
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	q := open(t, newSQLite(t), Config{})
	for _, tt := range []struct{ name, header, value, option, want string }{
		{"random", "X", "1", "", ""},
		{"the request's", "Idempotency-Key", "1", "", "1"},
		{"the request's, spelled differently", "idempotency-key", "1", "", "1"},
		{"the option's", "idempotency-KEY", "1", "2", "2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := post(t, "http://endpoint.test", "hello")
			req.Header[tt.header] = []string{tt.value}
			stored, key := encodeAndRead(t, q, req, Options{IdempotencyKey: tt.option})
			again, err := stored.request(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := again.Header["Idempotency-Key"]
			if len(got) != 1 || got[0] != key || tt.want != "" && got[0] != tt.want || len(got[0]) == 0 {
				t.Errorf("got %q, listed %q", got, key)
			}
			for name := range again.Header {
				if name != "Idempotency-Key" && strings.EqualFold(name, "Idempotency-Key") {
					t.Errorf("there is %s too", name)
				}
			}
			if req.Header[tt.header][0] != tt.value {
				t.Error("the caller's request was changed")
			}
		})
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("boom") }

// inTx calls f in a transaction on a connection of the test's own, and commits it or rolls it back.
func inTx(t *testing.T, q *Queue, commit bool, f func(tx any)) {
	t.Helper()
	ctx := t.Context()
	where := "SELECT current_database()"
	if q.store.sqlite {
		where = "SELECT file FROM pragma_database_list"
	}
	var name string
	if err := q.store.db.QueryRow(where).Scan(&name); err != nil {
		t.Fatal(err)
	}
	var tx any
	var end func() error
	if q.store.sqlite {
		own, err := connect(t, "sqlite", name).BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		tx, end = own, own.Rollback
		if commit {
			end = own.Commit
		}
	} else {
		conn, err := pgx.Connect(ctx, postgres.server.URL(name))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		own, err := conn.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		tx, end = own, func() error { return own.Rollback(ctx) }
		if commit {
			end = func() error { return own.Commit(ctx) }
		}
	}
	f(tx)
	if err := end(); err != nil {
		t.Fatal(err)
	}
}

func enqueueTx(t *testing.T, q *Queue, tx any, req *http.Request) (err error) {
	if own, ok := tx.(*sql.Tx); ok {
		_, err = q.EnqueueTx(t.Context(), own, req, Options{})
	} else {
		own, _ := tx.(pgx.Tx)
		_, err = q.EnqueuePgxTx(t.Context(), own, req, Options{})
	}
	return err
}

func TestEnqueueTx(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		for _, tt := range []struct {
			commit bool
			want   Stats
		}{{false, Stats{}}, {true, Stats{Waiting: 1}}} {
			inTx(t, q, tt.commit, func(tx any) {
				if err := enqueueTx(t, q, tx, post(t, "http://endpoint.test", "hello")); err != nil {
					t.Fatal(err)
				}
			})
			if s := stats(t, q); s != tt.want {
				t.Errorf("commit %v: %+v", tt.commit, s)
			}
		}
		others := any(new(sql.Tx))
		if q.store.sqlite {
			others = nil
		}
		if err := enqueueTx(t, q, others, post(t, "http://endpoint.test", "")); err == nil {
			t.Error("a transaction of the other kind of store was accepted")
		}
	})
}

// Transactions of the caller's own connections wait for each other and for Run, if
// they are opened as the page says.
func TestEnqueueTxAtOnce(t *testing.T) {
	t.Parallel()
	end := newEndpoint(t, 204)
	store := newSQLite(t)
	q := open(t, store, Config{})
	start(t, q)
	_, options, _ := strings.Cut(readPage(t, "../docs/DELIVERYQUEUE.md"), "file:deliveries.db?")
	options, _, _ = strings.Cut(options, `"`)
	var callers sync.WaitGroup
	const n, each = 4, 8
	for range n {
		callers.Go(func() {
			db := connect(t, "sqlite", "file:"+store+"?"+options)
			for range each {
				tx, err := db.BeginTx(t.Context(), nil)
				if err == nil {
					_, err = tx.ExecContext(t.Context(), "SELECT count(*) FROM river_job") // else it begins as a writer
				}
				if err == nil {
					if _, err = q.EnqueueTx(t.Context(), tx, post(t, end.URL, "hello"), Options{}); err == nil {
						err = tx.Commit()
					}
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	waitFor(t, q, Stats{Delivered: n * each})
}

// Many are stored together or not at all.
func TestEnqueueMany(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 204)
		q := open(t, store, Config{})
		const n = 2000
		items := make([]Item, n)
		for i := range items {
			items[i] = Item{post(t, end.URL, fmt.Sprint(i)), Options{IdempotencyKey: fmt.Sprint("key ", i)}}
		}
		items[n-1].Request.URL.Scheme = "ftp"
		body := &closedBody{Reader: strings.NewReader("")}
		if _, err := q.EnqueueMany(t.Context(), append(items, Item{Request: post(t, end.URL, "")}, Item{})); err == nil ||
			!strings.HasPrefix(err.Error(), "deliveryqueue: EnqueueMany: item 1999: ") {
			t.Errorf("error %v", err)
		}
		if s := stats(t, q); s != (Stats{}) {
			t.Errorf("%+v", s)
		}
		items = []Item{{Request: post(t, end.URL, "a")}, {Request: post(t, end.URL, "b"), Options: Options{Delay: time.Hour}}}
		items[0].Request.Body = body
		items[0].Request.ContentLength = -1
		ids, err := q.EnqueueMany(t.Context(), items)
		if err != nil || len(ids) != 2 || !body.closed {
			t.Fatalf("%v, %v, closed %v", ids, err, body.closed)
		}
		if d := list(t, q, Filter{IDs: ids[1:]}); len(d) != 1 || time.Until(d[0].Next) < 50*time.Minute {
			t.Errorf("%+v", d)
		}
		if ids, err := q.EnqueueMany(t.Context(), nil); ids != nil || err != nil {
			t.Errorf("%v, %v", ids, err)
		}
		start(t, q)
		waitFor(t, q, Stats{Delivered: 1, Waiting: 1})
	})
}

// A delivery is not made before its delay and not after its deadline.
func TestDelayAndDeadline(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		good, bad := newEndpoint(t, 204), newEndpoint(t, 503)
		q := open(t, store, Config{})
		begin := time.Now()
		policy := parse(t, `{"healthyRetryPolicy": {"minDelayTarget": 100, "maxDelayTarget": 100, "numRetries": 5}}`)
		enqueue(t, q, post(t, good.URL, "late"), Options{Delay: 700 * time.Millisecond})
		enqueue(t, q, post(t, good.URL, "too late"), Options{Deadline: begin.Add(-time.Hour)})
		enqueue(t, q, post(t, bad.URL, "no retry"), Options{Policy: policy, Deadline: begin.Add(time.Minute)})
		start(t, q)
		waitFor(t, q, Stats{Delivered: 1, Dead: 2})
		if all := good.requests(); len(all) != 1 || all[0].body != "late" || all[0].at.Sub(begin) < 700*time.Millisecond {
			t.Errorf("%+v", all)
		}
		for i, attempts := range []int{0, 1} {
			if d := list(t, q, Filter{State: Dead})[i]; d.Reason != "deadline" || d.Attempts != attempts || (d.Err == "") != (i == 1) {
				t.Errorf("%+v", d)
			}
		}
		bad.check(t, 1)
	})
}

// The retries of the fixed policies come back from the store.
func TestPolicyInTheStore(t *testing.T) {
	t.Parallel()
	q := open(t, newSQLite(t), Config{})
	two := 2
	throttled := delivery.AWSManaged()
	throttled.ThrottlePolicy = &delivery.ThrottlePolicy{MaxReceivesPerSecond: &two}
	for name, policy := range map[string]*delivery.Policy{
		"default": nil, "AWSManaged": delivery.AWSManaged(), "CustomerManaged": delivery.CustomerManaged(),
		"AWSManaged with a throttle": throttled,
		"own": parse(t, `{"healthyRetryPolicy": {"numRetries": 7},
			"requestPolicy": {"headerContentType": "text/csv"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			stored, _ := encodeAndRead(t, q, post(t, "http://endpoint.test", "hello"), Options{Policy: policy})
			want, n := 0, 0
			for range policy.Delays() {
				want++
			}
			for range stored.policy.Delays() {
				n++
			}
			if n != want || stored.policy.ValidateRaw() != nil {
				t.Errorf("%d retries, want %d; %v", n, want, stored.policy.ValidateRaw())
			}
			if (stored.policy.ThrottlePolicy != nil) != (policy == throttled) ||
				(stored.policy.RequestPolicy != nil) != (name == "own") {
				t.Errorf("%+v", stored.policy)
			}
		})
	}
}

// A file that another process has locked delays Enqueue, and does not lose what
// is delivered meanwhile.
func TestLockedFile(t *testing.T) {
	t.Parallel()
	store := newSQLite(t)
	end := newEndpoint(t, 200)
	end.delay = 100 * time.Millisecond
	q := open(t, store, Config{})
	startOne(t, q, end)
	tx, err := connect(t, "sqlite", store+"?_txlock=immediate&_busy_timeout=5000").Begin()
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(500*time.Millisecond, func() { tx.Rollback() })
	begin := time.Now()
	enqueue(t, q, post(t, end.URL, "hello"), Options{})
	if took := time.Since(begin); took < 300*time.Millisecond {
		t.Errorf("Enqueue took %v", took)
	}
	waitFor(t, q, Stats{Delivered: 2})
	end.check(t, 2)
}

func TestCancel(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 503, 503, 200)
		q := open(t, store, Config{})
		waiting := enqueue(t, q, post(t, end.URL, "hello"), Options{})
		if err := q.Cancel(t.Context(), waiting); err != nil {
			t.Error(err)
		}
		if err := q.Cancel(t.Context(), 1_000_000); !errors.Is(err, ErrNotFound) {
			t.Errorf("error %v", err)
		}
		end.delay = 300 * time.Millisecond
		running := enqueue(t, q, post(t, end.URL, "hello"), Options{Policy: parse(t, `{"healthyRetryPolicy": {
			"numRetries": 5, "numNoDelayRetries": 5}}`)})
		start(t, q)
		end.wait(t, 1)
		if err := q.Cancel(t.Context(), running); err != nil {
			t.Error(err)
		}
		waitFor(t, q, Stats{Canceled: 2})
		end.check(t, 1)
		dead := enqueue(t, q, post(t, end.URL, "hello"), Options{Policy: parse(t, noRetries)})
		waitFor(t, q, Stats{Canceled: 2, Dead: 1})
		if err := q.Cancel(t.Context(), dead); err != nil {
			t.Error(err)
		}
		waitFor(t, q, Stats{Canceled: 3})
		if n, err := q.Redrive(t.Context(), Filter{IDs: []int64{dead}}); n != 0 || err != nil {
			t.Errorf("%d redriven, %v", n, err)
		}
		delivered := enqueue(t, q, post(t, end.URL, "hello"), Options{})
		waitFor(t, q, Stats{Canceled: 3, Delivered: 1})
		if err := q.Cancel(t.Context(), delivered); err == nil || !strings.Contains(err.Error(), "is delivered already") {
			t.Errorf("error %v", err)
		}
	})
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		var ids []int64
		for _, url := range []string{"http://a.test/1", "http://B.test/2", "http://a.test/3"} {
			ids = append(ids, enqueue(t, q, post(t, url, ""), Options{}))
		}
		for _, tt := range []struct {
			name   string
			filter Filter
			want   int
		}{
			{"all", Filter{}, 3},
			{"an endpoint", Filter{Endpoint: "http://b.test"}, 1},
			{"a state", Filter{State: Dead}, 0},
			{"a limit", Filter{Limit: 2}, 2},
			{"numbers", Filter{IDs: ids[1:]}, 2},
			{"before", Filter{Before: time.Now().Add(-time.Hour)}, 0},
			{"before, later", Filter{Before: time.Now().Add(time.Hour), State: Waiting}, 3},
		} {
			if l := list(t, q, tt.filter); len(l) != tt.want {
				t.Errorf("%s: %+v", tt.name, l)
			}
		}
		for d := range q.List(t.Context(), Filter{}) {
			if err := q.Cancel(t.Context(), d.ID); err != nil { // the store is free meanwhile
				t.Error(err)
			}
		}
		for name, f := range map[string]Filter{"state": {State: "no"}, "limit": {Limit: -1}} {
			for _, err := range q.List(t.Context(), f) {
				if err == nil || !strings.Contains(err.Error(), "it must be") {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		if _, err := q.Redrive(t.Context(), Filter{State: Delivered}); err == nil {
			t.Error("Redrive took delivered ones")
		}
	})
}

// A long query does not hold up what is enqueued and delivered, and Empty does not
// count.
func TestReadsHoldUpNothing(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 204)
		q := open(t, store, Config{})
		empty := func(want bool) {
			t.Helper()
			if got, err := q.Empty(t.Context()); got != want || err != nil {
				t.Errorf("Empty: %v, %v", got, err)
			}
		}
		empty(true)
		for range 2 {
			enqueue(t, q, post(t, end.URL, "hello"), Options{Delay: time.Hour})
		}
		empty(false)
		rows, err := q.store.reading.QueryContext(t.Context(), "SELECT id FROM river_job")
		if err != nil || !rows.Next() {
			t.Fatal(err)
		}
		defer rows.Close()
		start(t, q)
		enqueue(t, q, post(t, end.URL, "hello"), Options{})
		waitFor(t, q, Stats{Delivered: 1, Waiting: 2})
		for id := range int64(2) {
			if err := q.Cancel(t.Context(), id+1); err != nil {
				t.Error(err)
			}
		}
		empty(true)
	})
}
