package deliveryqueue

import (
	"fmt"
	"strings"
	"testing"
)

// An outcome is committed in the same time however many deliveries wait: SQLite
// finds the job by its number. PostgreSQL chooses by the statistics of its
// tables.
func TestOutcomeIsCommittedByNumber(t *testing.T) {
	t.Parallel()
	q := open(t, newSQLite(t), Config{})
	text := plan(t, q, q.store.settleQuery(), "[]")
	if !strings.Contains(text, "SEARCH river_job USING INTEGER PRIMARY KEY") || strings.Contains(text, "INDEX river_job") {
		t.Errorf("the plan is\n%s", text)
	}
}

// plan returns how the store executes a statement.
func plan(t *testing.T, q *Queue, statement string, params ...any) string {
	t.Helper()
	explain := "EXPLAIN "
	if q.store.sqlite {
		explain = "EXPLAIN QUERY PLAN "
	}
	rows, err := q.store.db.QueryContext(t.Context(), explain+statement, params...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var steps []string
	for rows.Next() {
		row := make([]any, len(columns))
		for i := range row {
			row[i] = new(any)
		}
		if err := rows.Scan(row...); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, fmt.Sprint(*row[len(row)-1].(*any)))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(steps, "\n")
}

// A fetch goes by its index, also where PostgreSQL's statistics know of no job
// that is available.
func TestFetchUsesItsIndex(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		const many = 3000
		enqueue(t, q, post(t, "http://endpoint.test", "hello"), Options{})
		backlog(t, q, many)
		execute(t, q.store.db, `UPDATE river_job SET state = 'completed', finalized_at = `+q.store.after(`0`))
		analyze := "ANALYZE river_job"
		if !q.store.sqlite {
			analyze = "VACUUM " + analyze
		}
		execute(t, q.store.db, analyze)
		execute(t, q.store.db, `UPDATE river_job SET state = 'available', finalized_at = NULL`)
		for name, text := range map[string]string{
			"due":  plan(t, q, q.store.dueQuery(10), "", ""),
			"take": plan(t, q, q.store.query(q.store.takeQuery()), `[{"endpoint": "http://endpoint.test", "n": 3}]`, "me"),
		} {
			if !strings.Contains(text, "deliveryqueue_due") || strings.Contains(text, "river_job_prioritized") ||
				strings.Contains(text, "Seq Scan on river_job") || strings.Contains(text, "SCAN river_job") {
				t.Errorf("the plan of %s is\n%s", name, text)
			}
		}
	})
}
