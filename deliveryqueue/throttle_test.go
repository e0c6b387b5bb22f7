package deliveryqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// Turns are an interval apart, none is farther ahead than asked for, and after a
// break or with the clock set back the next one is now.
func TestTurns(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		take := func(ahead time.Duration) (time.Duration, bool) {
			t.Helper()
			wait, taken, err := q.store.takeTurn(t.Context(), "http://endpoint.test", 1, ahead)
			if err != nil {
				t.Fatal(err)
			}
			return wait.Round(time.Second), taken
		}
		for i := range 3 {
			if wait, taken := take(time.Minute); !taken || wait != time.Duration(i)*time.Second {
				t.Errorf("turn %d: in %v, %v", i, wait, taken)
			}
		}
		if wait, taken := take(time.Second); taken {
			t.Errorf("a turn in %v", wait)
		}
		for what, off := range map[string]string{"after a break": "- 60", "the clock was set back": "+ 7200"} {
			execute(t, q.store.db, `UPDATE deliveryqueue_endpoint SET next_at = next_at `+off+`000000`)
			if wait, taken := take(0); !taken || wait != 0 {
				t.Errorf("%s: in %v, %v", what, wait, taken)
			}
		}
	})
}

// A quiet has the configuration of a process that runs a store.
type quiet struct {
	Store          string
	Workers        int
	AttemptTimeout time.Duration
	StopTimeout    time.Duration
	CutsOff        bool // attempts may be cut off at the end
}

// work works a store until the process's standard input ends.
func work(text string) int {
	ctx, stop := context.WithTimeout(context.Background(), time.Hour)
	defer stop()
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var c quiet
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return fail(err)
	}
	q, err := Open(ctx, c.Store, Config{
		Workers: c.Workers, AttemptTimeout: c.AttemptTimeout, StopTimeout: c.StopTimeout, PollInterval: 20 * time.Millisecond,
	})
	if err != nil {
		return fail(err)
	}
	go func() {
		os.Stdin.Read(make([]byte, 1))
		stop()
	}()
	if err := q.Run(ctx); err != nil && !c.CutsOff {
		return fail(err)
	}
	return 0
}

// workInProcess works a store in a process of its own until stop or the end of
// the test.
func workInProcess(t *testing.T, c quiet) (stop func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), quietWorker+"="+string(text))
	cmd.Stderr = t.Output()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
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
		workInProcess(t, quiet{Store: store, Workers: 4})
		workInProcess(t, quiet{Store: store, Workers: 4})
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
