package deliveryqueue

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/delivery"
	"example.com/awsretry/internal/httpfake"
)

// A store that is unavailable for a while loses no outcome, and Run reconnects.
func TestStoreGoesAway(t *testing.T) {
	t.Parallel()
	q := open(t, newPostgres(t), Config{})
	admin := connect(t, "pgx", postgres.server.url("postgres"))
	database := scan[string](t, q, "SELECT current_database()")
	allow := func(is bool) {
		t.Helper()
		execute(t, admin, fmt.Sprintf("ALTER DATABASE %s ALLOW_CONNECTIONS %v", database, is))
		execute(t, admin, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", database)
	}
	end := newEndpoint(t, 200)
	end.hold = make(chan struct{})
	startOne(t, q, end)
	allow(false)
	close(end.hold)
	time.Sleep(200 * time.Millisecond)
	if _, err := q.Enqueue(t.Context(), post(t, end.URL, "hello"), Options{}); err == nil {
		t.Error("Enqueue returned no error")
	}
	allow(true)
	eventually(t, "the store is there", func() bool {
		_, err := q.Stats(t.Context())
		return err == nil
	})
	enqueue(t, q, post(t, end.URL, "hello"), Options{})
	waitFor(t, q, Stats{Delivered: 2})
	end.check(t, 2)
}

// An SQLite file that another process has locked, or that refuses writes, for a
// while loses no outcome.
func TestLockedFile(t *testing.T) {
	t.Parallel()
	const trigger = "CREATE TRIGGER no_%[1]s BEFORE %[1]s ON river_job BEGIN SELECT RAISE(ABORT, 'no writes'); END;"
	for _, tt := range []struct {
		begin, end string
		fault      string // of Enqueue meanwhile; "": it waits
		want       int    // deliveries
	}{
		{"BEGIN IMMEDIATE", "ROLLBACK", "", 2},
		{fmt.Sprintf(trigger, "INSERT") + fmt.Sprintf(trigger, "UPDATE"),
			"DROP TRIGGER no_INSERT; DROP TRIGGER no_UPDATE", "no writes", 1},
	} {
		store, end := newSQLite(t), newEndpoint(t, 200)
		end.hold = make(chan struct{})
		q := open(t, store, Config{})
		startOne(t, q, end)
		other := connect(t, "sqlite", store+"?_busy_timeout=5000")
		other.SetMaxOpenConns(1)
		execute(t, other, tt.begin)
		close(end.hold)
		enqueued := make(chan error, 1)
		go func() {
			_, err := q.Enqueue(t.Context(), post(t, end.URL, "hello"), Options{})
			enqueued <- err
		}()
		var err error
		if tt.fault != "" {
			err = <-enqueued
		} else {
			time.Sleep(300 * time.Millisecond)
		}
		var state string // it can be read
		if err := other.QueryRow("SELECT state FROM river_job").Scan(&state); err != nil || state != "running" {
			t.Errorf("%q, %v", state, err)
		}
		execute(t, other, tt.end)
		if tt.fault == "" {
			err = <-enqueued
		}
		if (err != nil) != (tt.fault != "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
			t.Errorf("Enqueue: %v", err)
		}
		waitFor(t, q, Stats{Delivered: tt.want})
		end.check(t, tt.want)
	}
}

// Enqueue waits for a file that others have locked, and for the connection, but not
// forever.
func TestWaitsForALock(t *testing.T) {
	t.Parallel()
	store := newSQLite(t)
	q, waits := open(t, store, Config{}), open(t, store, Config{})
	other := connect(t, "sqlite", store)
	other.SetMaxOpenConns(1)
	execute(t, other, "BEGIN IMMEDIATE")
	held := must[*sql.Conn](t)(waits.store.db.Conn(t.Context()))
	var both sync.WaitGroup
	for _, queue := range []*Queue{q, waits} {
		both.Go(func() {
			begin := time.Now()
			_, err := queue.Enqueue(t.Context(), post(t, "http://endpoint.test", "hello"), Options{})
			if took := time.Since(begin); err == nil || took < lockWait*9/10 || errors.Is(err, errLocked) != (queue == waits) {
				t.Errorf("after %v: %v", took, err)
			}
		})
	}
	both.Wait()
	check(t, held.Close())
	execute(t, other, "ROLLBACK")
	enqueue(t, waits, post(t, "http://endpoint.test", "hello"), Options{})
}

// River does not write the state of a delivery whose outcome or turn the store did
// not accept: River uses the process's clock, and does not check whether another
// process has taken the delivery over.
func TestRiverDoesNotWrite(t *testing.T) {
	t.Parallel()
	const written = "SELECT errors IS NOT NULL FROM river_job"
	for _, tt := range []struct {
		trigger string
		policy  *delivery.Policy
		want    Stats
	}{
		{"UPDATE ON river_job WHEN NEW.state = 'completed'", nil, Stats{Running: 1}},
		{"INSERT ON deliveryqueue_endpoint", throttle(t, 1), Stats{Waiting: 1}},
	} {
		store := newSQLite(t)
		synctest.Test(t, func(t *testing.T) {
			begun := 0
			q := open(t, store, Config{PollInterval: time.Second, OnOutcome: func(d Delivery) { t.Errorf("%+v", d) }, Base: httpfake.Base(
				func(req *http.Request) (*http.Response, error) {
					begun++
					return httpfake.Empty(204, req), req.Body.Close()
				})})
			execute(t, q.store.db, "CREATE TRIGGER fail BEFORE "+tt.trigger+" BEGIN SELECT RAISE(ABORT, 'failed'); END")
			enqueue(t, q, post(t, "http://endpoint.test", "hello"), Options{Policy: tt.policy})
			stop := start(t, q)
			time.Sleep(settleTimeout + time.Second)
			stop()
			if s := stats(t, q); s != tt.want || scan[bool](t, q, written) || begun != s.Running {
				t.Errorf("%s: %+v after %d attempts, River wrote: %v", tt.trigger, s, begun, scan[bool](t, q, written))
			}
			if d := list(t, q, Filter{})[0]; d.State == Waiting && d.Next.Sub(d.Enqueued) < 500*time.Millisecond {
				t.Errorf("it does not ask later: %+v", d)
			}
		})
	}
}

// River deletes what was delivered, but not before a 410 may ask for it, and no dead
// letter.
func TestCleaning(t *testing.T) {
	t.Parallel()
	end := newEndpoint(t, 200, 200, 400)
	q := open(t, newSQLite(t), Config{KeepDelivered: time.Millisecond, Workers: 1})
	for range 3 {
		enqueue(t, q, post(t, end.URL, "hello"), Options{})
	}
	stop := start(t, q)
	eventually(t, "all have ended", func() bool { return stats(t, q).open() == 0 })
	stop()
	setJob(t, q, 1, `finalized_at = `+q.store.after(fmt.Sprint(-delivering.Seconds())))
	start(t, q) // the cleaner runs once in the beginning, and then after each 30 s
	waitFor(t, q, Stats{Dead: 1, Delivered: 1})
}

// A file that was deleted accepts no deliveries, and Run stops, or does not start.
func TestFileIsDeleted(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{"", "-wal"} {
		store := newSQLite(t)
		synctest.Test(t, func(t *testing.T) {
			var log httpfake.Buffer
			delivered := make(chan Delivery, 1)
			q := open(t, store, Config{
				Base: httpfake.Statuses(204), OnOutcome: func(d Delivery) { delivered <- d }, PollInterval: time.Second,
				Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			stop := run(q)
			enqueue(t, q, post(t, "http://endpoint.test", "hello"), Options{})
			<-delivered
			check(t, os.Remove(store+suffix))
			_, one := q.Enqueue(t.Context(), post(t, "http://endpoint.test", ""), Options{})
			_, many := q.EnqueueMany(t.Context(), []Item{{Request: post(t, "http://endpoint.test", "")}})
			if !errors.Is(one, errReplaced) || !errors.Is(many, errReplaced) {
				t.Errorf("Enqueue: %v; EnqueueMany: %v", one, many)
			}
			time.Sleep(2 * step) // it ends by itself
			if err := stop(); !errors.Is(err, errReplaced) || !strings.Contains(log.String(), "deleted or replaced") {
				t.Errorf("Run: %v; the log is %q", err, log.String())
			}
		})
	}

	store := newSQLite(t)
	q := open(t, store, Config{})
	check(t, errors.Join(os.Truncate(store, 0), os.Truncate(store+"-wal", 0), os.Remove(store)))
	if err := q.Run(t.Context()); !errors.Is(err, errReplaced) {
		t.Errorf("Run: %v", err)
	}
}

// PostgreSQL has no file.
func TestNoFileIsDeleted(t *testing.T) {
	t.Chdir(t.TempDir())
	check(t, os.WriteFile("-wal", nil, 0o600))
	q := open(t, newPostgres(t), Config{})
	check(t, os.Remove("-wal"))
	enqueue(t, q, post(t, "http://endpoint.test", "hello"), Options{})
}

// A process that only enqueues does not mistake its own log for deleted after an
// Enqueue whose context ended while the file was locked.
func TestLogIsKept(t *testing.T) {
	t.Parallel()
	store := newSQLite(t)
	q := open(t, store, Config{})
	execute(t, q.store.db, "PRAGMA busy_timeout = 300")
	other := must[*sql.DB](t)(sql.Open("sqlite", store+"?_txlock=immediate"))
	tx := must[*sql.Tx](t)(other.Begin())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := q.Enqueue(ctx, post(t, "http://endpoint.test", "hello"), Options{}); err == nil {
		t.Error("the file is not locked")
	}
	check(t, errors.Join(tx.Rollback(), other.Close()))
	enqueue(t, q, post(t, "http://endpoint.test", "hello"), Options{})
}

// A store that fails for long is logged, and so is its recovery. Without a Logger
// these records go to slog.Default, and no others.
func TestOutageIsLogged(t *testing.T) {
	var log httpfake.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	store := newSQLite(t)
	synctest.Test(t, func(t *testing.T) {
		q := must[*Queue](t)(Open(t.Context(), store, Config{Base: loopback, PollInterval: time.Second}))
		defer q.Close()
		stop := run(q)
		time.Sleep(2 * step)
		if text := log.String(); text != "" {
			t.Errorf("without an outage: %s", text)
		}
		execute(t, q.store.db, `ALTER TABLE river_job RENAME TO away`)
		time.Sleep(outage + 4*step)
		if n := strings.Count(log.String(), "the store fails"); n != 1 {
			t.Errorf("the outage is logged %d times", n)
		}
		execute(t, q.store.db, `ALTER TABLE away RENAME TO river_job`)
		time.Sleep(3 * step)
		if !strings.Contains(log.String(), "the store is back") {
			t.Error("the end of it is not logged")
		}
		check(t, stop())
	})
	for line := range bytes.Lines([]byte(log.String())) {
		if !bytes.Contains(line, []byte("deliveryqueue: the store")) {
			t.Errorf("%s", line)
		}
	}
}

// A user of PostgreSQL that cannot create tables can use existing ones.
func TestRights(t *testing.T) {
	t.Parallel()
	store := newPostgres(t)
	owner := connect(t, "pgx", store)
	execute(t, owner, "CREATE ROLE worker LOGIN")
	execute(t, owner, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO worker")
	execute(t, owner, "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO worker")
	end := newEndpoint(t, 200)
	q := open(t, strings.Replace(store, "postgres@", "worker@", 1), Config{})
	if _, err := q.store.db.Exec("CREATE TABLE more (id integer)"); err == nil {
		t.Error("the user can make tables")
	}
	enqueue(t, q, post(t, end.URL, "hello"), Options{Policy: throttle(t, 9)})
	start(t, q)
	waitFor(t, q, Stats{Delivered: 1})
}

// If no sweep succeeds, also because one hangs, that is logged once a minute, and so
// is the end of it.
func TestSweepsThatDoNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log httpfake.Buffer
		q := &Queue{config: Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go q.watchSweeps(ctx)
		for _, tt := range []struct {
			wait  time.Duration
			ended []error // sweeps after it
			want  string
			times int
		}{
			{outage - 2*step, []error{nil}, "", 0},
			{outage + 2*step, []error{errNoAnswer}, "the store fails", 1},
			{outage, nil, "the store fails", 2},
			{step, []error{nil}, "the store is back", 0},
			{2 * step, nil, "the store is back", 1},
			{outage + step, nil, "the store fails", 3},
		} {
			time.Sleep(tt.wait)
			if n := strings.Count(log.String(), tt.want); tt.want != "" && n != tt.times || tt.want == "" && log.String() != "" {
				t.Errorf("%d times %q, want %d; the log is %s", n, tt.want, tt.times, log.String())
			}
			for _, err := range tt.ended {
				q.sweeps.ended(err)
			}
		}
		if at := q.Swept(); time.Since(at) < outage || !strings.Contains(log.String(), errNoAnswer.Error()) {
			t.Errorf("the last sweep was at %v; the log is %s", at, log.String())
		}
	})
}
