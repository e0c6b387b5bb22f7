package deliveryqueue

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/delivery"
	"example.com/awsretry/delivery/letters"
)

func TestDeadLetterIsHandedOver(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 404)
		dir := t.TempDir()
		folder := &letters.Dir{Path: dir}
		q := open(t, store, Config{DeadLetter: folder.Put})
		enqueue(t, q, post(t, end.URL, "hello"), Options{IdempotencyKey: "key 1"})
		start(t, q)
		waitFor(t, q, Stats{Canceled: 1})
		d := list(t, q, Filter{})[0]
		if d.Reason != "permanent" || d.Status != 404 || d.Attempts != 1 {
			t.Errorf("%+v", d)
		}
		for letter, err := range folder.List() {
			if err != nil || letter.Reason != "permanent" || letter.Status != 404 || letter.Attempts != 1 {
				t.Errorf("the letter: %+v, %v", letter, err)
			}
		}
		end.respond(200)
		done, err := folder.Redrive(t.Context(), http.DefaultTransport, letters.RedriveOptions{})
		if err != nil || done.Delivered != 1 {
			t.Fatalf("%+v, %v", done, err)
		}
		if last := end.requests()[1]; last.body != "hello" || last.header.Get("Idempotency-Key") != "key 1" {
			t.Errorf("redriven: %+v", last)
		}
	})
}

func TestDeadLetterIsNotTaken(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text string
		hook       func(context.Context, delivery.DeadLetter) error
	}{
		{"error", "disk full", func(_ context.Context, dead delivery.DeadLetter) error {
			body, err := io.ReadAll(dead.Request.Body)
			if err != nil || string(body) != "hello" || dead.Response.StatusCode != 404 {
				return errors.New("wrong dead letter")
			}
			return errors.New("disk full")
		}},
		{"panic", "panicked: boom", func(context.Context, delivery.DeadLetter) error { panic("boom") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			end := newEndpoint(t, 404)
			q := open(t, newSQLite(t), Config{DeadLetter: tt.hook})
			enqueue(t, q, post(t, end.URL, "hello"), Options{})
			start(t, q)
			waitFor(t, q, Stats{Dead: 1})
			if d := list(t, q, Filter{})[0]; d.Reason != "permanent" || !strings.Contains(d.Err, tt.text) {
				t.Errorf("%+v", d)
			}
		})
	}
}

func TestPanics(t *testing.T) {
	t.Parallel()
	same := func(data []byte) ([]byte, error) { return data, nil }
	for _, tt := range []struct {
		name   string
		status int
		config Config
		want   Delivery
	}{
		{"Base", 200, Config{Base: roundTripper(func(*http.Request) (*http.Response, error) { panic("boom") })},
			Delivery{State: Dead, Reason: "panic", Attempts: 1}},
		{"Observe", 404, Config{Observe: func(awsretry.Attempt) { panic("boom") }},
			Delivery{State: Dead, Reason: "panic", Attempts: 1}},
		{"Observe of a 2xx", 200, Config{Observe: func(awsretry.Attempt) { panic("boom") }},
			Delivery{State: Delivered, Attempts: 1, Status: 200}},
		{"Open", 200, Config{Seal: same, Open: func([]byte) ([]byte, error) { panic("boom") }},
			Delivery{State: Dead, Reason: "unreadable"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			end := newEndpoint(t, tt.status)
			q := open(t, newSQLite(t), tt.config)
			enqueue(t, q, post(t, end.URL, "hello"), Options{})
			start(t, q)
			eventually(t, "it has ended", func() bool { return !list(t, q, Filter{})[0].Ended.IsZero() })
			d := list(t, q, Filter{})[0]
			if d.State != tt.want.State || d.Reason != tt.want.Reason || d.Attempts != tt.want.Attempts ||
				d.Status != tt.want.Status || strings.Contains(d.Err, "boom") != (d.State == Dead) {
				t.Errorf("%+v", d)
			}
		})
	}
}

