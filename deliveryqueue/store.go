package deliveryqueue

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivertype"
	"modernc.org/sqlite" // also the database/sql driver
	sqlite3 "modernc.org/sqlite/lib"
)

// A store is an open database. db is for queries that River does not offer. In
// SQLite, whose db has one connection, looking is for those of fetch, and reading
// for long ones that change nothing.
type store struct {
	jobs
	db, looking, reading *sql.DB
	sqlite               bool
	files                []storeFile // of SQLite
	close                func() error
}

func openStore(ctx context.Context, name string, logger *slog.Logger) (store, error) {
	var s store
	var err error
	switch {
	case name == "":
		return s, errors.New(`the store is ""; it must be a file, or the URL of a PostgreSQL database`)
	case strings.HasPrefix(name, "postgres://"), strings.HasPrefix(name, "postgresql://"), hasKeywords(name):
		s, err = openPostgres(ctx, name, logger)
	case strings.Contains(name, "://"):
		// It may have a password.
		return s, errors.New("the store is a URL; it must be a file, or a URL that begins with postgres:// or postgresql://")
	default:
		if name, err = filepath.Abs(name); err == nil {
			s, err = openSQLite(name, logger)
		}
	}
	if err != nil {
		return s, err
	}
	if err := s.migrate(ctx); err != nil {
		return s, errors.Join(err, s.close())
	}
	if s.sqlite {
		s.files = filesOf(name)
	}
	return s, nil
}

// A storeFile is a file of an open SQLite database.
type storeFile struct {
	path string
	info os.FileInfo
}

// filesOf returns the database and its write-ahead log, which exists while the
// database is open.
func filesOf(name string) []storeFile {
	var all []storeFile
	for _, path := range []string{name, name + "-wal"} {
		if info, err := os.Stat(path); err == nil {
			all = append(all, storeFile{path, info})
		}
	}
	return all
}

// errReplaced is in the error of a store whose file no longer exists. Writes to it
// are lost.
var errReplaced = errors.New("was deleted or replaced while it was open; what this process writes would be lost")

// check returns an error if a file of the store no longer exists.
func (s *store) check() error {
	for _, f := range s.files {
		info, err := os.Stat(f.path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			continue // it cannot be known
		}
		if err != nil || !os.SameFile(info, f.info) {
			return fmt.Errorf("%s %w", f.path, errReplaced)
		}
	}
	return nil
}

// hasKeywords reports whether name is a connection string of libpq, such as
// host=127.0.0.1 dbname=queue, which would be an odd file name.
func hasKeywords(name string) bool {
	key, _, _ := strings.Cut(strings.TrimSpace(name), "=")
	switch strings.TrimSpace(key) {
	case "host", "hostaddr", "port", "dbname", "user", "password", "sslmode", "service", "application_name":
		return strings.Contains(name, "=")
	}
	return false
}

// lockWait is how long a statement waits for an SQLite file that another
// process has locked.
const lockWait = 5 * time.Second

func openSQLite(path string, logger *slog.Logger) (store, error) {
	// SQLite would create a file that everybody can read. Its -wal and -shm files
	// get the mode of this file.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return store{}, err
	}
	if err := f.Close(); err != nil {
		return store{}, err
	}
	options := url.Values{
		"_busy_timeout": {fmt.Sprint(lockWait.Milliseconds())},
		"_journal_mode": {"WAL"},
		"_synchronous":  {"FULL"},
		"_txlock":       {"immediate"},
		"_timezone":     {"UTC"}, // River compares times as text
		"_time_format":  {"sqlite"},
	}
	at := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: options.Encode()}
	if !strings.HasPrefix(at.Path, "/") { // a drive
		at.Path = "/" + at.Path
	}
	db, err := sql.Open("sqlite", at.String())
	if err != nil {
		return store{}, fmt.Errorf("%s: %w", path, err)
	}
	db.SetMaxOpenConns(1) // as River does, because SQLite has one writer at a time
	jobs, err := newJobs(riversqlite.New(db), logger)
	if err != nil {
		return store{}, errors.Join(err, db.Close())
	}
	options.Del("_txlock") // it is for writers
	at.RawQuery = options.Encode()
	looking, err := sql.Open("sqlite", at.String())
	if err != nil {
		return store{}, errors.Join(fmt.Errorf("%s: %w", path, err), db.Close())
	}
	reading, err := sql.Open("sqlite", at.String())
	if err != nil {
		return store{}, errors.Join(fmt.Errorf("%s: %w", path, err), looking.Close(), db.Close())
	}
	looking.SetMaxOpenConns(1)
	reading.SetMaxOpenConns(3)
	// While this connection is open, SQLite keeps its log, which check looks for.
	pinned, err := firstConn(reading)
	if err != nil {
		return store{}, errors.Join(fmt.Errorf("%s: %w", path, err), reading.Close(), looking.Close(), db.Close())
	}
	return store{jobs: jobs, db: db, looking: looking, reading: reading, sqlite: true, close: func() error {
		return errors.Join(pinned.Close(), reading.Close(), looking.Close(), db.Close())
	}}, nil
}

