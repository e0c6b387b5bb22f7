package deliveryqueue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/delivery"
	"example.com/awsretry/internal/httpfake"
)

// A dead letter that Config.DeadLetter does not take stays in the store.
func TestDeadLetterIsHandedOver(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		end  func() error // of the hook
		want State
		err  string
	}{
		{func() error { return nil }, Canceled, ""},
		{func() error { return errors.New("disk full") }, Dead, "disk full"},
		{func() error { panic("boom") }, Dead, "panicked: boom"},
	} {
		hook := func(ctx context.Context, dead delivery.DeadLetter) error {
			body := must[[]byte](t)(io.ReadAll(dead.Request.Body))
			deadline, _ := ctx.Deadline()
			if left := time.Until(deadline); left < settleTimeout || left > defaultAttemptTimeout+longestWait+settleTimeout {
				t.Errorf("it has %v", left)
			}
			if id, _ := ID(ctx); id != 1 || string(body) != "hello" || dead.Request.Header.Get("Idempotency-Key") != "key 1" ||
				dead.Response.StatusCode != 400 || dead.Attempts != 1 || dead.Reason != "permanent" {
				t.Errorf("delivery %d, %q, %+v", id, body, dead)
			}
			return tt.end()
		}
		q := open(t, newSQLite(t), Config{Base: httpfake.Statuses(400), DeadLetter: hook})
		id := enqueue(t, q, post(t, "http://endpoint.test", "hello"), Options{IdempotencyKey: "key 1"})
		start(t, q)
		eventually(t, "it has ended", func() bool { return stats(t, q).open() == 0 })
		d := get(t, q, id)
		if d.State != tt.want || d.Reason != "permanent" || d.Status != 400 || d.Attempts != 1 ||
			(d.Err == "") != (tt.err == "") || !strings.Contains(d.Err, tt.err) {
			t.Errorf("%+v", d)
		}
	}
}

// A panicBody panics at each call.
type panicBody struct{}

func (panicBody) Read([]byte) (int, error) { panic("boom") }
func (panicBody) Close() error             { panic("boom") }

func TestPanics(t *testing.T) {
	t.Parallel()
	body := httpfake.Base(func(req *http.Request) (*http.Response, error) {
		return httpfake.Response(req, 200, panicBody{}), req.Body.Close()
	})
	same := func(data []byte) ([]byte, error) { return data, nil }
	observe := func(awsretry.Attempt) { panic("boom") }
	for _, tt := range []struct {
		name   string
		config Config
		want   Delivery
	}{
		{"Base", Config{Base: httpfake.Base(func(*http.Request) (*http.Response, error) { panic("boom") })},
			Delivery{State: Dead, Reason: "panic", Attempts: 2}},
		{"the response's body", Config{Base: body}, Delivery{State: Delivered, Attempts: 1, Status: 200}},
		{"RetryStatus", Config{RetryStatus: func(int) bool { panic("boom") }, Base: httpfake.Statuses(503)},
			Delivery{State: Dead, Reason: "panic", Attempts: 1}},
		{"Observe", Config{Observe: observe, Base: httpfake.Statuses(400)},
			Delivery{State: Dead, Reason: "permanent", Attempts: 1, Status: 400}},
		{"Observe of a 2xx", Config{Observe: observe, Base: httpfake.Statuses(200)},
			Delivery{State: Delivered, Attempts: 1, Status: 200}},
		{"Open", Config{Seal: same, Open: func([]byte) ([]byte, error) { panic("boom") }},
			Delivery{State: Dead, Reason: "unreadable"}},
	} {
		q := open(t, newSQLite(t), tt.config)
		id := enqueue(t, q, post(t, "http://endpoint.test", "hello"), Options{Policy: retries(t, 1)})
		start(t, q)
		eventually(t, "it has ended", func() bool { return !get(t, q, id).Ended.IsZero() })
		d := get(t, q, id)
		if d.State != tt.want.State || d.Reason != tt.want.Reason || d.Attempts != tt.want.Attempts ||
			d.Status != tt.want.Status || strings.Contains(d.Err, "boom") != (d.State == Dead && d.Status == 0) {
			t.Errorf("%s: %+v", tt.name, d)
		}
	}
}

