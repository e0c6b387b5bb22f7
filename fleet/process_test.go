package fleet_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/internal/storetest"
	"github.com/valkey-io/valkey-go"
)

// A task is what a process of the operating system does, see act. The process gets
// it as JSON in its environment.
type task struct {
	Store, Service string
	MasterSet      string // if Store is a sentinel
	MaxRate        float64
}

const taskVariable = "FLEET_TEST_TASK"

func TestMain(m *testing.M) {
	if text := os.Getenv(taskVariable); text != "" {
		act(text)
		return
	}
	os.Exit(m.Run())
}

// act calls a service until its standard input ends, for 20 minutes at most. The
// process fails if a call does.
func act(text string) {
	var task task
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		panic(err)
	}
	store := fleet.Dial(valkey.ClientOption{
		InitAddress: []string{task.Store}, ForceSingleClient: task.MasterSet == "", Sentinel: valkey.SentinelOption{MasterSet: task.MasterSet},
	})
	defer store.Close()
	shared, err := fleet.New(store, fleet.Config{Prefix: prefix, MaxRate: task.MaxRate})
	if err != nil {
		panic(err)
	}
	defer shared.Close()
	tr := &awsretry.Transport{
		Base: stamper{}, Mode: awsretry.Adaptive, Shared: shared, RateLimit: awsretry.RateLimitConfig{Pacing: awsretry.ScaledPacing},
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var callers sync.WaitGroup
	var failed atomic.Int64
	for range 3 {
		callers.Go(func() {
			for ctx.Err() == nil {
				if err := call(ctx, tr, task.Service); err != nil && ctx.Err() == nil {
					failed.Add(1)
				}
			}
		})
	}
	callers.Wait()
	if n := failed.Load(); n > 0 {
		panic(fmt.Sprintf("%d calls failed", n))
	}
}

// A worker is a process of the operating system that a test started.
type worker struct {
	*exec.Cmd
	in io.Closer
}

// startWorker starts a process that ends with the test.
func startWorker(t *testing.T, task task) *worker {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), taskVariable+"="+text(task)[0]), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &worker{cmd, in}
	t.Cleanup(w.kill)
	return w
}

func (w *worker) kill() {
	_ = w.Process.Kill()
	_ = w.Wait() // it was killed, or has ended before
}

// end ends the worker as a deploy does.
func (w *worker) end() error {
	w.in.Close()
	return w.Wait()
}

// Twenty processes that come and go keep a rate. A machine that is busy may delay
// some requests on their way by more than others, so there are three tries.
func TestMaxRateOfProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 10 s")
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

// comeAndGo runs twenty processes that keep a limit, and returns what they send. In
// every second one of them ends and another begins.
func comeAndGo(t *testing.T, limit float64) (rate, most float64) {
	const processes, replaced = 20, 6
	const warmUp = 3 * time.Second // until all have begun, also on a busy machine
	s := &service{rate: limit, burst: 1e6}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resp, _ := s.RoundTrip(r) // which never fails
		w.WriteHeader(resp.StatusCode)
	}))
	defer server.Close()
	task := task{Store: storetest.Start(t).Addr, Service: server.Listener.Addr().String(), MaxRate: limit}
	begun := time.Now()
	var workers []*worker
	for range processes {
		workers = append(workers, startWorker(t, task))
	}
	time.Sleep(warmUp)
	for i := range replaced {
		if i%2 == 0 {
			workers[0].kill()
		} else {
			_ = workers[0].end() // a busy machine may fail a call
		}
		workers = append(workers[1:], startWorker(t, task))
		time.Sleep(time.Until(begun.Add(time.Duration(i+4) * time.Second)))
	}
	s.mu.Lock()
	sent := s.sent
	s.mu.Unlock()
	for _, w := range workers {
		w.kill()
	}
	for _, one := range sent {
		if one.at.Sub(begun) >= warmUp {
			rate += 1. / replaced
		}
	}
	return rate, mostInASecond(sent)
}
