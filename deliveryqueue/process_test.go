package deliveryqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"example.com/awsretry/delivery"
)

// processEnv is the environment variable with the JSON of the process for work.
const processEnv = "DELIVERYQUEUE_TEST_PROCESS"

// A process is another process that works a store.
type process struct {
	Store          string
	Workers        int
	AttemptTimeout time.Duration
	Endpoints      []string // of deliveries that the process enqueues; nil: it enqueues none
}

// start starts the process, which ends with the test or before. Its output has
// the key of each delivery that it has accepted.
func (p process) start(t *testing.T) (*exec.Cmd, io.Reader) {
	t.Helper()
	cmd := exec.Command(must[string](t)(os.Executable()))
	cmd.Env = append(os.Environ(), processEnv+"="+string(must[[]byte](t)(json.Marshal(p))))
	cmd.Stderr = t.Output()
	must[io.WriteCloser](t)(cmd.StdinPipe())
	out := must[io.ReadCloser](t)(cmd.StdoutPipe())
	check(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, out
}

// work is what the process does.
func work(text string) error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends when the test's process does
		os.Exit(1)
	}()
	var p process
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	ctx := context.Background()
	q, err := Open(ctx, p.Store, Config{
		Workers: p.Workers, AttemptTimeout: p.AttemptTimeout, PollInterval: 20 * time.Millisecond,
		Base: loopback,
	})
	if err != nil {
		return err
	}
	if len(p.Endpoints) > 0 {
		go p.enqueue(ctx, q)
	}
	return q.Run(ctx)
}

// enqueue enqueues deliveries, and prints the keys of those that are accepted. A
// key begins with the number of the endpoint.
func (p process) enqueue(ctx context.Context, q *Queue) {
	n := 100
	policy := &delivery.Policy{HealthyRetryPolicy: &delivery.RetryPolicy{NumRetries: &n, NumNoDelayRetries: &n}}
	for ; ; time.Sleep(5 * time.Millisecond) {
		i := rand.N(len(p.Endpoints))
		key := fmt.Sprintf("%d-%d", i, rand.Uint64())
		req, err := http.NewRequest("POST", p.Endpoints[i], strings.NewReader("hello"))
		if err == nil {
			_, err = q.Enqueue(ctx, req, Options{Policy: policy, IdempotencyKey: key})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		fmt.Println(key)
	}
}
