package deliveryqueue

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/awsretry/delivery"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "text.db")
	check(t, os.WriteFile(file, []byte(strings.Repeat("no database ", 100)), 0o600))
	for _, tt := range []struct{ name, store, text string }{
		{"no name", "", `the store is ""`},
		{"a folder that is missing", filepath.Join(dir, "missing", "d.db"), "no such file"},
		{"another file", file, "not a database"},
		{"a wrong URL", "postgres://user:secret@[", "not that of a PostgreSQL database"},
		{"another URL", "mysql://user:secret@127.0.0.1/d", "the store is a URL; it must be a file"},
		{"keywords", "host=127.0.0.1 port=1 user=u password=secret connect_timeout=1", "127.0.0.1:1"},
		{"keywords in another order", " user=u password=secret port=1 host=127.0.0.1 connect_timeout=1", "127.0.0.1:1"},
		{"nobody listens", "postgres://user:secret@127.0.0.1:1/d?connect_timeout=1", "127.0.0.1:1"},
	} {
		_, err := Open(t.Context(), tt.store, Config{})
		if err == nil || !strings.Contains(err.Error(), tt.text) ||
			!strings.HasPrefix(err.Error(), "deliveryqueue: Open: ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// A release can be rolled back: it uses tables that a newer one has updated, unless
// that one says that it cannot.
func TestTablesOfANewerVersion(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q, end := open(t, store, Config{}), newEndpoint(t, 200)
		execute(t, q.store.db, `INSERT INTO river_migration (line, version) VALUES ('main', 99)`)
		execute(t, q.store.db, `INSERT INTO deliveryqueue_schema (version, minimum) VALUES (98, 1)`)
		execute(t, q.store.db, `ALTER TABLE deliveryqueue_endpoint ADD COLUMN more text`)
		older := open(t, store, Config{})
		enqueue(t, older, post(t, end.URL, "hello"), Options{Policy: throttle(t, 100)})
		start(t, older)
		waitFor(t, older, Stats{Delivered: 1})
		execute(t, q.store.db, `INSERT INTO deliveryqueue_schema (version, minimum) VALUES (99, 2)`)
		if _, err := Open(t.Context(), store, Config{}); err == nil || !strings.Contains(err.Error(), "the tables need version 2") {
			t.Errorf("error %v", err)
		}
	})
}

// Tables of a version before the first release, which lack a column, are refused until
// they are dropped.
func TestTablesOfAnOlderVersion(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q, end := open(t, store, Config{}), newEndpoint(t, 200)
		enqueue(t, q, post(t, end.URL, "hello"), Options{})
		for table, column := range map[string]string{"deliveryqueue_schema": "minimum", "deliveryqueue_endpoint": "rate_from"} {
			execute(t, q.store.db, `ALTER TABLE `+table+` DROP COLUMN `+column)
			if _, err := Open(t.Context(), store, Config{}); !errors.As(err, new(tablesError)) || !strings.Contains(err.Error(), "before the first release") {
				t.Errorf("without %s: %v", column, err)
			}
			execute(t, q.store.db, `DROP TABLE deliveryqueue_endpoint`)
			execute(t, q.store.db, `DROP TABLE deliveryqueue_schema`)
			execute(t, q.store.db, `DROP INDEX deliveryqueue_due`)
			q = open(t, store, Config{})
		}
		start(t, q)
		waitFor(t, q, Stats{Delivered: 1})
	})
}

// A german is a connection to PostgreSQL with lc_messages = de_DE.
type german struct{ *stdlib.Conn }

func (g german) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := g.Conn.QueryContext(ctx, query, args)
	if failed := (*pgconn.PgError)(nil); errors.As(err, &failed) {
		err = &pgconn.PgError{Severity: "FEHLER", Code: failed.Code, Message: "Spalte existiert nicht"}
	}
	return rows, err
}

type germans struct{ driver.Connector }

func (g germans) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := g.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return german{conn.(*stdlib.Conn)}, nil
}

// What PostgreSQL says is understood in any language.
func TestLanguage(t *testing.T) {
	t.Parallel()
	store := newPostgres(t)
	execute(t, connect(t, "pgx", store), `ALTER TABLE deliveryqueue_endpoint DROP COLUMN rate_from`)
	db := sql.OpenDB(germans{stdlib.GetConnector(*must[*pgx.ConnConfig](t)(pgx.ParseConfig(store)))})
	defer db.Close()
	if _, err := Open(t.Context(), db, Config{}); !errors.As(err, new(tablesError)) {
		t.Error(err)
	}
}

