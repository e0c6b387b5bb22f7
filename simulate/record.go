package simulate

import (
	"math"
	"sync"
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
	end     time.Duration // from here on nothing counts
	observe func(Call)    // may be nil

	mu         sync.Mutex // guards the fields below
	series     Series     // to the end of the drain
	perClient  []clientCounts
	latencies  []uint32 // of good calls, in microseconds
	unfinished []uint32 // of calls that have not ended, until the end of the run

	// Set at the run's end.
	backlog float64 // the most that the service had, in requests
	refused int64   // attempts that found the queue full
}

type clientCounts struct{ started, good int64 }

func newRecorder(duration time.Duration, clients int, observe func(Call)) *recorder {
	r := &recorder{end: duration, perClient: make([]clientCounts, clients), observe: observe}
	for _, curve := range r.series.curves() {
		*curve = make([]float64, (duration+slot-1)/slot)
	}
	return r
}

// count adds 1 to a curve at t. It reports false after the end of the run.
func (r *recorder) count(curve []float64, t time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t >= r.end {
		return false
	}
	curve[t/slot]++
	return true
}

func (r *recorder) started(t time.Duration, client int) {
	if r.count(r.series.Started, t) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.perClient[client].started++
	}
}

func (r *recorder) ended(c call, t time.Duration, good bool) {
	curve := r.series.Bad
	if good {
		curve = r.series.Good
	}
	inTime := r.count(curve, t)
	t = min(t, r.end)
	r.mu.Lock()
	defer r.mu.Unlock()
	took := uint32(min(max(t-c.start, 0)/time.Microsecond, math.MaxUint32))
	switch {
	case !inTime:
		r.unfinished = append(r.unfinished, took)
	case good:
		r.latencies = append(r.latencies, took)
		r.perClient[c.client].good++
	}
	if r.observe != nil {
		r.observe(Call{
			Client: c.client, Caller: c.caller, Start: c.start, Took: t - c.start, Attempts: c.attempts,
			Good: inTime && good, Unfinished: !inTime,
		})
	}
}
