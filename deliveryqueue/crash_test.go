package deliveryqueue

import (
	"bufio"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// crashing is how many processes TestCrash has at the same time.
const crashing = 3

// No delivery is lost when processes that enqueue and work are killed, and at most
// the attempts in progress are delivered twice. DELIVERYQUEUE_KILLS=1000 kills that
// many processes on each store, which takes some minutes.
func TestCrash(t *testing.T) {
	t.Parallel()
	kills := crashing
	if text := os.Getenv("DELIVERYQUEUE_KILLS"); text != "" {
		kills = must[int](t)(strconv.Atoi(text))
	}
	onEach(t, func(t *testing.T, store string) {
		// The first requests fail, and are made again.
		failures := slices.Repeat([]int{503}, 10)
		good, bad := newEndpoint(t, append(failures, 200)...), newEndpoint(t, 400)
		const workers = 2
		q := open(t, store, Config{Workers: workers, AttemptTimeout: time.Second})
		accepted := make(map[string]bool)
		p := process{Store: store, Workers: workers, AttemptTimeout: time.Second, Endpoints: []string{good.URL, bad.URL}}
		for range kills / crashing {
			for _, key := range workAndKill(t, p) {
				accepted[key] = true
			}
			// As if the processes had died long ago.
			execute(t, q.store.db, `UPDATE river_job SET attempted_at = `+q.store.after(`-3600`)+` WHERE state = 'running'`)
		}
		stop := start(t, q)
		eventually(t, "all have ended", func() bool { return stats(t, q).open() == 0 })
		stop()

		delivered, stored := make(map[string]int), make(map[string]bool)
		for i, g := range good.requests() {
			if i >= len(failures) {
				delivered[g.header.Get("Idempotency-Key")]++
			}
		}
		for _, d := range list(t, q, Filter{}) {
			if stored[d.IdempotencyKey] {
				t.Errorf("%s is there twice", d.IdempotencyKey)
			}
			stored[d.IdempotencyKey] = true
			want := Delivered
			if strings.HasPrefix(d.IdempotencyKey, "1-") {
				want = Dead
			}
			if times := delivered[d.IdempotencyKey]; d.State != want || (times > 0) != (want == Delivered) {
				t.Errorf("%s was delivered %d times: %+v", d.IdempotencyKey, times, d)
			}
		}
		for key := range accepted {
			if !stored[key] {
				t.Errorf("%s was accepted and is lost", key)
			}
		}
		if len(stored) == 0 || len(stored) > len(accepted)+kills {
			t.Errorf("%d are stored, and %d were accepted in %d processes", len(stored), len(accepted), kills)
		}
		twice := 0
		for _, times := range delivered {
			twice += times - 1
		}
		if twice > kills*workers {
			t.Errorf("%d deliveries too many after %d kills of %d workers", twice, kills, workers)
		}
	})
}

// workAndKill kills some processes in the middle of their work, and returns the
// keys of the deliveries that they accepted.
func workAndKill(t *testing.T, p process) (accepted []string) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	for range crashing {
		cmd, out := p.start(t)
		all.Go(func() {
			lines, works := bufio.NewScanner(out), false
			for lines.Scan() {
				if !works {
					time.AfterFunc(rand.N(150*time.Millisecond), func() { cmd.Process.Kill() })
				}
				works = true
				mu.Lock()
				accepted = append(accepted, lines.Text())
				mu.Unlock()
			}
			if !works {
				t.Error("the process has accepted nothing")
			}
			cmd.Wait()
		})
	}
	all.Wait()
	return accepted
}
