package deliveryqueue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A queue stays in the schema in which it was opened, whatever search_path its
// connections have later.
func TestOwnSchema(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{"hooks", "Hooks_2", "public"} {
		t.Run(schema, func(t *testing.T) {
			t.Parallel()
			url := newPostgres(t)
			db := connect(t, "pgx", url)
			execute(t, db, fmt.Sprintf(`CREATE SCHEMA IF NOT EXISTS %q`, schema))
			execute(t, db, `CREATE SCHEMA elsewhere`)
			check(t, makeTables(url+"&search_path=elsewhere"))
			config := must[*pgxpool.Config](t)(pgxpool.ParseConfig(url))
			var moved atomic.Bool
			config.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
				path := fmt.Sprintf("%q", schema)
				if moved.Load() {
					path = "elsewhere"
				}
				_, err := conn.Exec(ctx, "SET search_path = "+path)
				return err == nil, err
			}
			pool := must[*pgxpool.Pool](t)(pgxpool.NewWithConfig(t.Context(), config))
			t.Cleanup(pool.Close)
			q := must[*Queue](t)(Open(t.Context(), pool, exercised))
			t.Cleanup(func() { check(t, q.Close()) })
			moved.Store(true)
			exercise(t, q)
			check(t, pool.Ping(t.Context())) // Close leaves it open
			for _, table := range []string{"river_job", "river_queue", "deliveryqueue_endpoint"} {
				var own, other int
				check(t, db.QueryRow(fmt.Sprintf(`SELECT (SELECT count(*) FROM %q.%s), (SELECT count(*) FROM elsewhere.%[2]s)`,
					schema, table)).Scan(&own, &other))
				if own == 0 || other != 0 {
					t.Errorf("%d rows of %s, and %d in the other schema", own, table, other)
				}
			}
		})
	}
	url := newPostgres(t)
	_, err := Open(t.Context(), url+"&search_path=missing", Config{})
	if err == nil || !strings.Contains(err.Error(), "no schema of the connection's search_path exists") {
		t.Errorf("error %v", err)
	}
}

// The caller's sql.DB may be of any driver.
func TestOpenDB(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pgx", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			db := connect(t, driver, newPostgres(t))
			q := must[*Queue](t)(Open(t.Context(), db, exercised))
			exercise(t, q)
			check(t, q.Close())
			check(t, db.Ping()) // Close leaves it open
		})
	}
	if _, err := Open(t.Context(), connect(t, "sqlite", emptySQLite(t)), Config{}); err == nil {
		t.Error("a database of SQLite was accepted")
	}
	if _, err := Open(t.Context(), (*sql.DB)(nil), Config{}); err == nil {
		t.Error("no database was accepted")
	}
}

// A failover is a server on loopback that passes connections on, until it hangs those
// that it has.
type failover struct {
	net.Listener
	mu    sync.Mutex
	hangs chan struct{} // closed when the connections hang
	wait  sync.WaitGroup
}

func newFailover(t *testing.T, to string) *failover {
	t.Helper()
	f := &failover{Listener: must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0")), hangs: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	f.wait.Go(func() {
		for {
			conn, err := f.Accept()
			if err != nil {
				return
			}
			f.wait.Go(func() { f.pass(ctx, conn, to) })
		}
	})
	t.Cleanup(func() {
		f.Close()
		cancel()
		f.wait.Wait()
	})
	return f
}

// pass passes on what both ends send until one closes the connection. After hang,
// neither end gets anything.
func (f *failover) pass(ctx context.Context, conn net.Conn, to string) {
	defer conn.Close()
	other, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer other.Close()
	f.mu.Lock()
	hangs := f.hangs
	f.mu.Unlock()
	ended := make(chan struct{}, 2)
	for from, into := range map[net.Conn]net.Conn{conn: other, other: conn} {
		f.wait.Go(func() {
			buffer := make([]byte, 32<<10)
			for {
				n, err := from.Read(buffer)
				select {
				case <-hangs:
					return
				default:
				}
				if _, writeErr := into.Write(buffer[:n]); err != nil || writeErr != nil {
					ended <- struct{}{}
					return
				}
			}
		})
	}
	select {
	case <-ended:
	case <-hangs:
		<-ctx.Done()
	case <-ctx.Done():
	}
}

// hang hangs the connections.
func (f *failover) hang() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.hangs)
	f.hangs = make(chan struct{})
}

// After a failover whose old connections hang, nothing that is in progress is done
// twice, retries continue, and new deliveries are made.
func TestOldConnectionsHang(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pool", "pgx"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			direct := newPostgres(t)
			at, rest, _ := strings.Cut(strings.TrimPrefix(direct, "postgres://postgres@"), "/")
			f := newFailover(t, at)
			url := "postgres://postgres@" + f.Addr().String() + "/" + rest
			var q *Queue
			if driver == "pool" {
				q = open(t, url, Config{})
			} else {
				q = must[*Queue](t)(Open(t.Context(), connect(t, driver, url), Config{Base: loopback, PollInterval: 20 * time.Millisecond}))
			}
			const timeout = 2 * time.Second // statements take longer on a busy machine
			q.store.db.timeout, q.store.looking.timeout, q.store.reading.timeout = timeout, timeout, timeout
			end := newEndpoint(t, 200)
			end.hold = make(chan struct{})
			policy := parse(t, `{"healthyRetryPolicy": {"numRetries": 3, "minDelayTarget": 1, "maxDelayTarget": 1}}`)
			retried := newEndpoint(t, 503)
			start(t, q)
			const n = 20
			for range n {
				enqueue(t, q, post(t, end.URL, "hello"), Options{})
				enqueue(t, q, post(t, retried.URL, "hello"), Options{Policy: policy})
			}
			end.wait(t, n)
			f.hang()
			close(end.hold)
			retried.respond(200)
			var id int64
			eventually(t, "a new delivery is accepted", func() (ok bool) {
				var err error
				id, err = q.Enqueue(t.Context(), post(t, end.URL, "hello"), Options{})
				return err == nil
			})
			own := open(t, direct, Config{})
			eventually(t, "all are delivered", func() bool { return stats(t, own).open() == 0 })
			if d := get(t, own, id); d.State != Delivered {
				t.Errorf("%+v", d)
			}
			counts := make(map[string]int) // a delivery may be enqueued again after an error
			for _, r := range end.requests() {
				counts[r.header.Get("Idempotency-Key")]++
			}
			for key, n := range counts {
				if n != 1 {
					t.Errorf("%d attempts of %s", n, key)
				}
			}
		})
	}
}

// After one statement that gets no answer, the next one has a new connection, however
// many old ones the pool has and may have.
func TestNextStatementIsAnswered(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 3} {
		direct := newPostgres(t)
		at, rest, _ := strings.Cut(strings.TrimPrefix(direct, "postgres://postgres@"), "/")
		f := newFailover(t, at)
		q := open(t, fmt.Sprintf("postgres://postgres@%s/%s&pool_max_conns=%d", f.Addr(), rest, most), Config{})
		var idle []*sql.Conn
		for range most {
			idle = append(idle, must[*sql.Conn](t)(q.store.db.Conn(t.Context())))
		}
		for _, conn := range idle {
			check(t, conn.Close())
		}
		f.hang()
		q.store.reading.timeout = time.Second
		if _, err := q.Empty(t.Context()); !errors.Is(err, errNoAnswer) {
			t.Errorf("error %v", err)
		}
		q.store.reading.timeout = answerTimeout
		if _, err := q.Empty(t.Context()); err != nil {
			t.Errorf("with %d connections: %v", most, err)
		}
	}
}
