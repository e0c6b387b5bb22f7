package deliveryqueue

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"example.com/awsretry/delivery"
)

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "text.db")
	if err := os.WriteFile(file, []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, store, text string }{
		{"no name", "", `the store is ""`},
		{"a folder", dir, "is a directory"},
		{"a folder that is missing", filepath.Join(dir, "missing", "d.db"), "no such file"},
		{"another file", file, "not a database"},
		{"a wrong URL", "postgres://user:secret@[", "not that of a PostgreSQL database"},
		{"another URL", "mysql://user:secret@127.0.0.1/d", "the store is a URL; it must be a file"},
		{"capital letters", "Postgres://user:secret@127.0.0.1:1/d", "the store is a URL; it must be a file"},
		{"keywords", "host=127.0.0.1 port=1 user=u password=secret connect_timeout=1", "127.0.0.1:1"},
		{"nobody listens", "postgres://user:secret@127.0.0.1:1/d?connect_timeout=1", "127.0.0.1:1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Open(t.Context(), tt.store, Config{})
			if err == nil || !strings.Contains(err.Error(), tt.text) ||
				!strings.HasPrefix(err.Error(), "deliveryqueue: Open: ") || strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestTablesOfANewerVersion(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		for _, tt := range []struct{ whose, insert, remove string }{
			{
				"River", `INSERT INTO river_migration (line, version) VALUES ('main', 99)`,
				`DELETE FROM river_migration WHERE version = 99`,
			},
			{"deliveryqueue", `INSERT INTO deliveryqueue_schema (version) VALUES (99)`, ``},
		} {
			q := open(t, store, Config{})
			execute(t, q.store.db, tt.insert)
			_, err := Open(t.Context(), store, Config{})
			if err == nil || !strings.Contains(err.Error(), "the tables of "+tt.whose+" have version 99") {
				t.Errorf("error %v", err)
			}
			if tt.remove != "" {
				execute(t, q.store.db, tt.remove)
			}
		}
	})
}

// Many processes may open a new store at the same time.
func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		errs := make(chan error, 4)
		for range cap(errs) {
			go func() {
				q, err := Open(context.Background(), store, Config{})
				if err == nil {
					err = q.Close()
				}
				errs <- err
			}()
		}
		for range cap(errs) {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestReadOnlyFile(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" || os.Getuid() == 0 {
		t.Skip("the rights do not apply to this user")
	}
	store := newSQLite(t)
	q := open(t, store, Config{})
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(store, 0o400); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), store, Config{}); err == nil || !errors.Is(err, os.ErrPermission) {
		t.Errorf("error %v", err)
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
		{"Config.Base is, or sends through, another", Config{Base: &delivery.Transport{}}},
	} {
		err := tt.config.Validate()
		if (err == nil) != (tt.text == "") || err != nil && !strings.Contains(err.Error(), "deliveryqueue: "+tt.text) {
			t.Errorf("%q: %v", tt.text, err)
		}
	}
}
