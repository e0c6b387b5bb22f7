package deliveryqueue

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river/rivertype"
)

// backlog copies the rows in the store until there are about n.
func backlog(t testing.TB, q *Queue, n int) {
	t.Helper()
	have := stats(t, q).Waiting
	if have == 0 {
		return
	}
	numbers := `(SELECT generate_series(2, $1) AS n) AS numbers`
	if q.store.sqlite {
		numbers = `(WITH RECURSIVE c(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM c WHERE n < ?1) SELECT n FROM c) AS numbers`
	}
	const columns = `args, kind, max_attempts, metadata, priority, queue, scheduled_at, state`
	execute(t, q.store.db,
		`INSERT INTO river_job (`+columns+`) SELECT `+columns+` FROM river_job, `+numbers, n/have)
}

// plan returns how the store executes a statement.
func plan(t *testing.T, q *Queue, statement string, params ...any) string {
	t.Helper()
	explain, columns := "EXPLAIN ", 1
	if q.store.sqlite {
		explain, columns = "EXPLAIN QUERY PLAN ", 4
	}
	var steps []string
	check(t, q.store.each(t.Context(), q.store.db, func(rows *sql.Rows) error {
		var step string
		row := []any{new(any), new(any), new(any), &step}
		err := rows.Scan(row[len(row)-columns:]...)
		steps = append(steps, step)
		return err
	}, explain+statement, params...))
	return strings.Join(steps, "\n")
}

// Committing an outcome takes the same time however many deliveries wait: SQLite
// finds the job by its number. It counts the endpoints in the order of the indexes.
// PostgreSQL plans by the statistics of its tables.
func TestOutcomeIsCommittedByNumber(t *testing.T) {
	t.Parallel()
	q := open(t, newSQLite(t), Config{})
	text := plan(t, q, q.store.settleQuery(), "[]")
	if !strings.Contains(text, "SEARCH river_job USING INTEGER PRIMARY KEY") || strings.Contains(text, "INDEX river_job") {
		t.Errorf("the plan is\n%s", text)
	}
	conditions := map[string]string{dueIndex: q.store.available(), asideIndex: aside}
	for index, condition := range conditions {
		if text := plan(t, q, q.store.countQuery(index, condition)); !strings.Contains(text, "SCAN river_job USING INDEX "+index) || strings.Contains(text, "SCAN river_job\n") {
			t.Errorf("the plan is\n%s", text)
		}
	}
}

// A fetch uses its index, even if PostgreSQL's statistics show no available job.
func TestFetchUsesItsIndex(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		enqueue(t, q, post(t, "http://endpoint.test", "hello"), Options{})
		backlog(t, q, 1000)
		execute(t, q.store.db, `UPDATE river_job SET state = 'completed', finalized_at = `+q.store.after(`0`))
		analyze := "ANALYZE river_job"
		if !q.store.sqlite {
			analyze = "VACUUM " + analyze
		}
		execute(t, q.store.db, analyze)
		execute(t, q.store.db, `UPDATE river_job SET state = 'available', finalized_at = NULL`)
		for name, text := range map[string]string{
			"due":  plan(t, q, q.store.dueQuery(10), "", ""),
			"take": plan(t, q, q.store.takeQuery(), `[{"endpoint": "http://endpoint.test", "n": 3}]`, "me"),
		} {
			if !strings.Contains(text, dueIndex) || strings.Contains(text, "river_job_prioritized") ||
				strings.Contains(text, "Seq Scan on river_job") || strings.Contains(text, "SCAN river_job") {
				t.Errorf("the plan of %s is\n%s", name, text)
			}
		}
	})
}

