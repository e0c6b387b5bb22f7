package deliveryqueue

import (
	"strings"
	"testing"
)

// An outcome is committed in the same time however many deliveries wait: SQLite
// finds the job by its number. PostgreSQL chooses by the statistics of its
// tables.
func TestOutcomeIsCommittedByNumber(t *testing.T) {
	t.Parallel()
	q := open(t, newSQLite(t), Config{})
	rows, err := q.store.db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+q.store.settleQuery(), "[]")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, step)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(plan, "\n")
	if !strings.Contains(text, "SEARCH river_job USING INTEGER PRIMARY KEY") || strings.Contains(text, "INDEX river_job") {
		t.Errorf("the plan is\n%s", text)
	}
}
