package deliveryqueue

import (
	"context"
	"fmt"
	"time"
)

// schemaVersion is the version of this package's tables.
const schemaVersion = 1

// ownTables creates this package's tables. Times are in microseconds.
var ownTables = []string{
	`CREATE TABLE IF NOT EXISTS deliveryqueue_schema (version integer PRIMARY KEY)`,
	`CREATE TABLE IF NOT EXISTS deliveryqueue_endpoint (
		endpoint text PRIMARY KEY, next_at bigint NOT NULL, tail_at bigint NOT NULL)`,
	`INSERT INTO deliveryqueue_schema (version) VALUES (1) ON CONFLICT DO NOTHING`,
}

const (
	migrateTries = 20
	migratePause = 100 * time.Millisecond
)

// migrate creates the tables or updates them. Two processes that do so at once
// may make each other fail, so it tries again.
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
	const own = `SELECT max(version) FROM deliveryqueue_schema`
	if err := s.checkVersion(ctx, "deliveryqueue", schemaVersion, own); err == nil || isNewer(err) {
		return err // a user who may not create tables returns here
	}
	for _, statement := range ownTables {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("making the tables: %w", err)
		}
	}
	return s.checkVersion(ctx, "deliveryqueue", schemaVersion, own)
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
