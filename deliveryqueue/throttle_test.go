package deliveryqueue

import (
	"fmt"
	"testing"
	"time"
)

func TestLine(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	const interval = time.Second
	l := line{}
	for i := range 5 {
		if wait, taken := l.take(now, interval, turnsAhead); !taken || wait != time.Duration(i)*interval {
			t.Errorf("turn %d: in %v, %v", i, wait, taken)
		}
	}
	for i := range 3 {
		want := turnsAhead + time.Duration(i+2)*interval
		if wait, taken := l.take(now, interval, turnsAhead); taken || wait != want {
			t.Errorf("place %d: in %v, %v; want %v", i, wait, taken, want)
		}
	}
	now = now.Add(2 * time.Second)
	if wait, taken := l.take(now, interval, turnsAhead); !taken || wait != 3*time.Second {
		t.Errorf("two seconds later: in %v, %v", wait, taken)
	}
	if wait, taken := l.take(now, interval, turnsAheadOfMissed); !taken || wait != 4*time.Second {
		t.Errorf("after a missed turn: in %v, %v", wait, taken)
	}
	l.tail = now.Add(time.Hour)
	l.next = now.Add(turnsAhead + time.Second)
	if wait, taken := l.take(now, interval, turnsAhead); taken || wait != longestLine {
		t.Errorf("at the end of a long line: in %v, %v", wait, taken)
	}
	if wait, taken := l.take(now.Add(-time.Hour), interval, turnsAhead); !taken || wait != 0 {
		t.Errorf("the clock was set back: in %v, %v", wait, taken)
	}
	if wait, taken := l.take(now.Add(time.Hour), interval, turnsAhead); !taken || wait != 0 {
		t.Errorf("after a break: in %v, %v", wait, taken)
	}
}

// Two queues that share only the store keep to the rate of an endpoint.
func TestThrottleOfManyProcesses(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		const rate, n = 20, 30
		end, other := newEndpoint(t, 200), newEndpoint(t, 200)
		policy := parse(t, fmt.Sprintf(`{"throttlePolicy": {"maxReceivesPerSecond": %d}}`, rate))
		first, second := open(t, store, Config{Workers: 4}), open(t, store, Config{Workers: 4})
		for range n {
			enqueue(t, first, post(t, end.URL, "hello"), Options{Policy: policy})
		}
		enqueue(t, first, post(t, other.URL, "hello"), Options{Policy: policy})
		begin := time.Now()
		start(t, first)
		start(t, second)
		waitFor(t, first, Stats{Delivered: n + 1})
		all := end.requests()
		if len(all) != n {
			t.Fatalf("%d requests", len(all))
		}
		// Requests may come late, but never early: on a busy machine the times
		// between them say nothing.
		for i, r := range all {
			if took, least := r.at.Sub(begin), time.Duration(i)*time.Second/rate; took < least-5*time.Millisecond {
				t.Errorf("%d requests in %v, want at least %v", i+1, took, least)
			}
		}
	})
}
