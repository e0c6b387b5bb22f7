package fleet_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/internal/storetest"
	"github.com/valkey-io/valkey-go"
)

// A task is what a process of the operating system does, see act. It is in the
// environment, as JSON.
type task struct {
	Store, Service string
	Callers        int
	MaxRate        float64
	Lease          time.Duration
}

const taskVariable = "FLEET_TEST_TASK"

func TestMain(m *testing.M) {
	if text := os.Getenv(taskVariable); text != "" {
		act(text)
		return
	}
	os.Exit(m.Run())
}

// A report is what a process prints several times in a second.
type report struct {
	Leads, Leased bool
	Good, Failed  int64
	Err           string // what OnError was called with last
}

// act calls a service until its standard input ends, for a minute at most.
func act(text string) {
	var task task
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		panic(err)
	}
	var mu sync.Mutex // guards r
	var r report
	connection := fleet.Dial(valkey.ClientOption{InitAddress: []string{task.Store}, ForceSingleClient: true})
	store := &link{Client: connection}
	shared, err := fleet.New(store, fleet.Config{
		Prefix: prefix, Lease: task.Lease, MaxRate: task.MaxRate,
		OnError: func(_ string, err error) {
			mu.Lock()
			defer mu.Unlock()
			r.Err = err.Error()
		},
	})
	if err != nil {
		panic(err)
	}
	tr := &awsretry.Transport{
		Base: &http.Transport{MaxIdleConnsPerHost: 16}, Mode: awsretry.Adaptive, Shared: shared,
		RateLimit: awsretry.RateLimitConfig{Pacing: awsretry.ScaledPacing},
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var callers sync.WaitGroup
	for range task.Callers {
		callers.Go(func() {
			for ctx.Err() == nil {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, task.Service, nil)
				if err != nil {
					panic(err)
				}
				resp, err := tr.RoundTrip(req)
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				mu.Lock()
				switch {
				case err == nil && resp.StatusCode == http.StatusOK:
					r.Good++
				case ctx.Err() == nil:
					r.Failed++
				}
				mu.Unlock()
			}
		})
	}
	for ctx.Err() == nil {
		state, _ := tr.State(strings.TrimPrefix(task.Service, "http://"))
		mu.Lock()
		r.Leads, r.Leased = store.leads.Load(), state.Leased
		_ = json.NewEncoder(os.Stdout).Encode(r) // which ends when the test does
		mu.Unlock()
		time.Sleep(50 * time.Millisecond)
	}
	callers.Wait()
	shared.Close()
	connection.Close()
}

// A worker is a process of the operating system that a test started.
type worker struct {
	cmd *exec.Cmd
	in  io.Closer

	mu     sync.Mutex
	report report // the last one
	ended  chan struct{}
}

// startWorker starts a process that ends with the test.
func startWorker(t *testing.T, task task) *worker {
	t.Helper()
	text, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), taskVariable+"="+string(text))
	w.cmd.Stderr = os.Stderr
	in, err := w.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.in = in
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(w.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			w.mu.Lock()
			_ = json.Unmarshal(lines.Bytes(), &w.report)
			w.mu.Unlock()
		}
		_ = w.cmd.Wait() // it may have been killed
	}()
	t.Cleanup(w.kill)
	return w
}

func (w *worker) last() report {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.report
}

func (w *worker) kill() {
	_ = w.cmd.Process.Kill()
	<-w.ended
}

// end ends the worker as a deploy does.
func (w *worker) end() {
	w.in.Close()
	<-w.ended
}

