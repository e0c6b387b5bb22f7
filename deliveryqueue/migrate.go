package deliveryqueue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// schemaVersion is the version of this package's tables.
const schemaVersion = 1

// endpointTable creates the table of endpoints. Times are in Unix microseconds, and
// 0 is none.
const endpointTable = `CREATE TABLE deliveryqueue_endpoint (
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
)

// migrate creates the tables or updates them. Two processes that do so at once may
// make each other fail, so it tries several times.
func (s *store) migrate(ctx context.Context) error {
	var err error
	for range migrateTries {
		err = s.migrateOnce(ctx)
		if err == nil || isNewer(err) || ctx.Err() != nil {
			return err
		}
		if s.db.PingContext(ctx) != nil { // no connection at all
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
	newest, err := s.migrateRiver(ctx)
	if err != nil {
		return err
	}
	if err := s.checkVersion(ctx, "River", newest, `SELECT max(version) FROM river_migration`); err != nil {
		return err
	}
	if err := s.makeOwn(ctx); err != nil {
		return err
	}
	return s.addIndexes(ctx)
}

// addIndexes creates the indexes of River's table that are missing. An update of
// River may drop them with it.
func (s *store) addIndexes(ctx context.Context) error {
	exists := `SELECT count(*) FROM pg_indexes WHERE indexname = $1 AND schemaname = current_schema`
	if s.sqlite {
		exists = `SELECT count(*) FROM sqlite_master WHERE name = $1`
	}
	for name, index := range map[string]string{
		dueIndex:   `, scheduled_at, id) WHERE ` + s.available(),
		asideIndex: `, state, id) WHERE ` + aside,
	} {
		var have int
		if err := s.db.QueryRowContext(ctx, s.query(exists), name).Scan(&have); err != nil {
			return err
		}
		if have > 0 { // a user that may not create one continues without it
			continue
		}
		if _, err := s.db.ExecContext(ctx,
			`CREATE INDEX IF NOT EXISTS `+name+` ON river_job (`+s.endpoint()+index); err != nil {
			return err
		}
	}
	return nil
}

// makeOwn creates this package's tables, unless they are there.
func (s *store) makeOwn(ctx context.Context) error {
	const own = `SELECT COALESCE(max(version), 0) FROM deliveryqueue_schema`
	var version int
	if err := s.db.QueryRowContext(ctx, own).Scan(&version); err == nil && version > 0 {
		return s.checkVersion(ctx, "deliveryqueue", schemaVersion, own) // for a user that may not create tables
	}
	if _, err := s.db.ExecContext(ctx,
		`CREATE TABLE IF NOT EXISTS deliveryqueue_schema (version integer PRIMARY KEY)`); err != nil {
		return fmt.Errorf("making the tables: %w", err)
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := s.makeTables(ctx, tx, own); err != nil {
		return errors.Join(fmt.Errorf("making the tables: %w", err), ignoreDone(tx.Rollback()))
	}
	return tx.Commit()
}

// makeTables creates this package's tables in a transaction.
func (s *store) makeTables(ctx context.Context, tx *sql.Tx, own string) error {
	if !s.sqlite {
		if _, err := tx.ExecContext(ctx, `LOCK TABLE deliveryqueue_schema`); err != nil {
			return err
		}
	}
	var version int
	if err := tx.QueryRowContext(ctx, own).Scan(&version); err != nil {
		return err
	}
	if version > 0 { // another process has created them
		return nil
	}
	if _, err := tx.ExecContext(ctx, endpointTable); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, fmt.Sprintf(`INSERT INTO deliveryqueue_schema (version) VALUES (%d)`, schemaVersion))
	return err
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

func (s *store) checkVersion(ctx context.Context, whose string, known int, query string) error {
	var version int
	if err := s.db.QueryRowContext(ctx, query).Scan(&version); err != nil {
		return err
	}
	if version > known {
		return &newerError{whose, version, known}
	}
	return nil
}
