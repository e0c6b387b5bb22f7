package deliveryqueue

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"example.com/awsretry/delivery"
	"example.com/awsretry/delivery/letters"
	"github.com/riverqueue/river"
)

// A table prints measurements beside each other.
type table struct {
	rows  []string
	cells map[string]map[string]string
}

func (m *table) add(column, row, format string, values ...any) {
	if m.cells[row] == nil {
		m.rows = append(m.rows, row)
		m.cells[row] = make(map[string]string)
	}
	m.cells[row][column] = fmt.Sprintf(format, values...)
}

func (m *table) write(t *testing.T, columns ...string) {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\t%s\n", strings.Join(columns, "\t"))
	for _, row := range m.rows {
		fmt.Fprint(w, row)
		for _, column := range columns {
			fmt.Fprintf(w, "\t%s", m.cells[row][column])
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	t.Log("\n" + b.String())
}

// The rows of the table.
const (
	enqueueOnes  = "enqueue, one by one, /s"
	enqueueMany  = "enqueue, 500 in a transaction, /s"
	storeSize    = "the store, MB"
	statsTime    = "Stats, ms"
	listTime     = "List of all, ms"
	deliverRate  = "deliver, /s"
	heapMemory   = "Go heap while delivering, MB"
	residentPeak = "peak of the process's memory so far, MB"
)

func perSecond(n int, begin time.Time) float64 { return float64(n) / time.Since(begin).Seconds() }

// DELIVERYQUEUE_WAITING=100000 measures so many waiting deliveries in each
// store, beside as many of River's bare jobs and as many dead letters of a
// letters.Dir. It takes some minutes.
func TestManyWaiting(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("DELIVERYQUEUE_WAITING"))
	if err != nil {
		t.Skip("DELIVERYQUEUE_WAITING is not set")
	}
	m := &table{cells: make(map[string]map[string]string)}
	for name, store := range stores {
		m.deliveries(t, name, store(t), n)
		m.bare(t, name+" bare", store(t), n)
	}
	m.dirQueue(t, "letters.Dir", min(n, 20_000))
	m.write(t, "SQLite", "SQLite bare", "PostgreSQL", "PostgreSQL bare", "letters.Dir")
}

// measured is how many of n are enqueued one by one, in transactions, and
// delivered.
func measured(n int) int { return min(n/2, 2000) }

// fill makes n jobs wait: some are enqueued one by one, as many 500 in a
// transaction, and the rest are copies.
func (m *table) fill(t *testing.T, column string, q *Queue, n int, one func() error, within func(tx any) error) {
	t.Helper()
	begin := time.Now()
	for range measured(n) {
		if err := one(); err != nil {
			t.Fatal(err)
		}
	}
	m.add(column, enqueueOnes, "%.0f", perSecond(measured(n), begin))
	begin = time.Now()
	left := measured(n)
	for done := 0; done < left; done += 500 {
		inTx(t, q, true, func(tx any) {
			for range min(500, left-done) {
				if err := within(tx); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	m.add(column, enqueueMany, "%.0f", perSecond(left, begin))
	const columns = "args, kind, max_attempts, metadata, queue, state, priority, scheduled_at, tags, created_at"
	execute(t, q.store.db, fmt.Sprintf(`WITH copies AS (SELECT %s
		FROM river_job AS a, (SELECT id FROM river_job ORDER BY id LIMIT 1000) AS b)
		INSERT INTO river_job (%s) SELECT %s FROM copies LIMIT %d`, columns, columns, columns, n-2*measured(n)))
	if s := stats(t, q); s.Waiting != n {
		t.Errorf("%+v", s)
	}
}

func (m *table) size(t *testing.T, column string, q *Queue) {
	t.Helper()
	statement := "SELECT pg_database_size(current_database())"
	if q.store.sqlite {
		statement = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
	}
	var size int64
	if err := q.store.db.QueryRow(statement).Scan(&size); err != nil {
		t.Fatal(err)
	}
	m.add(column, storeSize, "%.0f", float64(size)/1e6)
}

func (m *table) deliveries(t *testing.T, column, store string, n int) {
	t.Helper()
	var done atomic.Int64
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		done.Add(1)
		return noContent(req)
	})
	q := open(t, store, Config{PollInterval: defaultPollInterval, Base: base, PerEndpoint: defaultWorkers})
	request := func() *http.Request { return post(t, "http://endpoint.test/hook", benchBody) }
	m.fill(t, column, q, n, func() error {
		_, err := q.Enqueue(t.Context(), request(), Options{})
		return err
	}, func(tx any) error { return enqueueTx(t, q, tx, request()) })
	m.size(t, column, q)
	if !q.store.sqlite {
		execute(t, q.store.db, "ANALYZE river_job") // as its autovacuum does within a minute
	}
	begin := time.Now()
	stats(t, q)
	m.add(column, statsTime, "%d", time.Since(begin).Milliseconds())
	begin = time.Now()
	listed := 0
	for _, err := range q.List(t.Context(), Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		listed++
	}
	m.add(column, listTime, "%d", time.Since(begin).Milliseconds())
	if listed != n {
		t.Errorf("%d are listed", listed)
	}
	m.work(t, column, n, &done, func() func() { return start(t, q) })
}

// work measures the delivery of some of n jobs.
func (m *table) work(t *testing.T, column string, n int, done *atomic.Int64, run func() (stop func())) {
	t.Helper()
	runtime.GC()
	const warm = 100
	stop := run()
	eventuallyIn(t, time.Minute, "it begins", func() bool { return done.Load() >= min(int64(n), warm) })
	begin, first := time.Now(), done.Load()
	var heap uint64
	for target := first + int64(measured(n-warm)); done.Load() < target && time.Since(begin) < time.Minute; {
		time.Sleep(10 * time.Millisecond)
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		heap = max(heap, stats.HeapAlloc)
	}
	m.add(column, deliverRate, "%.0f", perSecond(int(done.Load()-first), begin))
	m.add(column, heapMemory, "%.0f", float64(heap)/1e6)
	stop()
	m.add(column, residentPeak, "%s", peak())
}

// peak is the most memory that the process has had, where /proc says so.
func peak() string {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.Atoi(strings.Fields(kb)[0])
			return fmt.Sprint(n / 1000)
		}
	}
	return "?"
}

func (m *table) bare(t *testing.T, column, store string, n int) {
	t.Helper()
	q := open(t, store, Config{})
	a, opts := bareArgs(t, q), &river.InsertOpts{Queue: queueName}
	m.fill(t, column, q, n, func() error {
		_, err := q.store.insert(t.Context(), a, opts)
		return err
	}, func(tx any) error {
		_, err := q.store.insertTx(t.Context(), tx, a, opts)
		return err
	})
	m.size(t, column, q)
	if !q.store.sqlite {
		execute(t, q.store.db, "ANALYZE river_job")
	}
	w := &bareWorker{}
	m.work(t, column, n, &w.done, func() func() { return startBare(t, q, w) })
}

func (m *table) dirQueue(t *testing.T, column string, n int) {
	t.Helper()
	dir := t.TempDir()
	queue := &letters.Dir{Path: dir}
	begin := time.Now()
	for range n {
		req := post(t, "http://endpoint.test/hook", benchBody)
		dead := delivery.DeadLetter{Request: req, Attempts: 1, Reason: "permanent"}
		if err := queue.Put(context.Background(), dead); err != nil {
			t.Fatal(err)
		}
	}
	m.add(column, enqueueOnes, "%.0f", perSecond(n, begin))
	begin = time.Now()
	listed := 0
	for _, err := range queue.List() {
		if err != nil {
			t.Fatal(err)
		}
		listed++
	}
	if listed != n {
		t.Fatalf("%d are listed", listed)
	}
	m.add(column, listTime, "%d (of %d)", time.Since(begin).Milliseconds(), n)
	begin = time.Now()
	done, err := queue.Redrive(t.Context(), roundTripper(noContent), letters.RedriveOptions{})
	if err != nil || done.Delivered != n {
		t.Fatalf("%+v, %v", done, err)
	}
	m.add(column, deliverRate, "%.0f", perSecond(n, begin))
}