// serve starts a service on loopback.
func (s *service) serve(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resp, _ := s.RoundTrip(r) // which never fails
		w.WriteHeader(resp.StatusCode)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// take returns what was sent since the last call.
func (s *service) take() []sending {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := s.sent
	s.sent = nil
	return sent
}

// Processes of the operating system on a real server: what happens to them in a
// deploy, on a busy machine and when the store is restored.
func TestProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 20 s")
	}
	t.Parallel()
	const limit = 100
	store := storetest.Start(t)
	s := &service{rate: limit, burst: 20}
	task := task{Store: store.Addr, Service: s.serve(t), Callers: 6}
	workers := []*worker{startWorker(t, task), startWorker(t, task), startWorker(t, task)}
	// eventually waits for what a busy machine may delay.
	eventually := func(what string, f func() bool) {
		t.Helper()
		for end := time.Now().Add(5 * time.Second); !f(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("waited in vain: ", what)
			}
		}
	}
	leader := func() (i int) {
		t.Helper()
		eventually("somebody leads", func() bool {
			i = slices.IndexFunc(workers, func(w *worker) bool { return w.last().Leads })
			return i >= 0
		})
		return i
	}
	// phase lets seconds pass, and holds what is sent in them against the bounds.
	phase := func(name string, seconds int, goodput, throttled float64) {
		t.Helper()
		s.take()
		time.Sleep(time.Duration(seconds) * time.Second)
		sent, accepted := s.take(), 0
		for _, one := range sent {
			if one.accepted {
				accepted++
			}
		}
		got, refused := float64(accepted)/float64(limit*seconds), 1-float64(accepted)/float64(len(sent))
		t.Logf("%s: goodput %.2f, throttled %.3f", name, got, refused)
		if got < goodput || refused > throttled {
			t.Errorf("%s: goodput %.2f, throttled %.3f; want %g and %g", name, got, refused, goodput, throttled)
		}
		eventually(name+": all have a lease", func() bool {
			return !slices.ContainsFunc(workers, func(w *worker) bool { return !w.last().Leased })
		})
	}

	time.Sleep(2 * time.Second)
	store.Do("SAVE")
	phase("three", 3, 0.3, 0.3)

	killed := leader()
	workers[killed].kill()
	workers = append(slices.Delete(workers, killed, killed+1), startWorker(t, task))
	time.Sleep(time.Second)
	phase("the leader was killed", 3, 0.3, 0.3)

	stopped := leader()
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		if err := workers[stopped].cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
	}
	phase("the leader was stopped for a second", 2, 0.3, 0.3)

	store.Stop()
	store.Restart()
	time.Sleep(1500 * time.Millisecond)
	phase("the store is back at an older copy", 3, 0.3, 0.3)

	other := task
	other.Lease = time.Second
	stranger := startWorker(t, other)
	phase("a deploy with another lease", 3, 0.3, 0.3)
	if got := stranger.last(); got.Leased || !strings.Contains(got.Err, "this one has Lease:1s") {
		t.Errorf("a process with another lease: %+v", got)
	}
	for _, w := range workers {
		w.end()
		if got := w.last(); got.Failed > got.Good/20 {
			t.Errorf("%d calls failed, and %d did not", got.Failed, got.Good)
		}
	}
}

// Twenty processes that come and go keep a rate. A machine that is busy may delay
// some requests on their way by more than others, so there are three tries.
func TestMaxRateOfProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 20 s")
	}
	t.Parallel()
	const limit = 100
	for range 3 {
		rate, most := comeAndGo(t, limit)
		t.Logf("%.1f requests a second, at most %g in one", rate, most)
		if most <= 1.02*limit && rate >= 0.8*limit {
			return
		}
	}
	t.Errorf("more than %d, or too few", limit)
}

// comeAndGo lets twenty processes keep a limit, of which one ends and another
// begins in every second, and returns what they send.
func comeAndGo(t *testing.T, limit float64) (rate, most float64) {
	const processes, replaced = 20, 14
	store := storetest.Start(t)
	s := &service{rate: limit, burst: 1e6}
	task := task{Store: store.Addr, Service: s.serve(t), Callers: 3, MaxRate: limit}
	begun := time.Now()
	var workers []*worker
	for range processes {
		workers = append(workers, startWorker(t, task))
	}
	time.Sleep(3 * time.Second)
	for i := range replaced {
		if i%2 == 0 {
			workers[0].kill()
		} else {
			workers[0].end()
		}
		workers = append(workers[1:], startWorker(t, task))
		time.Sleep(time.Until(begun.Add(time.Duration(i+4) * time.Second)))
	}
	sent, took := s.take(), time.Since(begun)
	for _, w := range workers {
		w.kill()
	}
	return float64(len(sent)) / took.Seconds(), mostInASecond(sent)
}
