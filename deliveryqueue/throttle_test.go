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
		start(t, first)
		start(t, second)
		waitFor(t, first, Stats{Delivered: n + 1})
		all := end.requests()
		if len(all) != n {
			t.Fatalf("%d requests", len(all))
		}
		for i := range n - rate/2 {
			// A request may be late by tooLate, and the next one on time.
			if took := all[i+rate/2].at.Sub(all[i].at); took < 500*time.Millisecond-tooLate {
				t.Errorf("%d requests in %v", rate/2+1, took)
			}
		}
		if took := all[n-1].at.Sub(all[0].at); took > 15*time.Second {
			t.Errorf("%d requests took %v", n, took)
		}
	})
}
