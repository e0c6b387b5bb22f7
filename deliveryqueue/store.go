package deliveryqueue

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"modernc.org/sqlite" // also the database/sql driver
	sqlite3 "modernc.org/sqlite/lib"
)

// A store is an open database. db is for queries that River does not offer. In
// SQLite, whose db has one connection, looking is for those of fetch, and reading
// for long ones that change nothing.
type store struct {
	jobs
	db, looking, reading *database
	sqlite               bool
	now, greatest        string // SQL
	schema               string // of PostgreSQL
	announced            *rarely
	path                 string                 // of SQLite
	files                map[string]os.FileInfo // of SQLite
	close                func() error
}

func openStore(ctx context.Context, from any, logger *slog.Logger) (s *store, err error) {
	value := reflect.ValueOf(from)
	if value.Kind() == reflect.Pointer && value.IsNil() {
		return nil, errors.New("the store is nil")
	}
	switch from := from.(type) {
	case *pgxpool.Pool:
		s, err = onPool(ctx, from, logger)
	case *sql.DB:
		s, err = onPostgres(ctx, riverdatabasesql.New(from), from, nil, logger)
	default:
		s, err = openNamed(ctx, value.String(), logger)
	}
	if err != nil {
		return nil, err
	}
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.files = make(map[string]os.FileInfo)
	for _, path := range []string{s.path, s.path + "-wal"} { // the log exists while the database is open
		if info, err := os.Stat(path); s.sqlite && err == nil {
			s.files[path] = info
		}
	}
	return s, nil
}

func openNamed(ctx context.Context, name string, logger *slog.Logger) (*store, error) {
	switch {
	case name == "":
		return nil, errors.New(`the store is ""; it must be a file, or the URL of a PostgreSQL database`)
	case strings.HasPrefix(name, "postgres://"), strings.HasPrefix(name, "postgresql://"), strings.Contains(" "+name, " host="):
		return openPostgres(ctx, name, logger)
	case strings.Contains(name, "://"):
		// It may have a password.
		return nil, errors.New("the store is a URL; it must be a file, or a URL that begins with postgres:// or postgresql://")
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	return openSQLite(path, logger)
}

// errReplaced is in the error of a store whose file no longer exists. Writes to it
// are lost.
var errReplaced = errors.New("was deleted or replaced while it was open; what this process writes would be lost")

// check returns an error if a file of the store no longer exists.
func (s *store) check() error {
	for path, before := range s.files {
		info, err := os.Stat(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			continue // it cannot be known
		}
		if err != nil || !os.SameFile(info, before) {
			return fmt.Errorf("%s %w", path, errReplaced)
		}
	}
	return nil
}

// lockWait is how long a statement waits for an SQLite file that another
// process has locked.
const lockWait = 5 * time.Second

func openSQLite(path string, logger *slog.Logger) (*store, error) {
	// SQLite would create a file that everybody can read. Its -wal and -shm files
	// get the mode of this file.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
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
	s := &store{sqlite: true, now: `'now'`, greatest: `max`, path: path}
	var closers []io.Closer
	s.close = func() (err error) {
		for _, c := range slices.Backward(closers) {
			err = errors.Join(err, c.Close())
		}
		return err
	}
	for _, each := range []struct {
		db    **database
		conns int
	}{{&s.db, 1}, {&s.looking, 1}, {&s.reading, 3}} { // SQLite has one writer at a time
		db, err := sql.Open("sqlite", at.String())
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", path, err), s.close())
		}
		db.SetMaxOpenConns(each.conns)
		*each.db, closers = &database{DB: db}, append(closers, db)
		options.Del("_txlock") // it is for writers
		at.RawQuery = options.Encode()
	}
	// While this connection is open, SQLite keeps its log, which check looks for.
	pinned, err := firstConn(s.reading.DB)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), s.close())
	}
	closers = append(closers, pinned)
	if s.jobs, err = newJobs(riversqlite.New(s.db.DB), "", logger); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// errLocked is the error of Enqueue for a file that others hold for longer than
// lockWait.
var errLocked = fmt.Errorf("others have locked the SQLite file for %v", lockWait)

// insertSoon inserts jobs. In SQLite, it waits at most for lockWait for the connection,
// which earlier statements use for as long as they wait for another process.
func (s *store) insertSoon(ctx context.Context, all []newJob) (ids []int64, err error) {
	if !s.sqlite {
		db := s.db
		if batch(all) < len(all) {
			db = db.patient()
		}
		err = db.bounded(ctx, func(ctx context.Context) (err error) {
			ids, err = s.insertAll(ctx, db, all)
			return err
		})
		return ids, err
	}
	waiting, cancel := context.WithTimeoutCause(ctx, lockWait, errLocked)
	defer cancel()
	conn, err := s.db.Conn(waiting)
	if err != nil {
		return nil, cmp.Or(context.Cause(waiting), err)
	}
	defer conn.Close()
	return s.insertAll(ctx, conn, all)
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

// answerTimeout is how long a new connection to PostgreSQL, and one that was idle,
// has to answer.
const answerTimeout = 5 * time.Second

func openPostgres(ctx context.Context, name string, logger *slog.Logger) (*store, error) {
	config, err := pgxpool.ParseConfig(name)
	if err != nil {
		if parse := (*pgconn.ParseConfigError)(nil); errors.As(err, &parse) {
			return nil, errors.New("the store's URL is not that of a PostgreSQL database") // err may quote a password
		}
		return nil, err
	}
	config.ConnConfig.ConnectTimeout = cmp.Or(config.ConnConfig.ConnectTimeout, answerTimeout)
	config.PingTimeout = cmp.Or(config.PingTimeout, answerTimeout)
	config.BeforeClose = func(conn *pgx.Conn) {
		if conn.IsClosed() { // of a statement without an answer: the pool would wait for the rest of it for 15 s
			conn.PgConn().Conn().Close()
		}
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s, err := onPool(ctx, pool, logger)
	if err != nil {
		pool.Close()
		return nil, err
	}
	only := s.close
	s.close = func() error {
		err := only()
		pool.Close()
		return err
	}
	return s, nil
}

func onPool(ctx context.Context, pool *pgxpool.Pool, logger *slog.Logger) (*store, error) {
	db := stdlib.OpenDBFromPool(pool)
	s, err := onPostgres(ctx, riverpgxv5.New(pool), db, pool.Reset, logger)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s.close = db.Close
	return s, nil
}

// onPostgres returns the store in the current schema of a database.
func onPostgres[Tx any](
	ctx context.Context, driver riverdriver.Driver[Tx], db *sql.DB, reset func(), logger *slog.Logger,
) (*store, error) {
	var schema sql.NullString
	if err := db.QueryRowContext(ctx, `SELECT current_schema()`).Scan(&schema); err != nil {
		return nil, err
	}
	if !schema.Valid {
		return nil, errors.New("no schema of the connection's search_path exists")
	}
	jobs, err := newJobs(driver, schema.String, logger)
	if err != nil {
		return nil, err
	}
	bounded := &database{db, statementTimeout, reset}
	return &store{
		jobs: jobs, now: `now()`, greatest: `GREATEST`, db: bounded, looking: bounded, reading: bounded.patient(),
		schema: schema.String, announced: new(rarely), close: func() error { return nil },
	}, nil
}
