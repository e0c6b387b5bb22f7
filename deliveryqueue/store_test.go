package deliveryqueue

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"
)

// A store that is away for a while loses no outcome, and Run finds it again.
func TestStoreGoesAway(t *testing.T) {
	t.Parallel()
	for name, alter := range map[string]string{
		"down": "ALLOW_CONNECTIONS %v", "read-only": "SET default_transaction_read_only = %v",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newPostgres(t)
			database := store[strings.LastIndex(store, "/")+1 : strings.Index(store, "?")]
			admin := connect(t, "pgx", postgres.server.URL("postgres"))
			// Its own setting is not that of the connections, so they are cut. Each
			// is waited for, or it might still refuse a write after that.
			set := func(value bool) {
				t.Helper()
				execute(t, admin, fmt.Sprintf("ALTER DATABASE %s "+alter, database, value))
				const end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1"
				execute(t, admin, end, database)
			}
			readOnly := name == "read-only"
			end := newEndpoint(t, 200)
			end.delay = 300 * time.Millisecond
			q := open(t, store, Config{})
			startOne(t, q, end)

			set(readOnly)
			time.Sleep(700 * time.Millisecond)
			_, err := q.Enqueue(t.Context(), post(t, end.URL, "hello"), Options{})
			if err == nil || readOnly && !strings.Contains(err.Error(), "read-only") {
				t.Errorf("Enqueue: %v", err)
			}
			set(!readOnly)

			eventually(t, "the store is there", func() bool {
				_, err := q.Stats(t.Context())
				return err == nil
			})
			waitFor(t, q, Stats{Delivered: 1})
			enqueue(t, q, post(t, end.URL, "hello"), Options{})
			waitFor(t, q, Stats{Delivered: 2})
			end.check(t, 2)
		})
	}
}

// The same of an SQLite file that takes no writes for a while: another process
// has locked it, or it refuses them. (No right binds root: that is
// TestReadOnlyFile.)
func TestFileTakesNoWrites(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		begin func(t *testing.T, other *sql.DB) (end func() error)
	}{
		{"locked", func(t *testing.T, other *sql.DB) func() error {
			tx, err := other.Begin()
			if err != nil {
				t.Fatal(err)
			}
			return tx.Rollback
		}},
		{"read-only", func(t *testing.T, other *sql.DB) func() error {
			for _, write := range []string{"INSERT", "UPDATE"} {
				execute(t, other, "CREATE TRIGGER no_"+write+" BEFORE "+write+
					" ON river_job BEGIN SELECT RAISE(ABORT, 'no writes'); END")
			}
			return func() error {
				_, err := other.Exec("DROP TRIGGER no_INSERT; DROP TRIGGER no_UPDATE")
				return err
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := newSQLite(t)
			end := newEndpoint(t, 200)
			end.hold = make(chan struct{})
			q := open(t, store, Config{})
			other := connect(t, "sqlite", store+"?_txlock=immediate&_busy_timeout=5000")
			startOne(t, q, end)
			release := tt.begin(t, other)
			close(end.hold)
			time.Sleep(500 * time.Millisecond)
			var state string // it can be read
			if err := other.QueryRow("SELECT state FROM river_job").Scan(&state); err != nil || state != "running" {
				t.Errorf("%q, %v", state, err)
			}
			if tt.name == "read-only" {
				_, err := q.Enqueue(t.Context(), post(t, end.URL, "hello"), Options{})
				if err == nil || !strings.Contains(err.Error(), "no writes") {
					t.Errorf("Enqueue: %v", err)
				}
			}
			if err := release(); err != nil {
				t.Fatal(err)
			}
			waitFor(t, q, Stats{Delivered: 1})
			end.check(t, 1)
		})
	}
}

// River does not write what becomes of a delivery whose outcome or turn the
// store did not take: its clock is that of the process, and it does not look
// whether another process has taken the delivery over.
func TestRiverDoesNotWrite(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 200)
		q := open(t, store, Config{})
		q.timing.settle = -1
		written := func() (is bool) {
			t.Helper()
			if err := q.store.db.QueryRow("SELECT errors IS NOT NULL FROM river_job").Scan(&is); err != nil {
				t.Fatal(err)
			}
			return is
		}
		startOne(t, q, end)()
		if s := stats(t, q); s != (Stats{Running: 1}) || written() {
			t.Errorf("after an outcome that was not taken: %+v, River wrote: %v", s, written())
		}

		q.timing.settle = time.Second
		execute(t, q.store.db, "DELETE FROM river_job")
		fail := `ALTER TABLE deliveryqueue_endpoint ADD CHECK (per_second = 0)`
		if q.store.sqlite {
			fail = `CREATE TRIGGER fail BEFORE UPDATE ON deliveryqueue_endpoint BEGIN SELECT RAISE(ABORT, 'failed'); END`
		}
		execute(t, q.store.db, fail)
		enqueue(t, q, post(t, end.URL, "hello"), Options{Policy: parse(t, `{"throttlePolicy": {"maxReceivesPerSecond": 1}}`)})
		stop := start(t, q)
		eventually(t, "it asks again later", func() bool {
			d := list(t, q, Filter{})[0]
			return d.State == Waiting && d.Next.Sub(d.Enqueued) > 500*time.Millisecond
		})
		stop()
		if s := stats(t, q); s != (Stats{Waiting: 1}) || written() || len(end.requests()) != 1 {
			t.Errorf("after a turn that was not taken: %+v, River wrote: %v", s, written())
		}
	})
}

func TestEndpointThatHangs(t *testing.T) {
	t.Parallel()
	end := newEndpoint(t, 1)
	q := open(t, newSQLite(t), Config{AttemptTimeout: 100 * time.Millisecond})
	enqueue(t, q, post(t, end.URL, "hello"), Options{Policy: parse(t, noRetries)})
	start(t, q)
	waitFor(t, q, Stats{Dead: 1})
	if d := list(t, q, Filter{})[0]; d.Reason != "max_attempts" || d.Status != 0 || d.Err == "" {
		t.Errorf("%+v", d)
	}
}

// River deletes what was delivered, and no dead letter.
func TestCleaning(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 200, 404)
		q := open(t, store, Config{KeepDelivered: time.Millisecond, Workers: 1})
		enqueue(t, q, post(t, end.URL, "hello"), Options{})
		enqueue(t, q, post(t, end.URL, "hello"), Options{})
		stop := start(t, q)
		eventually(t, "all have ended", func() bool { return stats(t, q).open() == 0 })
		stop()
		start(t, q) // the cleaner runs once in the beginning, and then after each 30 s
		waitFor(t, q, Stats{Dead: 1})
	})
}

// A store that is full refuses deliveries, and keeps those that it accepted.
func TestFullStore(t *testing.T) {
	t.Parallel()
	end := newEndpoint(t, 200)
	q := open(t, newSQLite(t), Config{})
	limit := func(pages int) {
		t.Helper()
		execute(t, q.store.db, fmt.Sprintf("PRAGMA max_page_count = %d", pages))
	}
	limit(100)
	accepted := 0
	for {
		_, err := q.Enqueue(t.Context(), post(t, end.URL, strings.Repeat("x", 10_000)), Options{})
		if err != nil {
			if !strings.Contains(err.Error(), "full") {
				t.Errorf("error %v", err)
			}
			break
		}
		accepted++
	}
	limit(10_000)
	start(t, q)
	waitFor(t, q, Stats{Delivered: accepted})
	if accepted == 0 || len(end.requests()) != accepted {
		t.Errorf("%d were accepted, %d requests", accepted, len(end.requests()))
	}
}
