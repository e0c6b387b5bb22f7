package deliveryqueue

import (
	"context"
	"fmt"
	"os"
	"os/exec"
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

// work works a store until the process's standard input ends.
func work(store string) int {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	q, err := Open(ctx, store, Config{Workers: 4, PollInterval: 20 * time.Millisecond})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() {
		os.Stdin.Read(make([]byte, 1))
		stop()
	}()
	if err := q.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// workInProcess works a store in a process of its own until the end of the
// test.
func workInProcess(t *testing.T, store string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), quietWorker+"="+store)
	cmd.Stderr = t.Output()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// Two processes that share only the store keep to the rate of an endpoint.
func TestThrottleOfManyProcesses(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		const rate, n = 20, 40
		end, other := newEndpoint(t, 200), newEndpoint(t, 200)
		policy := parse(t, fmt.Sprintf(`{"throttlePolicy": {"maxReceivesPerSecond": %d}}`, rate))
		q := open(t, store, Config{})
		for range n {
			enqueue(t, q, post(t, end.URL, "hello"), Options{Policy: policy})
		}
		enqueue(t, q, post(t, other.URL, "hello"), Options{Policy: policy})
		begin := time.Now()
		workInProcess(t, store)
		workInProcess(t, store)
		eventuallyIn(t, time.Minute, "all are delivered", func() bool { return stats(t, q) == Stats{Delivered: n + 1} })
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
		most := 0
		for i := range n {
			in := 0
			for j := i; j < n && all[j].at.Sub(all[i].at) < time.Second; j++ {
				in++
			}
			most = max(most, in)
		}
		// A request may be made tooLate after its turn, and the next ones on time.
		// A machine that is loaded adds to that, so this is checked on request.
		const allowed = rate + rate*int(tooLate/time.Millisecond)/1000 + 1
		if os.Getenv("DELIVERYQUEUE_KILLS") != "" && most > allowed {
			t.Errorf("%d requests in a second, and %d are allowed", most, allowed)
		}
		t.Logf("%d requests in %v, at most %d in a second", n, all[n-1].at.Sub(all[0].at), most)
	})
}

// A delivery that has a turn is not held up by those that were due before it.
func TestTurnComesFirst(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 200)
		q := open(t, store, Config{Workers: 1})
		enqueue(t, q, post(t, end.URL, "has waited for long"), Options{})
		id := enqueue(t, q, post(t, end.URL, "has a turn"), Options{})
		setJob(t, q, id, `state = 'running', attempt = 1`)
		turn := again(underWay(t, q, id, 1), record{Turn: time.Now().UnixMicro()}, 0)
		if err := q.store.settle(t.Context(), []*change{turn}); err != nil {
			t.Fatal(err)
		}
		start(t, q)
		waitFor(t, q, Stats{Delivered: 2})
		if first := end.requests()[0].body; first != "has a turn" {
			t.Errorf("the first %s", first)
		}
	})
}
