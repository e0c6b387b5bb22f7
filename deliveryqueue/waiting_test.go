package deliveryqueue

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"example.com/awsretry/delivery"
	"example.com/awsretry/delivery/letters"
	"example.com/awsretry/internal/httpfake"
)

// A column measures one store, and logs rows of a table.
type column struct {
	*testing.T
	name string
}

func (c column) add(row, format string, value any) {
	c.Logf("%-15s %-34s "+format, c.name, row, value)
}

// The rows that more than one kind of store has.
const (
	enqueueOnes = "enqueue, one by one, /s"
	listTime    = "List of all, ms"
	deliverRate = "deliver, /s"
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
	config := Config{PollInterval: defaultPollInterval, PerEndpoint: defaultWorkers}
	for name, store := range stores {
		c := column{t, name}
		l := newDeliveries(t, store(t), config, 1)
		c.fill(l, n)
		c.read(l.q, n)
		c.work(l, n)
		c, l = column{t, name + " bare"}, newBare(t, store(t), config, 1)
		c.fill(l, n)
		c.work(l, n)
	}
	column{t, "letters.Dir"}.letters(min(n, 20_000))
}

// measured is how many of n are enqueued one by one, in transactions, and
// delivered.
func measured(n int) int { return min(n/2, 2000) }

// fill makes n jobs wait: some are enqueued one by one, as many 500 in a
// transaction, and the rest are copies.
func (c column) fill(l load, n int) {
	begun := time.Now()
	for range measured(n) {
		check(c, l.enqueue())
	}
	c.add(enqueueOnes, "%.0f", perSecond(measured(n), begun))
	begun = time.Now()
	for done := 0; done < measured(n); done += 500 {
		tx, end := begin(c.T, l.q)
		for range min(500, measured(n)-done) {
			check(c, l.within(tx))
		}
		check(c, end(true))
	}
	c.add("enqueue, 500 in a transaction, /s", "%.0f", perSecond(measured(n), begun))
	db := l.q.store.db
	const columns = "args, kind, max_attempts, metadata, queue, state, priority, scheduled_at, tags, created_at"
	execute(c, db, fmt.Sprintf(`WITH copies AS (SELECT %s
		FROM river_job AS a, (SELECT id FROM river_job ORDER BY id LIMIT 1000) AS b)
		INSERT INTO river_job (%s) SELECT %s FROM copies LIMIT %d`, columns, columns, columns, n-2*measured(n)))
	size := "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
	if !l.q.store.sqlite {
		execute(c, db, "ANALYZE river_job") // as its autovacuum does within a minute
		size = "SELECT pg_database_size(current_database())"
	}
	c.add("the store, MB", "%d", scan[int](c, l.q, size)/1e6)
}

// read measures what reads all.
func (c column) read(q *Queue, n int) {
	begun := time.Now()
	if s := stats(c, q); s.Waiting != n {
		c.Errorf("%+v", s)
	}
	c.add("Stats, ms", "%d", time.Since(begun).Milliseconds())
	begun = time.Now()
	listed := 0
	for _, err := range q.List(c.Context(), Filter{}) {
		check(c, err)
		listed++
	}
	c.add(listTime, "%d", time.Since(begun).Milliseconds())
	if listed != n {
		c.Errorf("%d are listed", listed)
	}
}

// work measures the delivery of some of n jobs.
func (c column) work(l load, n int) {
	runtime.GC()
	const warm = 100
	stop := l.start()
	defer stop()
	eventually(c, "it begins", func() bool { return l.done.Load() >= min(int64(n), warm) })
	begun, first := time.Now(), l.done.Load()
	var heap uint64
	for target := first + int64(measured(n-warm)); l.done.Load() < target && time.Since(begun) < time.Minute; {
		time.Sleep(10 * time.Millisecond)
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		heap = max(heap, stats.HeapAlloc)
	}
	c.add(deliverRate, "%.0f", perSecond(int(l.done.Load()-first), begun))
	c.add("Go heap while delivering, MB", "%d", heap/1e6)
}

func (c column) letters(n int) {
	queue := &letters.Dir{Path: c.TempDir()}
	begun := time.Now()
	for range n {
		req := post(c, "http://endpoint.test/hook", benchBody)
		check(c, queue.Put(c.Context(), delivery.DeadLetter{Request: req, Attempts: 1, Reason: "permanent"}))
	}
	c.add(enqueueOnes, "%.0f", perSecond(n, begun))
	begun = time.Now()
	listed := 0
	for _, err := range queue.List() {
		check(c, err)
		listed++
	}
	c.add(listTime, "%d", time.Since(begun).Milliseconds())
	begun = time.Now()
	done, err := queue.Redrive(c.Context(), httpfake.Statuses(204), letters.RedriveOptions{})
	if err != nil || done.Delivered != n || listed != n {
		c.Fatalf("%+v of %d, %v", done, listed, err)
	}
	c.add(deliverRate, "%.0f", perSecond(n, begun))
}
