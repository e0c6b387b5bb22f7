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
	"example.com/awsretry/deliveryqueue/webhook"
	"example.com/awsretry/internal/httpfake"
	"github.com/jackc/pgx/v5"
	_ "github.com/lib/pq"
)

func TestEnqueueRefuses(t *testing.T) {
	t.Parallel()
	q := open(t, newSQLite(t), Config{MaxBody: 5})
	set := func(name string, values ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header[name] = values }
	}
	for _, tt := range []struct {
		text   string
		change func(*http.Request)
		o      Options
	}{
		{"longer than Config.MaxBody, 5 bytes", func(r *http.Request) { r.ContentLength = 6 }, Options{}},
		{"longer than Config.MaxBody, 5 bytes", func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader("123456")), -1
		}, Options{}},
		{"ContentLength is 3 and its body has 5 bytes", func(r *http.Request) { r.ContentLength = 3 }, Options{}},
		{"boom", func(r *http.Request) {
			r.Body = io.NopCloser(httpfake.ReadFunc(func([]byte) (int, error) { return 0, errors.New("boom") }))
		}, Options{}},
		{"has a trailer", func(r *http.Request) { r.Trailer = http.Header{"X": {"1"}} }, Options{}},
		{"no URL", func(r *http.Request) { r.URL = nil }, Options{}},
		{`scheme "ftp"`, func(r *http.Request) { r.URL.Scheme = "ftp" }, Options{}},
		{"no host", func(r *http.Request) { r.URL.Host = "" }, Options{}},
		{"is opaque", func(r *http.Request) { r.URL.Opaque = "//other.test/a" }, Options{}},
		{"invalid header field value", set("X", "a\nb"), Options{}}, // by net/http
		{"2 headers Idempotency-Key", set("Idempotency-Key", "a", "b"), Options{}},
		{"control character", set("idempotency-key", "a\x1b[2Jb"), Options{}},
		{"control character", nil, Options{IdempotencyKey: "a\tb"}},
		{"a space around it", nil, Options{IdempotencyKey: "a "}},
		{"not UTF-8", nil, Options{IdempotencyKey: "a\xff"}},
		{"Options.Delay is -1ns; it must not be negative", nil, Options{Delay: -1}},
		{"maxReceivesPerSecond is 0", nil, Options{
			Policy: &delivery.Policy{ThrottlePolicy: &delivery.ThrottlePolicy{MaxReceivesPerSecond: new(int)}},
		}},
	} {
		req := post(t, "http://endpoint.test", "hello")
		if tt.change != nil {
			tt.change(req)
		}
		body := httpfake.NewBody(req.Body)
		req.Body = body
		_, err := q.Enqueue(t.Context(), req, tt.o)
		if err == nil || !strings.Contains(err.Error(), tt.text) || !strings.HasPrefix(err.Error(), "deliveryqueue: ") {
			t.Errorf("%v, want %q", err, tt.text)
		}
		if errors.As(err, new(*BodyTooLargeError)) != strings.Contains(tt.text, "longer") || body.Closes() != 1 {
			t.Errorf("error %T, and the body was closed %d times", err, body.Closes())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.Enqueue(ctx, post(t, "http://endpoint.test", ""), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
	wantStats(t, q, Stats{})
}

// encodeAndRead returns the stored form of a delivery, and its key.
func encodeAndRead(t *testing.T, req *http.Request, o Options) (stored unread, key string) {
	t.Helper()
	q := &Queue{config: Config{}.withDefaults()}
	job := must[newJob](t)(q.job(req, o))
	h := job.Metadata[headKey]
	return must[unread](t)(q.read(job.Args, h)), h.Key
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, header, value, option, want string }{
		{"random", "X", "1", "", ""},
		{"the request's", "Idempotency-Key", "1", "", "1"},
		{"the request's, spelled differently", "idempotency-key", "1", "", "1"},
		{"the option's", "idempotency-KEY", "1", "2", "2"},
	} {
		req := post(t, "http://endpoint.test", "hello")
		req.Header[tt.header] = []string{tt.value}
		stored, key := encodeAndRead(t, req, Options{IdempotencyKey: tt.option})
		again := must[*http.Request](t)(stored.request(t.Context()))
		var got []string
		for name, values := range again.Header {
			if strings.EqualFold(name, "Idempotency-Key") {
				got = append(got, values...)
			}
		}
		if len(got) != 1 || got[0] != key || tt.want != "" && got[0] != tt.want || got[0] == "" {
			t.Errorf("%s: sent %q, listed %q", tt.name, got, key)
		}
		if req.Header[tt.header][0] != tt.value {
			t.Errorf("%s: the caller's request was changed", tt.name)
		}
	}
}

// A delivery is stored in the caller's transaction, of each driver and with any
// search_path.
func TestEnqueueTx(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		drivers := map[string]string{"pgx": store, "postgres": store, "pgx.Tx": store}
		if q.store.sqlite { // as docs/DELIVERYQUEUE.md says
			_, options, _ := strings.Cut(readPage(t, "../docs/DELIVERYQUEUE.md"), "file:deliveries.db?")
			options, _, _ = strings.Cut(options, `"`)
			drivers = map[string]string{"sqlite": "file:" + store + "?" + options}
		} else { // of another schema, with the same tables
			other := store + "&search_path=other"
			execute(t, q.store.db, "CREATE SCHEMA other")
			check(t, makeTables(other))
			drivers["pgx other"], drivers["postgres other"], drivers["pgx.Tx other"] = other, other, other
		}
		stored := 0
		for name, url := range drivers {
			driver, _, _ := strings.Cut(name, " ")
			tx, _, rollback := begin(t, driver, url)
			check(t, enqueueTx(t, q, tx))
			check(t, rollback())
			wantStats(t, q, Stats{Waiting: stored})
			tx, commit, _ := begin(t, driver, url)
			check(t, enqueueTx(t, q, tx))
			check(t, commit())
			stored++
			if s := stats(t, q); s != (Stats{Waiting: stored}) {
				t.Errorf("%s: %+v", name, s)
			}
		}
		if err := enqueueTx(t, q, nil); err == nil {
			t.Error("no transaction was accepted")
		}
		if _, err := q.EnqueueTx(t.Context(), nil, post(t, "http://endpoint.test", ""), Options{}); err == nil {
			t.Error("no transaction was accepted")
		}
	})
	t.Run("the other kind of store", func(t *testing.T) {
		q := open(t, newSQLite(t), Config{})
		tx, _, _ := begin(t, "pgx.Tx", newPostgres(t))
		if err := enqueueTx(t, q, tx); err == nil {
			t.Error("it was accepted")
		}
	})
}

