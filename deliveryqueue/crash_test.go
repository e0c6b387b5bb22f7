package deliveryqueue

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/awsretry/delivery"
)

// The environment of a process that workUntilKilled runs in.
const (
	workerStore    = "DELIVERYQUEUE_TEST_STORE"
	workerEndpoint = "DELIVERYQUEUE_TEST_ENDPOINT"
	workerHanging  = "DELIVERYQUEUE_TEST_HANGING" // an endpoint that hangs
	quietWorker    = "DELIVERYQUEUE_TEST_WORKER"  // the quiet of one that work runs in
)

// kills is how often TestCrash kills a process on each store.
// DELIVERYQUEUE_KILLS=1000 takes some minutes.
func kills(t *testing.T) int {
	t.Helper()
	n := 10
	if text := os.Getenv("DELIVERYQUEUE_KILLS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

const crashWorkers = 2

// quickly finds dead processes in 1.5 s.
func quickly(q *Queue) {
	q.timing = timing{settle: 300 * time.Millisecond, rescue: 200 * time.Millisecond, sweep: 100 * time.Millisecond}
}

func crashConfig() Config {
	return Config{Workers: crashWorkers, AttemptTimeout: time.Second, PollInterval: 20 * time.Millisecond}
}

// workUntilKilled enqueues deliveries, works the queue and writes the key of
// each delivery that Enqueue has accepted.
func workUntilKilled() int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	q, err := Open(ctx, os.Getenv(workerStore), crashConfig())
	if err != nil {
		return fail(err)
	}
	quickly(q)
	policy, err := delivery.Parse([]byte(`{"healthyRetryPolicy": {"numRetries": 2, "numNoDelayRetries": 2}}`))
	if err != nil {
		return fail(err)
	}
	go func() {
		for ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
			key, to := []string{"good", "good", "again", "bad", "hang"}[rand.N(5)], os.Getenv(workerEndpoint)
			if key == "hang" {
				to = os.Getenv(workerHanging)
			}
			req, err := http.NewRequest("POST", to, strings.NewReader("hello"))
			if err != nil {
				panic(err)
			}
			key += fmt.Sprintf("-%d", rand.Uint64())
			if _, err := q.Enqueue(ctx, req, Options{Policy: policy, IdempotencyKey: key}); err != nil {
				fmt.Fprintln(os.Stderr, err)
				continue
			}
			fmt.Println(key)
		}
	}()
	if err := q.Run(ctx); err != nil {
		return fail(err)
	}
	return 0
}

// A counter is an endpoint that counts the requests by key. Those whose key
// begins with hang wait until it is released.
type counter struct {
	mu        sync.Mutex
	delivered map[string]int // 2xx
	seen      map[string]int
	released  chan struct{}
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	time.Sleep(2 * time.Millisecond)
	key := r.Header.Get("Idempotency-Key")
	if strings.HasPrefix(key, "hang-") {
		select {
		case <-c.released:
		case <-r.Context().Done():
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[key]++
	switch {
	case strings.HasPrefix(key, "bad-"):
		w.WriteHeader(http.StatusNotFound)
	case strings.HasPrefix(key, "again-") && c.seen[key] == 1:
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		c.delivered[key]++
	}
}

// crashing is how many processes TestCrash has at the same time.
const crashing = 3

// No delivery is lost when processes that enqueue and work are killed while an
// endpoint hangs, and what is delivered twice is at most what was under way.
func TestCrash(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := &counter{delivered: make(map[string]int), seen: make(map[string]int), released: make(chan struct{})}
		server, hanging := httptest.NewServer(end), httptest.NewServer(end)
		defer server.Close()
		defer hanging.Close()
		q := open(t, store, crashConfig())
		quickly(q)
		n, accepted := kills(t), make(map[string]bool)
		var mu sync.Mutex
		var processes sync.WaitGroup
		for i := range crashing {
			processes.Go(func() {
				for range (n + i) / crashing {
					keys := workAndKill(t, store, server.URL, hanging.URL)
					mu.Lock()
					for _, key := range keys {
						accepted[key] = true
					}
					mu.Unlock()
				}
			})
		}
		processes.Wait()
		before := stats(t, q)
		close(end.released)
		stop := start(t, q)
		// Rarely it is River that takes a job over, and then it takes another
		// leader to run it again.
		var s Stats
		eventuallyIn(t, time.Minute+time.Duration(n)*time.Second/2, "all have ended", func() bool {
			s = stats(t, q)
			return s.open() == 0
		})
		stop()

		stored := make(map[string]bool)
		for _, d := range list(t, q, Filter{}) {
			if stored[d.IdempotencyKey] {
				t.Errorf("%s is there twice", d.IdempotencyKey)
			}
			stored[d.IdempotencyKey] = true
			want := Delivered
			if strings.HasPrefix(d.IdempotencyKey, "bad-") {
				want = Dead
			}
			if strings.HasPrefix(d.IdempotencyKey, "hang-") && d.State == Dead && d.Attempts == 3 {
				want = Dead // each attempt hung
			}
			if d.State != want {
				t.Errorf("%s is %s: %+v", d.IdempotencyKey, d.State, d)
			}
			if want == Delivered && end.delivered[d.IdempotencyKey] == 0 {
				t.Errorf("%s was not delivered", d.IdempotencyKey)
			}
		}
		for key := range accepted {
			if !stored[key] {
				t.Errorf("%s was accepted and is lost", key)
			}
		}
		if len(stored) > len(accepted)+n {
			t.Errorf("%d are stored, and %d were accepted in %d processes", len(stored), len(accepted), n)
		}
		twice := 0
		for _, times := range end.delivered {
			twice += times - 1
		}
		if twice > n*crashWorkers {
			t.Errorf("%d deliveries too many after %d kills of %d workers", twice, n, crashWorkers)
		}
		if s = stats(t, q); s.Delivered+s.Dead != len(stored) || s.Delivered+s.Dead == 0 {
			t.Errorf("%+v, and %d are stored", s, len(stored))
		}
		t.Logf("%d kills: %d accepted, %d stored, then %+v, at last %+v, %d delivered twice",
			n, len(accepted), len(stored), before, s, twice)
	})
}

// workAndKill kills a process in the middle of its work, and returns the keys
// of the deliveries that it accepted.
func workAndKill(t *testing.T, store, endpoint, hanging string) (accepted []string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Error(err)
		return nil
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), workerStore+"="+store, workerEndpoint+"="+endpoint, workerHanging+"="+hanging)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return nil
	}
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return nil
	}
	var timer *time.Timer
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if timer == nil { // it works now
			timer = time.AfterFunc(rand.N(150*time.Millisecond), func() { cmd.Process.Kill() })
		}
		accepted = append(accepted, lines.Text())
	}
	if timer == nil {
		t.Error("the process has accepted nothing")
	}
	cmd.Wait()
	return accepted
}