// Open creates an index that is missing, and what waits is delivered.
func TestMissingIndex(t *testing.T) {
	t.Parallel()
	end := newEndpoint(t, 200)
	store := newSQLite(t)
	q := open(t, store, Config{})
	enqueue(t, q, post(t, end.URL, "hello"), Options{Policy: throttle(t, 100)})
	execute(t, q.store.db, `DROP INDEX deliveryqueue_due`) // as an update of River may
	again := open(t, store, Config{})
	start(t, again)
	waitFor(t, again, Stats{Delivered: 1})
}

// Many processes may open a new store at the same time.
func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	for name, empty := range map[string]func(testing.TB) string{"SQLite": emptySQLite, "PostgreSQL": emptyPostgres} {
		t.Run(name, func(t *testing.T) {
			store, errs := empty(t), make(chan error, 4)
			for range cap(errs) {
				go func() { errs <- makeTables(store) }()
			}
			for range cap(errs) {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestConfigValidate(t *testing.T) {
	same := func(b []byte) ([]byte, error) { return b, nil }
	for _, tt := range []struct {
		text   string
		config Config
	}{
		{"", Config{}},
		{"", Config{KeepDelivered: -1, Seal: same, Open: same}},
		{"Config.PerEndpoint is -1; it must be 1 to 10000", Config{PerEndpoint: -1}},
		{"Config.MaxRetryAfter is 1h0m0.000000001s", Config{MaxRetryAfter: time.Hour + 1}},
		{"Config.DisableAfter is -1ns", Config{DisableAfter: -1}},
		{"Config.AttemptTimeout is -1ns; it must be above 0", Config{AttemptTimeout: -1}},
		{"Config.AttemptTimeout is 24h0m0.000000001s", Config{AttemptTimeout: 24*time.Hour + 1}},
		{"Config.Workers is -1; it must be 1 to 10000", Config{Workers: -1}},
		{"Config.Workers is 10001", Config{Workers: 10_001}},
		{"Config.MaxBody is -1", Config{MaxBody: -1}},
		{"Config.MaxBody is 67108865", Config{MaxBody: 64<<20 + 1}},
		{"Config.Open is nil", Config{Seal: same}},
		{"Config.Seal is nil", Config{Open: same}},
		{"Config.StopTimeout is -1ns", Config{StopTimeout: -1}},
		{"Config.PollInterval is 1ns; it must be 10ms", Config{PollInterval: 1}},
		{"Config.PollInterval is 1m0.000000001s", Config{PollInterval: time.Minute + 1}},
		{"Config.Base is, or sends through, another", Config{Base: &delivery.Transport{}}},
	} {
		err := tt.config.Validate()
		if (err == nil) != (tt.text == "") || err != nil && !strings.Contains(err.Error(), "deliveryqueue: "+tt.text) {
			t.Errorf("%q: %v", tt.text, err)
		}
	}
}

// Enqueue says that the queue is closed.
func TestEnqueueAfterClose(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := must[*Queue](t)(Open(t.Context(), store, Config{}))
		check(t, q.Close())
		_, one := q.Enqueue(t.Context(), post(t, "http://endpoint.test", "x"), Options{})
		_, many := q.EnqueueMany(t.Context(), []Item{{Request: post(t, "http://endpoint.test", "x")}})
		for _, err := range []error{one, many, q.Run(t.Context())} {
			if !errors.Is(err, errClosed) {
				t.Error(err)
			}
		}
	})
}

// By default, deliveries are sent only to public addresses.
func TestDefaultBase(t *testing.T) {
	t.Parallel()
	end := newEndpoint(t, 200)
	q := must[*Queue](t)(Open(t.Context(), newSQLite(t), Config{PollInterval: minPollInterval}))
	t.Cleanup(func() { check(t, q.Close()) })
	id := enqueue(t, q, post(t, end.URL, "hello"), Options{})
	start(t, q)
	waitFor(t, q, Stats{Dead: 1})
	if d := get(t, q, id); d.Reason != "permanent" || !strings.Contains(d.Err, "loopback") {
		t.Errorf("%+v", d)
	}
	end.check(t, 0)
}
