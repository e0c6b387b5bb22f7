package deliveryqueue

import (
	"errors"
	"strings"
	"testing"
	"time"

	"example.com/awsretry/deliveryqueue/internal/storetest"
)

// Through PgBouncer in transaction mode, everything works with
// default_query_exec_mode=exec. Notifications do not arrive, so deliveries wait for
// a poll.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	direct := newPostgres(t)
	name := direct[strings.LastIndex(direct, "/")+1 : strings.LastIndex(direct, "?")]
	url, stop, err := postgres.server.Bouncer(name)
	if errors.Is(err, storetest.ErrNoBouncer) {
		t.Skip(err)
	}
	check(t, err)
	t.Cleanup(stop)
	url += "&default_query_exec_mode=exec"
	good, bad, limited := newEndpoint(t, 200), newEndpoint(t, 503, 200), newEndpoint(t, 200)
	q := open(t, url, Config{PollInterval: 50 * time.Millisecond, DisableAfter: time.Hour})
	stopRun := start(t, q)
	var items []Item
	for range 100 {
		items = append(items, Item{post(t, good.URL, "hello"), Options{}})
	}
	must[[]int64](t)(q.EnqueueMany(t.Context(), items))
	id := enqueue(t, q, post(t, bad.URL, "hello"), Options{Policy: retries(t, 3)})
	for range 3 {
		enqueue(t, q, post(t, limited.URL, "hello"), Options{Policy: throttle(t, 100)})
	}
	waitFor(t, q, Stats{Delivered: 104})
	if d := get(t, q, id); d.Attempts != 2 {
		t.Errorf("%+v", d)
	}
	check(t, q.Pause(t.Context(), good.URL))
	waits := enqueue(t, q, post(t, good.URL, "hello"), Options{})
	if all := endpoints(t, q); all[good.URL].Waiting != 1 || all[good.URL].Paused.IsZero() {
		t.Errorf("%+v", all)
	}
	check(t, q.Cancel(t.Context(), waits))
	bad.respond(404)
	enqueue(t, q, post(t, bad.URL, "hello"), Options{})
	waitFor(t, q, Stats{Delivered: 104, Canceled: 1, Dead: 1})
	must[int](t)(q.Redrive(t.Context(), Filter{Endpoint: bad.URL}))
	waitFor(t, q, Stats{Delivered: 104, Canceled: 1, Dead: 1})
	must[int](t)(q.CancelAll(t.Context(), Filter{State: Dead}))
	stopRun()
	wantStats(t, q, Stats{Delivered: 104, Canceled: 2})
}
