package deliveryqueue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// statementTimeout bounds each statement in PostgreSQL. After a failover, an old
// connection may never answer; the next try has a new one.
const statementTimeout = 10 * time.Second

// longTimeout bounds a statement that reads all deliveries.
const longTimeout = 2 * time.Minute

// errNoAnswer is the error of a statement that PostgreSQL did not finish in time.
var errNoAnswer = errors.New("PostgreSQL did not finish a statement in time")

// A database bounds the time of each statement.
type database struct {
	*sql.DB
	timeout time.Duration // 0: none
	reset   func()        // closes the idle connections, which may hang too; nil: nothing
}

// patient returns the database for statements that read all deliveries.
func (d *database) patient() *database {
	if d.timeout == 0 {
		return d
	}
	return &database{d.DB, longTimeout, d.reset}
}

func (d *database) bounded(ctx context.Context, run func(context.Context) error) error {
	if d.timeout == 0 {
		return run(ctx)
	}
	bounded, cancel := context.WithTimeoutCause(ctx, d.timeout, errNoAnswer)
	defer cancel()
	err := run(bounded)
	if err == nil || ctx.Err() != nil || bounded.Err() == nil {
		return err
	}
	if d.reset != nil {
		d.reset()
	}
	return fmt.Errorf("%w (%v): %w", errNoAnswer, d.timeout, err)
}

func (d *database) ExecContext(ctx context.Context, query string, params ...any) (result sql.Result, err error) {
	err = d.bounded(ctx, func(ctx context.Context) (err error) {
		result, err = d.DB.ExecContext(ctx, query, params...)
		return err
	})
	return result, err
}

// A row is the first row of a query, which Scan makes.
type row func(into ...any) error

func (r row) Scan(into ...any) error { return r(into...) }

func (d *database) QueryRowContext(ctx context.Context, query string, params ...any) row {
	return func(into ...any) error {
		return d.bounded(ctx, func(ctx context.Context) error {
			return d.DB.QueryRowContext(ctx, query, params...).Scan(into...)
		})
	}
}

// refuses reports whether err means that the store refused a value, and would
// refuse it again.
func refuses(err error) bool {
	switch class := sqlState(err); class[:min(2, len(class))] {
	case "22", "54": // data exception, program limit exceeded
		return true
	}
	var lite *sqlite.Error
	return errors.As(err, &lite) && (lite.Code()&0xff == sqlite3.SQLITE_TOOBIG || lite.Code()&0xff == sqlite3.SQLITE_MISMATCH)
}

// sqlState returns the SQLSTATE of an error of any driver of PostgreSQL, or "".
func sqlState(err error) string {
	var failed interface {
		error
		SQLState() string
	}
	if errors.As(err, &failed) {
		return failed.SQLState()
	}
	return ""
}

// query returns text, which has the parameters $1, $2 and so on, in the store's
// dialect, and with the schema: a transaction of the caller's may have another one.
func (s *store) query(text string) string {
	if s.sqlite {
		return strings.ReplaceAll(text, "$", "?")
	}
	schema := pgx.Identifier{s.schema}.Sanitize() + "."
	return strings.NewReplacer("river_", schema+"river_", "deliveryqueue_", schema+"deliveryqueue_").Replace(text)
}

func (s *store) each(ctx context.Context, in *database, f func(*sql.Rows) error, query string, params ...any) error {
	return in.bounded(ctx, func(ctx context.Context) error {
		rows, err := in.QueryContext(ctx, s.query(query), params...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := f(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// byIndexes creates a function of PostgreSQL that runs a statement in the order of an
// index. By statistics from before a burst, PostgreSQL would read and sort all that
// waits, and in a plan that it has kept from then it would read the whole table.
const byIndexes = `CREATE OR REPLACE FUNCTION deliveryqueue_by_indexes(statement text, a text, b text) RETURNS SETOF record
	LANGUAGE plpgsql SET enable_bitmapscan = off AS 'BEGIN RETURN QUERY EXECUTE statement USING a, b; END'`

// byIndex is each for a statement that has the parameters a and b.
func (s *store) byIndex(ctx context.Context, in *database, f func(*sql.Rows) error, columns, query, a, b string) error {
	if s.sqlite {
		return s.each(ctx, in, f, query, a, b)
	}
	return s.each(ctx, in, f, `SELECT * FROM deliveryqueue_by_indexes($1, $2, $3) AS row (`+columns+`)`, s.query(query), a, b)
}

// jobsBy returns the table of jobs. SQLite must read it by the index, or by one of
// its choice if index is "".
func (s *store) jobsBy(index string) string {
	if s.sqlite && index != "" {
		return `river_job INDEXED BY ` + index
	}
	return `river_job`
}

// after returns an SQL expression for the time that many seconds from now by
// the store's clock, which all processes share, in River's format.
func (s *store) after(seconds string) string {
	if s.sqlite {
		return `datetime('now', 'subsec', printf('%+.3f seconds', ` + seconds + `))`
	}
	return `now() + make_interval(secs => ` + seconds + `)`
}

// metadata returns the SQL expression of a job's metadata. In SQLite, text that
// is not JSON, written by another program, would make a statement fail for all
// of its rows, so it counts as empty.
func (s *store) metadata() string {
	if s.sqlite {
		return `CASE WHEN json_valid(metadata, 5) THEN metadata ELSE jsonb('{}') END`
	}
	return `metadata`
}
