package deliveryqueue

import (
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivermigrate"
)

// Open brings the tables of an older River up to date, and what waits in them
// is delivered.
func TestTablesOfAnOlderVersion(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 200)
		q := open(t, store, Config{})
		enqueue(t, q, post(t, end.URL, "hello"), Options{})
		version := func() (version int) {
			t.Helper()
			if err := q.store.db.QueryRow("SELECT max(version) FROM river_migration").Scan(&version); err != nil {
				t.Fatal(err)
			}
			return version
		}
		newest := version()
		switch jobs := q.store.jobs.(type) {
		case *riverJobs[*sql.Tx]:
			migrateDown(t, jobs.driver)
		case *riverJobs[pgx.Tx]:
			migrateDown(t, jobs.driver)
		}
		if older := version(); older >= newest {
			t.Fatalf("version %d became %d", newest, older)
		}
		again := open(t, store, Config{})
		if v := version(); v != newest {
			t.Errorf("version %d, want %d", v, newest)
		}
		enqueue(t, again, post(t, end.URL, "hello"), Options{})
		start(t, again)
		waitFor(t, again, Stats{Delivered: 2})
	})
}

func migrateDown[Tx any](t *testing.T, driver riverdriver.Driver[Tx]) {
	t.Helper()
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Migrate(t.Context(), rivermigrate.DirectionDown, nil); err != nil {
		t.Fatal(err)
	}
}