// begin begins a transaction on the test's own connection.
func begin(t *testing.T, driver, url string) (tx any, commit, rollback func() error) {
	t.Helper()
	if driver != "pgx.Tx" {
		own := must[*sql.Tx](t)(connect(t, driver, url).Begin())
		return own, own.Commit, own.Rollback
	}
	ctx := context.Background()
	conn := must[*pgx.Conn](t)(pgx.Connect(ctx, url))
	t.Cleanup(func() { conn.Close(ctx) })
	own := must[pgx.Tx](t)(conn.Begin(ctx))
	return own, func() error { return own.Commit(ctx) }, func() error { return own.Rollback(ctx) }
}

func enqueueTx(t *testing.T, q *Queue, tx any) (err error) {
	req := post(t, "http://endpoint.test", "hello")
	if own, ok := tx.(*sql.Tx); ok {
		_, err = q.EnqueueTx(t.Context(), own, req, Options{})
		return err
	}
	own, _ := tx.(pgx.Tx)
	_, err = q.EnqueuePgxTx(t.Context(), own, req, Options{})
	return err
}

// Many are stored together or not at all.
func TestEnqueueMany(t *testing.T) {
	t.Parallel()
	q := open(t, newSQLite(t), Config{})
	item := func(url string) Item { return Item{Request: post(t, url, "hello")} }
	after := httpfake.NewBody(strings.NewReader("hello"))
	bad := []Item{item("http://endpoint.test"), item("ftp://endpoint.test"), item("http://endpoint.test"), {}}
	bad[2].Request.Body = after
	_, err := q.EnqueueMany(t.Context(), bad)
	if err == nil || !strings.HasPrefix(err.Error(), "deliveryqueue: EnqueueMany: item 1: ") || after.Closes() != 1 {
		t.Errorf("error %v, and the body after it was closed %d times", err, after.Closes())
	}
	if _, err := q.EnqueueMany(t.Context(), []Item{{}}); err == nil || !strings.Contains(err.Error(), "item 0 has no") {
		t.Errorf("error %v", err)
	}
	wantStats(t, q, Stats{})
	items := []Item{item("http://endpoint.test/a"), item("http://endpoint.test/b")}
	items[1].Options = Options{Delay: time.Hour, IdempotencyKey: "key 1"}
	ids, err := q.EnqueueMany(t.Context(), items)
	if err != nil || len(ids) != 2 {
		t.Fatalf("%v, %v", ids, err)
	}
	if d := get(t, q, ids[1]); d.IdempotencyKey != "key 1" || time.Until(d.Next) < 50*time.Minute {
		t.Errorf("%+v", d)
	}
	if ids, err := q.EnqueueMany(t.Context(), nil); ids != nil || err != nil {
		t.Errorf("%v, %v", ids, err)
	}
}