// A burst of deliveries does not make PostgreSQL read them all for each look and each
// outcome, whatever its statistics and the plans that it has kept are from.
func TestBurst(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{"plans from before": `SELECT 1`, "statistics from amid": `ANALYZE river_job`} {
		t.Run(name, func(t *testing.T) {
			store := newPostgres(t)
			q := must[*Queue](t)(Open(t.Context(), store+"&pool_max_conns=1", Config{}))
			pid := scan[int](t, q, `SELECT pg_backend_pid()`)
			db := connect(t, "pgx", store)
			execute(t, db, `ALTER TABLE river_job SET (autovacuum_enabled = off)`)
			const endpoints, each = 40, 500
			var few []newJob
			var all []candidate
			for i := range endpoints {
				few = append(few, must[newJob](t)(q.job(post(t, fmt.Sprintf("http://h%d.test", i), "hello"), Options{})))
				all = append(all, candidate{Endpoint: fmt.Sprintf("http://h%d.test", i), N: 1})
			}
			look := func() {
				must[[]candidate](t)(q.store.candidates(t.Context(), q.store.dueQuery(firstPage), "", ""))
				made := []*change{}
				for _, taken := range must[[]taken](t)(q.store.take(t.Context(), all, "a client")) {
					made = append(made, again(taken.job, record{}, 0))
				}
				if n := len(must[map[int64]committed](t)(q.store.settle(t.Context(), made))); n != endpoints {
					t.Fatalf("%d outcomes", n)
				}
			}
			must[[]int64](t)(q.store.insert(t.Context(), q.store.db, few))
			const before, after = 10, 5
			for range before { // PostgreSQL keeps a plan after five
				look()
			}
			tx := must[*sql.Tx](t)(db.BeginTx(t.Context(), nil))
			must[[]int64](t)(q.store.insert(t.Context(), tx, slices.Repeat(few, each)))
			execute(t, q.store.db, statement)
			check(t, tx.Commit())
			for range after {
				look()
			}
			check(t, q.Close()) // which makes the server count
			var read int
			eventually(t, "the counts", func() bool {
				var ended bool
				check(t, db.QueryRow(`SELECT NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = $1), seq_tup_read + idx_tup_fetch
					FROM pg_stat_user_tables WHERE relname = 'river_job'`, pid).Scan(&ended, &read))
				return ended
			})
			if limit := (before + after) * 10 * endpoints; read > limit {
				t.Errorf("read %d rows in %d looks of %d endpoints; want at most %d", read, before+after, endpoints, limit)
			}
		})
	}
}

// River notices in time that its queue is paused, even if a look takes longer than
// Config.PollInterval.
func TestSlowLooks(t *testing.T) {
	t.Parallel()
	q := open(t, newSQLite(t), Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	f := q.newFetcher(ctx)
	f.poll = time.Nanosecond
	if _, err := f.fetch(t.Context(), "a client"); err != nil || ctx.Err() != nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
}

// A look reads a bounded number of endpoints, and the next one continues from
// there. It does not overlook a new delivery.
func TestManyEndpoints(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{Workers: 10})
		const n = 300
		enqueue(t, q, post(t, "http://seed.test", "x"), Options{})
		backlog(t, q, n)
		spread(t, q)
		f := q.newFetcher(t.Context())
		end := newEndpoint(t, 200)
		enqueue(t, q, post(t, end.URL, "x"), Options{})
		taken, first := 0, -1
		for looks := 0; taken <= n; looks++ {
			f.next = time.Now().Add(f.poll)
			for _, job := range must[[]*rivertype.JobRow](t)(f.look(t.Context(), "a client")) {
				if taken++; f.ledger.attempts[job.ID].endpoint == end.URL {
					first = looks
				}
				f.leave(job.ID)
			}
			if looks > n {
				t.Fatalf("%d of %d deliveries were taken", taken, n)
			}
		}
		if first > 2 {
			t.Errorf("the new one was taken in look %d", first)
		}
	})
}

// spread gives each delivery an endpoint of its own.
func spread(t testing.TB, q *Queue) {
	t.Helper()
	object := `jsonb_build_object`
	if q.store.sqlite {
		object = `jsonb_object`
	}
	execute(t, q.store.db, fmt.Sprintf(`UPDATE river_job SET scheduled_at = %s,
		metadata = %[2]s('delivery', %[2]s('endpoint', 'http://h' || id, 'key', 'k'))`, q.store.after(`-60`), object))
}
