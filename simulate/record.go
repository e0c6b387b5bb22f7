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

// A Call is the outcome of one call.
type Call struct {
	Client     int           // 0 to Clients.Count-1
	Caller     int           // 0 to Clients.Callers-1; -1: the call arrived
	Start      time.Duration // since the run's start
	Took       time.Duration // until the end of the run if the call is unfinished
	Attempts   int
	Good       bool // it succeeded
	Unfinished bool // at the end of the run
}

// A recorder counts what happens in a run. Sums do not depend on the order of
// what they count.
type recorder struct {
	end   time.Duration // from here on nothing counts
	slots []slotCounts

	perClient []clientCounts

	// Set at the run's end.
	backlog float64 // the most that the service had, in requests
	refused int64   // attempts that found the queue full

	mu         sync.Mutex
	latencies  []uint32   // of good calls, in microseconds
	unfinished []uint32   // of calls that have not ended, until the end of the run
	observe    func(Call) // may be nil
}

// slotCounts are what happened in one slot.
type slotCounts struct {
	started  atomic.Int64 // calls
	good     atomic.Int64 // calls that ended with a success
	bad      atomic.Int64 // calls that ended otherwise
	sent     atomic.Int64 // attempts
	throttle atomic.Int64 // responses that are 429
	failed   atomic.Int64 // other responses that are failures
	lost     atomic.Int64 // attempts whose caller gave up

	// Sampled at the slot's end by the run's first goroutine.
	backlog  float64 // of the service, in requests
	tokens   float64 // mean over the clients
	sendRate float64 // per second, mean over the clients that are limited
	limited  int     // clients
	members  float64 // of the fleet, mean over the clients that have a lease
	leased   int     // clients
	sampled  bool
}

type clientCounts struct{ started, good atomic.Int64 }

func newRecorder(duration time.Duration, clients int, observe func(Call)) *recorder {
	n := (duration + slot - 1) / slot
	return &recorder{
		end: duration, slots: make([]slotCounts, n), perClient: make([]clientCounts, clients), observe: observe,
	}
}

// at returns the slot of an instant, or nil after the end of the run.
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

func (r *recorder) ended(c call, t time.Duration, good bool) {
	s := r.at(t)
	switch {
	case s == nil:
		t = r.end
	case good:
		s.good.Add(1)
		r.perClient[c.client].good.Add(1)
	default:
		s.bad.Add(1)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	took := uint32(min(max(t-c.start, 0)/time.Microsecond, math.MaxUint32))
	switch {
	case s == nil:
		r.unfinished = append(r.unfinished, took)
	case good:
		r.latencies = append(r.latencies, took)
	}
	if r.observe != nil {
		r.observe(Call{
			Client: c.client, Caller: c.caller, Start: c.start, Took: t - c.start, Attempts: c.attempts,
			Good: s != nil && good, Unfinished: s == nil,
		})
	}
}

func (r *recorder) sent(t time.Duration) {
	if s := r.at(t); s != nil {
		s.sent.Add(1)
	}
}

func (r *recorder) responded(t time.Duration, status int) {
	s := r.at(t)
	switch {
	case s == nil:
	case status == http.StatusTooManyRequests:
		s.throttle.Add(1)
	case status == 0 || status >= 400:
		s.failed.Add(1)
	}
}

func (r *recorder) abandoned(t time.Duration) {
	if s := r.at(t); s != nil {
		s.lost.Add(1)
	}
}

func (r *recorder) sortLatencies() {
	slices.Sort(r.latencies)
	slices.Sort(r.unfinished)
}