// errLocked is the error of Enqueue for a file that others hold for longer than
// lockWait.
var errLocked = fmt.Errorf("others have locked the SQLite file for %v", lockWait)

// insertSoon inserts jobs. In SQLite, it waits for lockWait at most: for the
// connection, which earlier statements use for as long as they wait for another
// process, and for that process.
func (s *store) insertSoon(
	ctx context.Context, all []river.InsertManyParams,
) (results []*rivertype.JobInsertResult, err error) {
	if !s.sqlite {
		return s.insert(ctx, nil, all)
	}
	end := time.Now().Add(lockWait)
	waiting, cancel := context.WithDeadlineCause(ctx, end, errLocked)
	defer cancel()
	conn, err := s.db.Conn(waiting)
	if err != nil {
		return nil, cmp.Or(context.Cause(waiting), err)
	}
	defer conn.Close()
	if left := time.Until(end).Milliseconds(); left < lockWait.Milliseconds()*9/10 {
		if err := setBusyTimeout(ctx, conn, max(left, 1)); err != nil {
			return nil, err
		}
		defer func() { _ = setBusyTimeout(context.WithoutCancel(ctx), conn, lockWait.Milliseconds()) }()
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	if results, err = s.insert(ctx, tx, all); err != nil {
		return nil, errors.Join(err, ignoreDone(tx.Rollback()))
	}
	return results, tx.Commit()
}

func setBusyTimeout(ctx context.Context, conn *sql.Conn, milliseconds int64) error {
	_, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", milliseconds))
	return err
}

// firstConn opens a connection. For the first connection, unlike later ones, SQLite
// does not wait by itself while another process makes the file a database with a
// log.
func firstConn(db *sql.DB) (*sql.Conn, error) {
	ctx := context.Background() // database/sql closes a connection whose statement was interrupted
	for start := time.Now(); ; time.Sleep(lockWait / 500) {
		conn, err := db.Conn(ctx)
		if err == nil {
			if err = conn.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master`).Scan(new(int)); err == nil {
				return conn, nil
			}
			conn.Close()
		}
		if busy := (*sqlite.Error)(nil); !errors.As(err, &busy) || busy.Code()&0xff != sqlite3.SQLITE_BUSY ||
			time.Since(start) > lockWait {
			return nil, err
		}
	}
}

func openPostgres(ctx context.Context, name string, logger *slog.Logger) (store, error) {
	config, err := pgxpool.ParseConfig(name)
	if err != nil {
		if parse := (*pgconn.ParseConfigError)(nil); errors.As(err, &parse) {
			return store{}, errors.New("the store's URL is not that of a PostgreSQL database") // err may quote a password
		}
		return store{}, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return store{}, err
	}
	jobs, err := newJobs(riverpgxv5.New(pool), logger)
	if err != nil {
		pool.Close()
		return store{}, err
	}
	db := stdlib.OpenDBFromPool(pool)
	return store{jobs: jobs, db: db, looking: db, reading: db, close: func() error {
		err := db.Close()
		pool.Close()
		return err
	}}, nil
}

// refuses reports whether err means that the store refused a value, and would
// refuse it again.
func refuses(err error) bool {
	var failed *pgconn.PgError
	if errors.As(err, &failed) {
		class := failed.Code[:min(2, len(failed.Code))]
		return class == "22" || class == "54" // data exception, program limit exceeded
	}
	var lite *sqlite.Error
	return errors.As(err, &lite) && (lite.Code()&0xff == sqlite3.SQLITE_TOOBIG || lite.Code()&0xff == sqlite3.SQLITE_MISMATCH)
}

// query returns text, which has the parameters $1, $2 and so on, in the store's
// dialect.
func (s *store) query(text string) string {
	if s.sqlite {
		return strings.ReplaceAll(text, "$", "?")
	}
	return text
}

// each calls f for each row of a query.
func (s *store) each(ctx context.Context, in *sql.DB, f func(*sql.Rows) error, query string, params ...any) error {
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

// time returns t as a parameter of a query, in River's format.
func (s *store) time(t time.Time) any {
	if s.sqlite {
		return t.UTC().Format("2006-01-02 15:04:05.999")
	}
	return t
}
