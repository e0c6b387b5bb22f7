package deliveryqueue

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// A counted is a driver that counts the rows that are read.
type counted struct {
	of   driver.Driver
	name string
	rows *atomic.Int64
}

func (c counted) Driver() driver.Driver { return c.of }

func (c counted) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.of.Open(c.name)
	return countedConn{conn, c.rows}, err
}

type countedConn struct {
	driver.Conn
	n *atomic.Int64
}

func (c countedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
	return countedRows{rows, c.n}, err
}

type countedRows struct {
	driver.Rows
	n *atomic.Int64
}

func (r countedRows) Next(values []driver.Value) error {
	err := r.Rows.Next(values)
	if err == nil {
		r.n.Add(1)
	}
	return err
}

// pauseMany gives the queue deliveries to about n endpoints that are paused.
func pauseMany(t testing.TB, q *Queue, n int) {
	t.Helper()
	execute(t, q.store.db, "DELETE FROM river_job") // backlog copies the rows
	enqueue(t, q, post(t, "http://seed.test", "x"), Options{})
	backlog(t, q, n)
	spread(t, q)
	execute(t, q.store.db, `INSERT INTO deliveryqueue_endpoint (endpoint, paused_at)
		SELECT 'http://h' || id, 1 FROM river_job`)
}

// However many endpoints are paused, each look reads a bounded number of rows, and
// the next one takes a new delivery.
func TestLooksPastPausedEndpoints(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		const n = 5 * mostLooked
		pauseMany(t, q, n)
		var rows atomic.Int64
		looking := sql.OpenDB(counted{q.store.looking.Driver(), store, &rows})
		defer looking.Close()
		q.store.looking = &database{DB: looking}
		f := q.newFetcher(t.Context())
		for look := range 8 {
			enqueue(t, q, post(t, "http://z.test", "hello"), Options{}) // the last by name
			rows.Store(0)
			chosen := must[[]candidate](t)(f.choose(t.Context()))
			if read := rows.Load(); read > 3*mostLooked+mostLately || look == 0 && read < mostLooked {
				t.Errorf("look %d reads %d rows", look, read)
			}
			if look > 0 && (len(chosen) != 1 || chosen[0].Endpoint != "http://z.test") {
				t.Errorf("look %d chooses %+v", look, chosen)
			}
			execute(t, q.store.db, `UPDATE river_job SET state = 'completed', finalized_at = `+q.store.after(`0`)+
				` WHERE id = (SELECT max(id) FROM river_job)`)
		}
	})
}

// How late half of the new deliveries of another process are while 20,000 endpoints
// are paused, and without them.
func BenchmarkManyPausedEndpoints(b *testing.B) {
	for name, new := range stores {
		for _, paused := range []int{0, 20_000} {
			b.Run(fmt.Sprintf("%s %d", name, paused), func(b *testing.B) {
				store, end := new(b), newEndpoint(b, 200)
				q, other := open(b, store, Config{PollInterval: defaultPollInterval}), open(b, store, Config{})
				if paused > 0 {
					pauseMany(b, q, paused)
				}
				start(b, q)
				var late []time.Duration
				for b.Loop() {
					time.Sleep(50 * time.Millisecond)
					begin, before := time.Now(), len(end.requests())
					enqueue(b, other, post(b, end.URL, "hello"), Options{})
					end.wait(b, before+1)
					late = append(late, end.requests()[before].at.Sub(begin))
				}
				slices.Sort(late)
				b.ReportMetric(float64(late[len(late)/2].Microseconds())/1e3, "ms-late")
			})
		}
	}
}