// A row that cannot be read becomes a dead letter, and so does one with an
// impossible number of attempts. The others continue.
func TestPoison(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 200)
		q := open(t, store, Config{})
		good := enqueue(t, q, post(t, end.URL, "hello"), Options{})
		const crashed = `attempt = 32767`
		poison := []string{fmt.Sprintf(`args = (SELECT args FROM river_job WHERE id = %d)`, good), crashed}
		for _, raw := range []string{`{}`, `{"version": -1}`, `[]`, `{"version": 1, "request": "aGVsbG8="}`,
			`{"version": 1, "fixed": "none", "request": "aGVsbG8="}`, `{"version": 1, "policy": {"x": 1}}`,
			`{"version": 1, "sealed": true, "request": "aGVsbG8="}`} {
			poison = append(poison, `args = '`+raw+`'`)
		}
		path := `'{delivery,endpoint}', '%s'`
		if q.store.sqlite {
			path = `'$.delivery.endpoint', json('%s')`
		}
		for _, endpoint := range []string{`""`, `7`, `null`, `{"a": 1}`} {
			poison = append(poison, `metadata = jsonb_set(metadata, `+fmt.Sprintf(path, endpoint)+`)`)
		}
		if q.store.sqlite { // it accepts invalid JSON, and any text as a time
			poison = append(poison, `args = 'not JSON'`, `args = x'2C1717'`, // the second looks like JSONB
				`metadata = 'not JSON', state = 'running', attempted_at = `+q.store.after(`-3600`))
			setJob(t, q, good, `created_at = 'yesterday'`)
			if d := get(t, q, good); d.Reason != reasonUnreadable || !strings.Contains(d.Err, `"yesterday"`) {
				t.Errorf("%+v", d)
			}
		}
		for _, assignments := range poison {
			setJob(t, q, enqueue(t, q, post(t, end.URL, "hello"), Options{}), assignments)
		}
		if n := len(list(t, q, Filter{Endpoint: end.URL})); n != 10 && (n != 12 || !q.store.sqlite) {
			t.Errorf("%d have metadata with the endpoint", n)
		}
		stop := start(t, q)
		waitFor(t, q, Stats{Dead: len(poison), Delivered: 1})
		for i, d := range list(t, q, Filter{State: Dead}) {
			reason := reasonUnreadable
			if poison[i] == crashed {
				reason = reasonCrashed
			}
			if d.Reason != reason || (d.Err == "") != (reason == reasonCrashed) || d.Attempts != 0 ||
				i == 0 && !strings.Contains(d.Err, "another delivery") {
				t.Errorf("%s: %+v", poison[i], d)
			}
		}
		end.check(t, 1)
		stop()
		if n, err := q.Redrive(t.Context(), Filter{}); n != len(poison) || err != nil {
			t.Errorf("%d of %d redriven, %v", n, len(poison), err)
		}
	})
}

// A row that a newer release wrote waits for that one, and is read if only what this
// one does not need to know was added.
func TestRowOfANewerRelease(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		var log httpfake.Buffer
		end := newEndpoint(t, 200)
		q := open(t, store, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		set := func(id int64, field string) {
			changed := fmt.Sprintf(`args || '{%s}'`, field)
			if q.store.sqlite {
				changed = fmt.Sprintf(`jsonb_patch(args, '{%s}')`, field)
			}
			setJob(t, q, id, `args = `+changed)
		}
		var newer []int64
		for range 3 {
			newer = append(newer, enqueue(t, q, post(t, end.URL, "newer"), Options{}))
			set(newer[len(newer)-1], `"version": 2, "more": {"a": 1}`)
		}
		set(enqueue(t, q, post(t, end.URL, "hello"), Options{}), `"more": {"a": 1}`)
		stop := start(t, q)
		waitFor(t, q, Stats{Delivered: 1, Waiting: 3})
		eventually(t, "all were read", func() bool {
			for _, id := range newer {
				if d := get(t, q, id); d.Next.Sub(d.Enqueued).Seconds() < 30 || d.Attempts != 0 || d.Reason != "" {
					return false
				}
			}
			return true
		})
		stop()
		if n := strings.Count(log.String(), "left to a newer program"); n != 1 {
			t.Errorf("%d in the log", n)
		}
		for _, id := range newer { // as the newer release, whose version this is
			set(id, `"version": 1`)
		}
		must[int](t)(q.Redrive(t.Context(), Filter{State: Waiting}))
		start(t, q)
		waitFor(t, q, Stats{Delivered: 4})
	})
}

// flip is a Seal and an Open.
func flip(data []byte) ([]byte, error) {
	out := make([]byte, len(data))
	for i, b := range data {
		out[i] = b ^ 0x55
	}
	return out, nil
}

func TestSeal(t *testing.T) {
	t.Parallel()
	end := newEndpoint(t, 200)
	store := emptySQLite(t)
	q := open(t, store, Config{Seal: flip, Open: flip})
	req := post(t, end.URL+"/?token=hidden-1", "hidden-2")
	req.Header.Set("Authorization", "hidden-3")
	enqueue(t, q, req, Options{})
	for _, name := range []string{store, store + "-wal"} {
		data := string(must[[]byte](t)(os.ReadFile(name)))
		if strings.Contains(data, "hidden-") || strings.Contains(data, "aGlkZGVu") {
			t.Errorf("%s has a secret", name)
		}
		if mode := must[os.FileInfo](t)(os.Stat(name)).Mode(); mode != 0o600 {
			t.Errorf("%s has mode %v", name, mode)
		}
	}
	start(t, q)
	waitFor(t, q, Stats{Delivered: 1})
	if g := end.requests()[0]; g.body != "hidden-2" || g.header.Get("Authorization") != "hidden-3" {
		t.Errorf("got %+v", g)
	}
}
