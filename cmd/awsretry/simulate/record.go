package simulate

import (
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// slot is the width of the counts over time.
const slot = time.Second

// A recorder counts what happens in a run. Counts are sums, so that the order of what they count does not matter.
type recorder struct {
	end   time.Duration // from here on nothing counts
	slots []slotCounts

	perClient []clientCounts

	mu        sync.Mutex
	latencies []uint32 // of good calls, in microseconds
}

// slotCounts are what happened in one slot.
type slotCounts struct {
	started  atomic.Int64 // calls
	good     atomic.Int64 // calls that ended with a success
	bad      atomic.Int64 // calls that ended otherwise
	sent     atomic.Int64 // attempts
	throttle atomic.Int64 // answers that are 429
	failed   atomic.Int64 // other answers that are failures
	lost     atomic.Int64 // attempts whose caller stopped waiting
	succeed  atomic.Int64 // answers that are successes

	// Sampled at the slot's end by the run's first goroutine alone.
	tokens   float64 // mean over the clients
	sendRate float64 // mean over the clients that are limited, a second
	limited  int     // clients
	sampled  bool
}

type clientCounts struct{ started, good atomic.Int64 }

func newRecorder(duration time.Duration, clients int) *recorder {
	n := (duration + slot - 1) / slot
	return &recorder{end: duration, slots: make([]slotCounts, n), perClient: make([]clientCounts, clients)}
}

// at returns the slot of an instant, nil once the run is over.
func (r *recorder) at(t time.Duration) *slotCounts {
	if t >= r.end {
		return nil
	}
	return &r.slots[t/slot]
}

func (r *recorder) started(t time.Duration, client int) {
	if s := r.at(t); s != nil {
		s.started.Add(1)
		r.perClient[client].started.Add(1)
	}
}

func (r *recorder) ended(started, t time.Duration, client int, good bool) {
	s := r.at(t)
	switch {
	case s == nil:
	case good:
		s.good.Add(1)
		r.perClient[client].good.Add(1)
		took := min((t-started)/time.Microsecond, math.MaxUint32)
		r.mu.Lock()
		r.latencies = append(r.latencies, uint32(took))
		r.mu.Unlock()
	default:
		s.bad.Add(1)
	}
}

func (r *recorder) sent(t time.Duration) {
	if s := r.at(t); s != nil {
		s.sent.Add(1)
	}
}

func (r *recorder) answered(t time.Duration, status int) {
	s := r.at(t)
	switch {
	case s == nil:
	case status == http.StatusTooManyRequests:
		s.throttle.Add(1)
	case status == 0 || status >= 400:
		s.failed.Add(1)
	default:
		s.succeed.Add(1)
	}
}

func (r *recorder) abandoned(t time.Duration) {
	if s := r.at(t); s != nil {
		s.lost.Add(1)
	}
}

// percentile returns the least latency of a good call that at least the share p of them does not pass, 0 where there is none. The
// latencies must be sorted.
func percentile(sorted []uint32, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p*float64(len(sorted)))) - 1
	return time.Duration(sorted[min(max(rank, 0), len(sorted)-1)]) * time.Microsecond
}

func (r *recorder) sortLatencies() { slices.Sort(r.latencies) }
