package deliveryqueue

import (
	"strings"
	"testing"
	"time"
)

func TestListFilters(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		var ids []int64
		for _, url := range []string{"http://a.test/1", "http://B.test/2", "http://a.test/3"} {
			ids = append(ids, enqueue(t, q, post(t, url, ""), Options{}))
		}
		for _, tt := range []struct {
			name   string
			filter Filter
			want   int
		}{
			{"all", Filter{}, 3},
			{"an endpoint", Filter{Endpoint: "http://B.test"}, 1},
			{"a state", Filter{State: Dead}, 0},
			{"a limit", Filter{Limit: 2}, 2},
			{"numbers", Filter{IDs: ids[1:]}, 2},
			{"before", Filter{Before: time.Now().Add(-time.Hour)}, 0},
			{"before, later", Filter{Before: time.Now().Add(time.Hour), State: Waiting}, 3},
		} {
			if l := list(t, q, tt.filter); len(l) != tt.want {
				t.Errorf("%s: %+v", tt.name, l)
			}
		}
		setJob(t, q, ids[2], `state = 'scheduled'`)
		for d := range q.List(t.Context(), Filter{}) {
			if empty, err := q.Empty(t.Context()); empty || err != nil {
				t.Errorf("before delivery %d is canceled: %v, %v", d.ID, empty, err)
			}
			check(t, q.Cancel(t.Context(), d.ID)) // the store is free meanwhile
		}
		if !must[bool](t)(q.Empty(t.Context())) {
			t.Error("canceled deliveries wait")
		}
		for name, f := range map[string]Filter{"state": {State: "no"}, "limit": {Limit: -1}} {
			for _, err := range q.List(t.Context(), f) {
				if err == nil || !strings.Contains(err.Error(), "it must be") {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	})
}

// Long reads do not delay Enqueue and fetches.
func TestReadsHoldUpNothing(t *testing.T) {
	t.Parallel()
	end := newEndpoint(t, 200)
	q := open(t, newSQLite(t), Config{})
	start(t, q)
	for q.store.reading.Stats().InUse < q.store.reading.Stats().MaxOpenConnections {
		rows, err := q.store.reading.QueryContext(t.Context(),
			`WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c`)
		if err != nil || !rows.Next() {
			t.Fatal(err)
		}
		defer rows.Close()
	}
	enqueue(t, q, post(t, end.URL, "hello"), Options{})
	end.wait(t, 1)
}
