package deliveryqueue

import (
	"errors"
	"io"
	"net/http"
	"slices"
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

// Keys and tags are found, in PostgreSQL without reading all, and pages continue in either order.
func TestFind(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		enqueue(t, q, post(t, "http://endpoint.test", ""), Options{})
		backlog(t, q, 10_000)
		if !q.store.sqlite {
			execute(t, q.store.db, `UPDATE river_job SET metadata = jsonb_set(metadata, '{delivery,key}', to_jsonb('key ' || id))`)
			execute(t, q.store.db, "VACUUM ANALYZE river_job")
			execute(t, q.store.db, "UPDATE pg_class SET reltuples = 1e7 WHERE oid = 'river_job'::regclass")
		}
		var ids []int64
		for _, o := range []Options{
			{IdempotencyKey: `"1"`, Tags: []string{"customer:17", `a "b" %`}},
			{IdempotencyKey: "2", Tags: []string{"customer:17"}},
			{IdempotencyKey: "2", Tags: []string{"customer:1"}},
			{IdempotencyKey: "3"},
		} {
			ids = append(ids, enqueue(t, q, post(t, "http://endpoint.test", ""), o))
		}
		for _, tt := range []struct {
			filter Filter
			want   []int64
		}{
			{Filter{IdempotencyKey: `"1"`}, ids[:1]},
			{Filter{IdempotencyKey: "2"}, ids[1:3]},
			{Filter{IdempotencyKey: "2", Newest: true}, []int64{ids[2], ids[1]}},
			{Filter{IdempotencyKey: "2", Tags: []string{"customer:1"}}, ids[2:3]},
			{Filter{Tags: []string{"customer:17"}}, ids[:2]},
			{Filter{Tags: []string{`a "b" %`, "customer:17"}}, ids[:1]},
			{Filter{Tags: []string{"customer:17", "customer:1"}}, nil},
			{Filter{Tags: []string{"customer"}}, nil},
			{Filter{Newest: true, Limit: 2}, []int64{ids[3], ids[2]}},
			{Filter{Newest: true, Limit: 2, After: ids[2]}, []int64{ids[1], ids[0]}},
			{Filter{After: ids[1]}, ids[2:]},
			{Filter{After: ids[0], Limit: 2}, ids[1:3]},
		} {
			var got []int64
			for _, d := range list(t, q, tt.filter) {
				got = append(got, d.ID)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%+v: %v, want %v", tt.filter, got, tt.want)
			}
		}
		if d := get(t, q, ids[0]); !slices.Equal(d.Tags, []string{"customer:17", `a "b" %`}) {
			t.Errorf("%+v", d)
		}
		for _, f := range []Filter{{IdempotencyKey: "2"}, {Tags: []string{"customer:1"}, Newest: true}} {
			where, params, err := q.store.where(f)
			check(t, err)
			text := plan(t, q, `SELECT id FROM river_job WHERE `+where+f.next(0, 1), params...)
			if !q.store.sqlite && !strings.Contains(text, "river_job_metadata_index") {
				t.Errorf("the plan is\n%s", text)
			}
		}
		if n, err := q.Redrive(t.Context(), Filter{State: Waiting, Newest: true, Limit: 2}); n != 2 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if n, err := q.CancelAll(t.Context(), Filter{Tags: []string{"customer:17"}, Newest: true}); n != 2 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if n, err := q.CancelAll(t.Context(), Filter{Newest: true, After: ids[1] + 1, Limit: 5001}); n != 5001 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
}

// The request of a delivery can be read, also if it is sealed.
func TestRequest(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		for _, config := range []Config{{}, {Seal: flip, Open: flip}} {
			q := open(t, store, config)
			req := post(t, "http://endpoint.test/a?b=c", "hello")
			id := enqueue(t, q, req, Options{IdempotencyKey: "key"})
			again := must[*http.Request](t)(q.Request(t.Context(), id))
			body := must[[]byte](t)(io.ReadAll(again.Body))
			if again.URL.String() != req.URL.String() || string(body) != "hello" || again.Header.Get("Idempotency-Key") != "key" {
				t.Errorf("%+v with %q", again, body)
			}
			if _, err := q.Request(t.Context(), id+1); !errors.Is(err, ErrNotFound) {
				t.Errorf("error %v", err)
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
