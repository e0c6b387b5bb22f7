package deliveryqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// schemaVersion is the version of all tables, also River's. A release with an older
// version can use them from schemaMinimum on: it may be rolled back to.
const (
	schemaVersion = 1
	schemaMinimum = 1
)

// A tablesError is the error of tables that this version cannot use.
type tablesError string

func (e tablesError) Error() string { return string(e) }

// endpointTable creates the table of endpoints. Times are in Unix microseconds, and
// 0 is none.
const endpointTable = `CREATE TABLE IF NOT EXISTS deliveryqueue_endpoint (
	endpoint text PRIMARY KEY,
	next_at bigint NOT NULL DEFAULT 0,
	per_second integer NOT NULL DEFAULT 0,
	rate_from bigint NOT NULL DEFAULT 0, -- the delivery whose policy has per_second
	failing_since bigint NOT NULL DEFAULT 0,
	disabled_at bigint NOT NULL DEFAULT 0,
	paused_at bigint NOT NULL DEFAULT 0,
	alone_until bigint NOT NULL DEFAULT 0,
	used_at bigint NOT NULL DEFAULT 0)`

const (
	migrateTries = 20
	migratePause = 100 * time.Millisecond
	noSuchColumn = "42703" // a SQLSTATE: PostgreSQL's text depends on the language
)

// migrate creates the tables or updates them. Two processes that do so at once may
// make each other fail, so it tries several times.
func (s *store) migrate(ctx context.Context) error {
	var err error
	for range migrateTries {
		err = s.migrateOnce(ctx)
		if err == nil || errors.As(err, new(tablesError)) || ctx.Err() != nil {
			return err
		}
		if s.db.DB.PingContext(ctx) != nil { // no connection at all
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(migratePause):
		}
	}
	return err
}

func (s *store) migrateOnce(ctx context.Context) error {
	if err := s.migrateRiver(ctx); err != nil {
		return err
	}
	if err := s.makeOwn(ctx); err != nil {
		return err
	}
	var minimum int
	err := s.db.DB.QueryRowContext(ctx, s.query(
		`SELECT max(minimum), (SELECT count(rate_from) FROM deliveryqueue_endpoint) FROM deliveryqueue_schema`)).Scan(&minimum, new(int))
	switch {
	case sqlState(err) == noSuchColumn || s.sqlite && err != nil && strings.Contains(err.Error(), "no such column"):
		return tablesError("the tables are of a version before the first release: let that version deliver what waits, or drop the tables " +
			"deliveryqueue_endpoint and deliveryqueue_schema and the indexes deliveryqueue_due and deliveryqueue_aside, which Open makes again")
	case err != nil:
		return err
	case minimum > schemaVersion:
		return tablesError(fmt.Sprintf("the tables need version %d; this program has version %d, so update it", minimum, schemaVersion))
	}
	return s.addIndexes(ctx)
}

// addIndexes creates what is missing of byIndexes and the indexes of River's table. An
// update of River may drop these with it.
func (s *store) addIndexes(ctx context.Context) error {
	if !s.sqlite {
		if err := s.ensure(ctx, `SELECT count(to_regproc('deliveryqueue_by_indexes'))`, s.query(byIndexes)); err != nil {
			return err
		}
	}
	exists := `SELECT count(to_regclass('deliveryqueue_' || $1))`
	if s.sqlite {
		exists = `SELECT count(*) FROM sqlite_master WHERE name = 'deliveryqueue_' || $1`
	}
	for name, index := range map[string]string{
		dueIndex:   `, scheduled_at, id) WHERE ` + s.available(),
		asideIndex: `, state, id) WHERE ` + aside,
	} {
		if err := s.ensure(ctx, exists, `CREATE INDEX IF NOT EXISTS `+name+s.query(` ON river_job (`+s.endpoint()+index),
			strings.TrimPrefix(name, `deliveryqueue_`)); err != nil {
			return err
		}
	}
	return nil
}

// ensure creates something, unless a query finds it: the user may not be allowed to.
func (s *store) ensure(ctx context.Context, exists, create string, name ...any) error {
	var have int
	err := s.db.DB.QueryRowContext(ctx, s.query(exists), name...).Scan(&have)
	if err == nil && have == 0 {
		_, err = s.db.DB.ExecContext(ctx, create)
	}
	return err
}

// makeOwn creates this package's tables, unless they are there.
func (s *store) makeOwn(ctx context.Context) error {
	var versions int
	err := s.db.DB.QueryRowContext(ctx, s.query(`SELECT count(*) FROM deliveryqueue_schema`)).Scan(&versions)
	if err == nil && versions > 0 {
		return nil // for a user that may not create tables
	}
	for _, statement := range []string{
		endpointTable,
		`CREATE TABLE IF NOT EXISTS deliveryqueue_schema (version integer PRIMARY KEY, minimum integer NOT NULL)`,
		fmt.Sprintf(`INSERT INTO deliveryqueue_schema (version, minimum) VALUES (%d, %d) ON CONFLICT DO NOTHING`,
			schemaVersion, schemaMinimum),
	} {
		if _, err := s.db.DB.ExecContext(ctx, s.query(statement)); err != nil {
			return fmt.Errorf("making the tables: %w", err)
		}
	}
	return nil
}