// A delivery is not made before its delay and not after its deadline.
func TestDelayAndDeadline(t *testing.T) {
	t.Parallel()
	const delay = 200 * time.Millisecond
	good, bad := newEndpoint(t, 204), newEndpoint(t, 503)
	q := open(t, newSQLite(t), Config{})
	begin := time.Now()
	policy := parse(t, `{"healthyRetryPolicy": {"minDelayTarget": 100, "maxDelayTarget": 100, "numRetries": 5}}`)
	enqueue(t, q, post(t, good.URL, "late"), Options{Delay: delay})
	enqueue(t, q, post(t, good.URL, "too late"), Options{Deadline: begin.Add(-time.Hour)})
	enqueue(t, q, post(t, bad.URL, "no retry"), Options{Policy: policy, Deadline: begin.Add(time.Minute)})
	start(t, q)
	waitFor(t, q, Stats{Delivered: 1, Dead: 2})
	if all := good.requests(); len(all) != 1 || all[0].body != "late" || all[0].at.Sub(begin) < delay {
		t.Errorf("%+v", all)
	}
	for i, attempts := range []int{0, 1} {
		d := list(t, q, Filter{State: Dead})[i]
		if d.Reason != "deadline" || d.Attempts != attempts || (d.Err == "") != (i == 1) {
			t.Errorf("%+v", d)
		}
	}
	bad.check(t, 1)
}

// A delay counts by the store's clock. One that may end before the next sweep does
// not wait for it.
func TestDelayInTheStore(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		for _, delay := range []time.Duration{0, time.Millisecond, time.Second, step, step + time.Second, time.Hour} {
			id := enqueue(t, q, post(t, "http://endpoint.test", ""), Options{Delay: delay})
			want := "available"
			if delay > step {
				want = "scheduled"
			}
			if state := scan[string](t, q, fmt.Sprintf(`SELECT state FROM river_job WHERE id = %d`, id)); state != want {
				t.Errorf("with a delay of %v it is %s", delay, state)
			}
			if d := get(t, q, id); (d.Next.Sub(d.Enqueued) - delay).Abs() > 2*time.Millisecond {
				t.Errorf("with a delay of %v: %+v", delay, d)
			}
		}
	})
}

// Of the deliveries with one key to one URL, one is stored.
func TestOnce(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q, end := open(t, store, Config{}), newEndpoint(t, 200)
		once := Options{IdempotencyKey: "event 1", Once: true}
		first := enqueue(t, q, post(t, end.URL, "1"), once)
		another := enqueue(t, q, post(t, end.URL+"/other", "2"), once)
		without := enqueue(t, q, post(t, end.URL, "3"), Options{IdempotencyKey: "event 1"})
		if first == another || first == without {
			t.Errorf("deliveries %d, %d, %d", first, another, without)
		}
		item := func(key string) Item {
			return Item{post(t, end.URL, "4"), Options{IdempotencyKey: key, Once: true}}
		}
		ids := must[[]int64](t)(q.EnqueueMany(t.Context(), []Item{item("event 1"), item("event 2"), item("event 3"), item("event 2")}))
		if ids[0] != first || ids[1] == ids[2] || ids[1] != ids[3] {
			t.Errorf("deliveries %v", ids)
		}
		stop := start(t, q)
		waitFor(t, q, Stats{Delivered: 5})
		stop()
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				if id, err := q.Enqueue(t.Context(), item("event 4").Request, item("event 4").Options); err != nil || id <= ids[2] {
					t.Errorf("delivery %d, %v", id, err)
				}
				if id, err := q.Enqueue(t.Context(), item("").Request, once); err != nil || id != first {
					t.Errorf("delivery %d, %v", id, err)
				}
			})
		}
		wait.Wait()
		wantStats(t, q, Stats{Delivered: 5, Waiting: 1})
		if _, err := q.Enqueue(t.Context(), post(t, end.URL, ""), Options{Once: true}); err == nil {
			t.Error("a delivery without a key was accepted once")
		}
	})
}