// A row that cannot be read becomes a dead letter, and the others go on.
func TestPoison(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 200)
		q := open(t, store, Config{})
		poison := []string{`{}`, `{"version": 2}`, `[]`, `{"version": 1, "letter": "aGVsbG8="}`,
			`{"version": 1, "fixed": "none", "letter": "aGVsbG8="}`, `{"version": 1, "policy": {"x": 1}}`,
			`{"version": 1, "sealed": true, "letter": "aGVsbG8="}`}
		if q.store.sqlite {
			poison = append(poison, `not JSON`)
		}
		for _, raw := range poison {
			id := enqueue(t, q, post(t, end.URL, "hello"), Options{})
			execute(t, q.store.db, q.store.query(`UPDATE river_job SET args = $1 WHERE id = $2`), raw, id)
		}
		dead := len(poison)
		if q.store.sqlite { // which takes any metadata that another program writes
			dead++
			setJob(t, q, enqueue(t, q, post(t, end.URL, "hello"), Options{}),
				`metadata = 'not JSON', state = 'running', attempted_at = `+q.store.after(`-3600`))
			if n := len(list(t, q, Filter{Endpoint: end.URL})); n != len(poison) {
				t.Errorf("%d of the endpoint", n)
			}
		}
		enqueue(t, q, post(t, end.URL, "hello"), Options{})
		start(t, q)
		waitFor(t, q, Stats{Dead: dead, Delivered: 1})
		for _, d := range list(t, q, Filter{State: Dead}) {
			if d.Reason != "unreadable" || d.Err == "" || d.Attempts != 0 {
				t.Errorf("%+v", d)
			}
		}
		end.check(t, 1)
	})
}

// A row with numbers or times that this package does not write harms no other.
func TestDamagedRow(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 200)
		q := open(t, store, Config{})
		q.timing.sweep = 20 * time.Millisecond
		for _, assignments := range []string{`attempt = 32767`, `state = 'running', attempted_at = NULL`} {
			setJob(t, q, enqueue(t, q, post(t, end.URL, "hello"), Options{}), assignments)
		}
		if q.store.sqlite { // which takes any text as a time
			setJob(t, q, enqueue(t, q, post(t, end.URL, "hello"), Options{}),
				`state = 'completed', created_at = 'yesterday', finalized_at = CURRENT_TIMESTAMP`)
			if d := list(t, q, Filter{}); len(d) != 3 || d[2].Reason != "unreadable" || !strings.Contains(d[2].Err, `"yesterday"`) {
				t.Errorf("%+v", d)
			}
			setJob(t, q, 3, `state = 'cancelled'`)
		}
		enqueue(t, q, post(t, end.URL, "hello"), Options{})
		start(t, q)
		eventuallyIn(t, 20*time.Second, "all have ended", func() bool {
			s := stats(t, q)
			return s.Delivered == 2 && s.Dead == 1 || q.store.sqlite && s.Delivered == 3 // SQLite counts further
		})
		for _, d := range list(t, q, Filter{State: Dead}) {
			if d.ID != 1 || d.Reason != "crashed" {
				t.Errorf("%+v", d)
			}
		}
	})
}

// What crashes the process each time becomes a dead letter at last.
func TestCrashLimit(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 200)
		q := open(t, store, Config{AttemptTimeout: time.Second})
		q.timing = timing{settle: time.Second, sweep: 50 * time.Millisecond}
		id := enqueue(t, q, post(t, end.URL, "hello"), Options{})
		execute(t, q.store.db, q.store.query(`UPDATE river_job SET state = 'running', attempt = $1,
			attempted_at = $2 WHERE id = $3`), crashLimit, q.store.time(list(t, q, Filter{})[0].Enqueued.Add(-time.Hour)), id)
		start(t, q)
		waitFor(t, q, Stats{Dead: 1})
		if d := list(t, q, Filter{})[0]; d.Reason != "crashed" {
			t.Errorf("%+v", d)
		}
		if len(end.requests()) != 0 {
			t.Error("it was attempted")
		}
	})
}

func TestSeal(t *testing.T) {
	t.Parallel()
	flip := func(data []byte) ([]byte, error) {
		out := make([]byte, len(data))
		for i, b := range data {
			out[i] = b ^ 0x55
		}
		return out, nil
	}
	end := newEndpoint(t, 200)
	store := newSQLite(t)
	q := open(t, store, Config{Seal: flip, Open: flip})
	req := post(t, end.URL+"/?token=hidden-1", "hidden-2")
	req.Header.Set("Authorization", "hidden-3")
	enqueue(t, q, req, Options{})
	for _, name := range []string{store, store + "-wal"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "hidden-") || strings.Contains(string(data), "aGlkZGVu") {
			t.Errorf("%s has a secret", name)
		}
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", name, info.Mode(), err)
		}
	}
	start(t, q)
	waitFor(t, q, Stats{Delivered: 1})
	if g := end.requests()[0]; g.body != "hidden-2" || g.header.Get("Authorization") != "hidden-3" {
		t.Errorf("got %+v", g)
	}
}
