package deliveryqueue

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// hosts are servers, the first of which hang. They record how long after Enqueue
// the attempts at the others arrived.
type hosts struct {
	servers []*httptest.Server
	mu      sync.Mutex
	hanging int
	late    []time.Duration
}

func newHosts(t *testing.T, n int) *hosts {
	t.Helper()
	h := &hosts{}
	for i := range n {
		h.servers = append(h.servers, httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			if h.arrived(i, r) {
				<-r.Context().Done()
			}
			time.Sleep(5 * time.Millisecond)
		})))
	}
	t.Cleanup(func() {
		for _, s := range h.servers {
			s.Close()
		}
	})
	return h
}

// arrived records a request, and reports whether its server hangs.
func (h *hosts) arrived(i int, r *http.Request) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i < h.hanging {
		return true
	}
	if sent, err := strconv.ParseInt(r.URL.Query().Get("sent"), 10, 64); err == nil {
		h.late = append(h.late, time.Since(time.Unix(0, sent)))
	}
	return false
}

// hang makes the first n servers hang.
func (h *hosts) hang(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hanging, h.late = n, nil
}

// p99 returns how many attempts there were at the servers that do not hang, and
// how late they were.
func (h *hosts) p99() (attempts int, p99 time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.late) == 0 {
		return 0, 0
	}
	all := slices.Sorted(slices.Values(h.late))
	return len(all), all[(len(all)-1)*99/100]
}

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
	h := newHosts(t, endpoints)
	q := open(t, store, Config{})
	var alone time.Duration
	for _, n := range hang {
		h.hang(n)
		for i := range n {
			enqueue(t, q, post(t, h.servers[i].URL, "hello"), Options{})
		}
		backlog(t, q, waiting)
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
			to := h.servers[n+deliveries%(endpoints-n)].URL
			enqueue(t, q, post(t, fmt.Sprintf("%s?sent=%d", to, time.Now().UnixNano()), "hello"), Options{})
			time.Sleep(interval)
		}
		eventually(t, "all others are delivered", func() bool { made, _ := h.p99(); return made == deliveries })
		_, p99 := h.p99()
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
		h.hang(0)
		if before := stats(t, q).Delivered; n > 0 {
			eventually(t, "they go on", func() bool { return stats(t, q).Delivered > before+waiting/10 })
		}
		for _, cmd := range workers {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		execute(t, q.store.db, "DELETE FROM river_job")
		execute(t, q.store.db, "DELETE FROM deliveryqueue_endpoint")
	}
}