// A caller's transaction in which a delivery was stored already does not delay its
// attempts.
func TestOnceLocksNothing(t *testing.T) {
	t.Parallel()
	q, end := open(t, newPostgres(t), Config{}), newEndpoint(t, 200)
	q.store.db.timeout = time.Minute
	once := Options{IdempotencyKey: "key", Once: true}
	id := enqueue(t, q, post(t, end.URL, "hello"), once)
	tx := must[*sql.Tx](t)(q.store.db.Begin())
	defer tx.Rollback()
	if again, err := q.EnqueueTx(t.Context(), tx, post(t, end.URL, "hello"), once); again != id || err != nil {
		t.Errorf("delivery %d, %v; want %d", again, err, id)
	}
	start(t, q)
	waitFor(t, q, Stats{Delivered: 1}) // before the end of the transaction
}

// Of many deliveries, each has its own ID, in the order of the items.
func TestEnqueueManyInOrder(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		var items []Item
		for i := range 2*jobsAtOnce + 10 {
			items = append(items, Item{post(t, "http://endpoint.test", ""), Options{IdempotencyKey: fmt.Sprint(i)}})
		}
		ids := must[[]int64](t)(q.EnqueueMany(t.Context(), items))
		for i, d := range list(t, q, Filter{}) {
			if d.ID != ids[i] || d.IdempotencyKey != fmt.Sprint(i) {
				t.Fatalf("item %d is delivery %d: %+v", i, ids[i], d)
			}
		}
		if n := stats(t, q).Waiting; n != len(items) {
			t.Errorf("%d wait", n)
		}
	})
}

// EnqueueMany may take longer than one statement may: items with Once have a statement
// each.
func TestEnqueueManyOnce(t *testing.T) {
	t.Parallel()
	q := open(t, newPostgres(t), Config{})
	execute(t, q.store.db, `CREATE FUNCTION far() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(0.05); RETURN NEW; END$$`)
	execute(t, q.store.db, `CREATE TRIGGER far BEFORE INSERT ON river_job FOR EACH ROW EXECUTE FUNCTION far()`)
	q.store.db.timeout = 400 * time.Millisecond
	var items []Item
	for i := range 10 {
		items = append(items, Item{post(t, "http://endpoint.test", ""), Options{Once: true, IdempotencyKey: fmt.Sprint(i)}})
	}
	must[[]int64](t)(q.EnqueueMany(t.Context(), items))
}

// The store returns the retries of the fixed policies.
func TestPolicyInTheStore(t *testing.T) {
	t.Parallel()
	two := 2
	throttled := delivery.AWSManaged()
	throttled.ThrottlePolicy = &delivery.ThrottlePolicy{MaxReceivesPerSecond: &two}
	own := parse(t, `{"healthyRetryPolicy": {"numRetries": 7}, "requestPolicy": {"headerContentType": "text/csv"}}`)
	for _, policy := range []*delivery.Policy{
		nil, delivery.CustomerManaged(), throttled, own, {Schedule: []time.Duration{time.Second, 48 * time.Hour}}, {Schedule: []time.Duration{}},
	} {
		stored, _ := encodeAndRead(t, post(t, "http://endpoint.test", "hello"), Options{Policy: policy})
		want, n := 0, 0
		for range policy.Delays() {
			want++
		}
		for range stored.policy.Delays() {
			n++
		}
		if n != want || stored.policy.ValidateRaw() != nil ||
			(stored.policy.ThrottlePolicy != nil) != (policy == throttled) ||
			(stored.policy.RequestPolicy != nil) != (policy == own) {
			t.Errorf("%d retries, want %d; %+v, %v", n, want, stored.policy, stored.policy.ValidateRaw())
		}
	}
}

// A queue that signs refuses a key that cannot be signed.
func TestKeyThatCannotBeSigned(t *testing.T) {
	t.Parallel()
	q := open(t, newSQLite(t), Config{Base: webhook.Sign(nil, nil)})
	for key, ok := range map[string]bool{"a.b": false, "é": false, "a-b": true} {
		if _, err := q.Enqueue(t.Context(), post(t, "http://endpoint.test", "x"), Options{IdempotencyKey: key}); (err == nil) != ok {
			t.Errorf("%s: %v", key, err)
		}
	}
	enqueue(t, open(t, newSQLite(t), Config{}), post(t, "http://endpoint.test", "x"), Options{IdempotencyKey: "a.b"})
}
