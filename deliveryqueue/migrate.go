package deliveryqueue

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// schemaVersion is the version of this package's tables.
const schemaVersion = 3

// ownTables returns the statements that create this package's tables from
// version on. Times are in Unix microseconds, and 0 is none. tail_at and slow are
// for processes of versions 1 and 2 that still run.
func (s *store) ownTables(version int) []string {
	var all []string
	if version < 1 {
		all = append(all, `CREATE TABLE IF NOT EXISTS deliveryqueue_endpoint (
			endpoint text PRIMARY KEY, next_at bigint NOT NULL, tail_at bigint NOT NULL)`)
	}
	if version < 2 {
		all = append(all,
			`ALTER TABLE deliveryqueue_endpoint ADD COLUMN slow integer NOT NULL DEFAULT -1`,
			`ALTER TABLE deliveryqueue_endpoint ADD COLUMN per_second integer NOT NULL DEFAULT 0`,
			`ALTER TABLE deliveryqueue_endpoint ADD COLUMN failing_since bigint NOT NULL DEFAULT 0`,
			`ALTER TABLE deliveryqueue_endpoint ADD COLUMN disabled_at bigint NOT NULL DEFAULT 0`,
			`ALTER TABLE deliveryqueue_endpoint ADD COLUMN paused_at bigint NOT NULL DEFAULT 0`,
			`ALTER TABLE deliveryqueue_endpoint ADD COLUMN alone_until bigint NOT NULL DEFAULT 0`,
			`ALTER TABLE deliveryqueue_endpoint ADD COLUMN used_at bigint NOT NULL DEFAULT 0`)
	}
	return append(all,
		fmt.Sprintf(`INSERT INTO deliveryqueue_schema (version) VALUES (%d)`, schemaVersion))
}

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
	if err := s.updateOwn(ctx); err != nil {
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

// updateOwn creates this package's tables or updates them.
func (s *store) updateOwn(ctx context.Context) error {
	const own = `SELECT COALESCE(max(version), 0) FROM deliveryqueue_schema`
	var version int
	if err := s.db.QueryRowContext(ctx, own).Scan(&version); err == nil && version >= schemaVersion {
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
	if err := s.update(ctx, tx, own); err != nil {
		return errors.Join(fmt.Errorf("making the tables: %w", err), ignoreDone(tx.Rollback()))
	}
	return tx.Commit()
}

// update updates this package's tables in a transaction.
func (s *store) update(ctx context.Context, tx *sql.Tx, own string) error {
	if !s.sqlite {
		if _, err := tx.ExecContext(ctx, `LOCK TABLE deliveryqueue_schema`); err != nil {
			return err
		}
	}
	var version int
	if err := tx.QueryRowContext(ctx, own).Scan(&version); err != nil {
		return err
	}
	if version >= schemaVersion { // another process has updated them
		return nil
	}
	for _, statement := range s.ownTables(version) {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return s.renameEndpoints(ctx, tx)
}

// A rename is an endpoint that had another name before version 3.
type rename struct {
	Old string `json:"old"`
	New string `json:"new"`
}

// renameEndpoints renames endpoints whose port or host was spelled differently. It
// merges what is known about both names. The new name is paused if either was.
func (s *store) renameEndpoints(ctx context.Context, tx *sql.Tx) error {
	all, err := s.renames(ctx, tx)
	if err != nil || len(all) == 0 {
		return err
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return err
	}
	renames := `jsonb_to_recordset($1::jsonb) AS renamed (old text, new text)`
	meta := `jsonb_set(metadata, '{delivery,endpoint}', to_jsonb(renamed.new))`
	if s.sqlite {
		renames = `(SELECT value ->> 'old' AS old, value ->> 'new' AS new FROM json_each($1)) AS renamed`
		meta = `jsonb_patch(metadata, jsonb_object('delivery', jsonb_object('endpoint', renamed.new)))`
	}
	for _, statement := range []string{
		`UPDATE river_job SET metadata = ` + meta + ` FROM %[2]s WHERE %[3]s = renamed.old`,
		`INSERT INTO deliveryqueue_endpoint AS own (endpoint, next_at, tail_at, alone_until, paused_at, failing_since, disabled_at, used_at)
			SELECT renamed.new, max(next_at), 0, max(alone_until), max(paused_at), min(failing_since), min(disabled_at), max(used_at)
			FROM deliveryqueue_endpoint AS old JOIN %[2]s ON old.endpoint = renamed.old WHERE true GROUP BY renamed.new
			ON CONFLICT (endpoint) DO UPDATE SET next_at = %[1]s(own.next_at, excluded.next_at),
				alone_until = %[1]s(own.alone_until, excluded.alone_until), paused_at = %[1]s(own.paused_at, excluded.paused_at)`,
		`DELETE FROM deliveryqueue_endpoint WHERE endpoint IN (SELECT renamed.old FROM %[2]s)`,
	} {
		if _, err := tx.ExecContext(ctx, s.query(fmt.Sprintf(statement, s.greatest(), renames, s.endpoint())), string(raw)); err != nil {
			return fmt.Errorf("renaming endpoints: %w", err)
		}
	}
	return nil
}

// renames returns the endpoints in the store that now have another name.
func (s *store) renames(ctx context.Context, tx *sql.Tx) (all []rename, err error) {
	err = s.each(ctx, tx, func(rows *sql.Rows) error {
		var r rename
		err := rows.Scan(&r.Old)
		if r.New = renamed(r.Old); r.New != r.Old {
			all = append(all, r)
		}
		return err
	}, fmt.Sprintf(`SELECT %s FROM river_job WHERE queue = $1 UNION SELECT endpoint FROM deliveryqueue_endpoint`, s.endpoint()),
		queueName)
	return all, err
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
