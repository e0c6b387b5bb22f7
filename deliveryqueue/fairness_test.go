package deliveryqueue

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Endpoints that hang do not hold up the others, in three processes, and go on
// when they are back. DELIVERYQUEUE_FIFTY=10m tries it for so long on each store,
// with 100,000 deliveries that wait, and compares it with a store in which none
// hangs.
func TestHangingEndpoints(t *testing.T) {
	t.Parallel()
	if text := os.Getenv("DELIVERYQUEUE_FIFTY"); text != "" {
		hang := []int{0, 1, 3, 10}
		span := must[time.Duration](t)(time.ParseDuration(text)) / time.Duration(len(hang))
		onEach(t, func(t *testing.T, store string) {
			testHanging(t, store, 100_000, hang, span, 2*time.Second)
		})
		return
	}
	testHanging(t, newSQLite(t), 1000, []int{10}, time.Second, time.Second)
}

func testHanging(t *testing.T, store string, waiting int, hang []int, span, timeout time.Duration) {
	const endpoints, processes, interval = 50, 3, 20 * time.Millisecond
	q := open(t, store, Config{})
	var alone time.Duration
	for _, n := range hang {
		var hanging, others []*endpoint
		for range n {
			end := newEndpoint(t, 1)
			enqueue(t, q, post(t, end.URL, "hello"), Options{})
			hanging = append(hanging, end)
		}
		backlog(t, q, waiting)
		for range endpoints - n {
			others = append(others, newEndpoint(t, 200))
		}
		var workers []*exec.Cmd
		for range processes {
			cmd, _ := process{Store: store, AttemptTimeout: timeout}.start(t)
			workers = append(workers, cmd)
		}
		eventually(t, "the first attempts find out which hang", func() bool {
			return scan[int](t, q, `SELECT count(*) FROM deliveryqueue_endpoint WHERE slow = `+fmt.Sprint(slowInARow)) == n
		})
		deliveries := 0
		for begin := time.Now(); time.Since(begin) < span; deliveries++ {
			to := others[deliveries%len(others)].URL
			enqueue(t, q, post(t, fmt.Sprintf("%s?%d", to, time.Now().UnixNano()), "hello"), Options{})
			time.Sleep(interval)
		}
		var late []time.Duration // from Enqueue to the request
		eventually(t, "all others are delivered", func() bool {
			late = nil
			for _, end := range others {
				for _, g := range end.requests() {
					_, sent, _ := strings.Cut(g.uri, "?")
					late = append(late, g.at.Sub(time.Unix(0, must[int64](t)(strconv.ParseInt(sent, 10, 64)))))
				}
			}
			return len(late) >= deliveries
		})
		slices.Sort(late)
		p99 := late[(len(late)-1)*99/100]
		t.Logf("%s: %d of %d hang, and %d deliveries to them wait: p99 of the others %v",
			path.Base(t.Name()), n, endpoints, waiting, p99)
		if n == 0 {
			alone = p99
		}
		// A poll more or less is not what this is about, nor a busy machine, nor
		// the race detector.
		limit := time.Second
		if alone > 0 {
			limit = max(2*alone, defaultPollInterval)
		}
		if p99 > limit && !testing.Short() {
			t.Errorf("with %d that hang, p99 is %v; it must be at most %v", n, p99, limit)
		}
		before := stats(t, q).Delivered
		for _, end := range hanging {
			end.respond(200)
		}
		if n > 0 {
			eventually(t, "they go on", func() bool { return stats(t, q).Delivered > before+min(waiting/10, 1000) })
		}
		for _, cmd := range workers {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		execute(t, q.store.db, "DELETE FROM river_job")
		execute(t, q.store.db, "DELETE FROM deliveryqueue_endpoint")
	}
}
