package scenario

import (
	"strings"
	"testing"
)

// A summary counts in words: one client, two clients.
func TestSummary(t *testing.T) {
	for _, tt := range []struct{ field, want string }{
		{"clients: {count: 1, rate: 2.5}", "1m, seed 0; 1 client, 2.5 calls/s in all; service of 20 requests/s, queue of 20"},
		{"clients: {count: 1200, callers: 1}", "1,200 clients, 1 caller each, thinking 0s"},
		{"clients: {count: 2, callers: 3, think: 1s}", "2 clients, 3 callers each, thinking 1s"},
		{event("kind: join, clients: 1"), "from 0s on: 1 client joins"},
		{event("kind: join, clients: 2, to: 5s"), "from 0s to 5s: 2 clients join"},
		{event("kind: herd, calls: 1"), "herd of 1 call each"},
		{event("kind: herd, calls: 1.5"), "herd of 1.5 calls each"},
		{event("kind: capacity, capacity: 1500"), "capacity 1,500/s"},
		{event("kind: latency, factor: 3"), "latency x3"},
		{throttle("rate: 5, per_client: true, share: 0.1"), "throttled at 5/s each client, 10.0% throttled at random"},
		{throttle("in_flight: 1200, per_client: true, ban: 30s"), "throttled above 1,200 in flight each client, then banned for 30s each client"},
		{throttle("rate: 5, window: 1m, announces: draft6"), "at 5/s in windows of 1m, announced as draft6 does"},
		{service("body: {time: 4s, broken: 0.3}"), ", bodies of 4s, of which 30.0% break off"},
		{"drain: 1s", "1m and 1s to drain"},
		{over("errors: [0, 0, 0, 1]"), "; changing every 15s"},
	} {
		s, err := Parse([]byte(document(tt.field)))
		if err != nil {
			t.Fatal(err)
		}
		what := s.WithDefaults().Summary()
		if got := strings.Join(append(what.Events, what.Size), "\n"); !strings.Contains(got, tt.want) {
			t.Errorf("the summary is %s, want %s in it", got, tt.want)
		}
	}
}
