package deliveryqueue

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
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

// backlog copies the rows in the store until there are about n.
func backlog(t testing.TB, q *Queue, n int) {
	t.Helper()
	have := stats(t, q).Waiting
	if have == 0 {
		return
	}
	numbers := `(SELECT generate_series(2, $1) AS n) AS numbers`
	if q.store.sqlite {
		numbers = `(WITH RECURSIVE c(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM c WHERE n < ?1) SELECT n FROM c) AS numbers`
	}
	execute(t, q.store.db, `INSERT INTO river_job (args, kind, max_attempts, metadata, priority, queue, scheduled_at, state)
		SELECT args, kind, max_attempts, metadata, priority, queue, scheduled_at, state FROM river_job, `+numbers, n/have)
}

// Endpoints that hang do not hold up the others, in three processes, and go on
// when they are back. DELIVERYQUEUE_FIFTY=10m tries it for so long, with 100,000
// deliveries that wait, and compares it with a store in which none hangs.
func TestHangingEndpoints(t *testing.T) {
	waiting, hang, span := 2000, []int{10}, 3*time.Second
	if text := os.Getenv("DELIVERYQUEUE_FIFTY"); text != "" {
		all, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		waiting, hang = 100_000, []int{0, 1, 3, 10}
		span = all / time.Duration(len(hang))
	}
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		const endpoints, interval = 50, 20 * time.Millisecond
		h := newHosts(t, endpoints)
		q := open(t, store, Config{})
		var alone time.Duration
		for _, n := range hang {
			h.hang(n)
			for i := range n {
				enqueue(t, q, post(t, h.servers[i].URL, "hello"), Options{})
			}
			backlog(t, q, waiting)
			var stops []func()
			for range 3 {
				stops = append(stops, workInProcess(t, quiet{
					Store: store, AttemptTimeout: 2 * time.Second, StopTimeout: 100 * time.Millisecond, CutsOff: true,
				}))
			}
			time.Sleep(3 * time.Second) // the first attempts find out which hang
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
			before := stats(t, q).Delivered
			if n > 0 {
				eventually(t, "they go on", func() bool { return stats(t, q).Delivered > before+min(waiting, 1000) })
			}
			for _, stop := range stops {
				stop()
			}
			execute(t, q.store.db, "DELETE FROM river_job")
			execute(t, q.store.db, "DELETE FROM deliveryqueue_endpoint")
		}
	})
}
