package main

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A storm is an outage of a service that callers call at a rate which does not depend on its answers, as where each call is made for
// a user of theirs.
type storm struct {
	name             string
	clients, callers int           // callers of each client
	rate             float64       // calls per second of each caller
	before           time.Duration // the outage
	outage, after    time.Duration
	tail             time.Duration // for which the calls go on unmeasured: what fails for good must not succeed because they end
	hangs            bool          // in the outage it does not answer; otherwise it answers 503 at once
	headroom         float64       // what the service serves in a second, as a multiple of the calls
}

const (
	gives      = time.Second     // how long a caller's connection waits for an answer
	queued     = 2 * time.Second // worth of work waits at a service that hangs, no more
	recoverFor = 5               // seconds in a row that have to be good
	good       = 0.99            // of the calls
)

// stormy is what an outage did.
type stormy struct {
	during, peak, after       float64       // attempts for each call: in the outage, in the worst second from then on, after the outage
	recovered                 int           // seconds after the outage, from which on calls succeed again; -1: not
	failedDuring, failedAfter float64       // of the calls begun then
	failed                    int           // calls in all
	p50, p99                  time.Duration // of a call begun in the outage, until its success or the end of the last attempt
}

func (s storm) down() window       { return window{s.before, s.before + s.outage} }
func (s storm) end() time.Duration { return s.before + s.outage + s.after }
func (s storm) calls() float64     { return float64(s.clients*s.callers) * s.rate } // per second

func (s storm) service(c clock) http.RoundTripper {
	rate := s.headroom * s.calls()
	if s.hangs {
		return &hanger{clock: c, outage: s.down(), rate: rate, queue: rate * queued.Seconds(), gives: gives}
	}
	return &refuser{newThrottler(c, schedule{{0, rate}}, 0), s.down()}
}

// A meter counts the attempts that reach the service in each second.
type meter struct {
	clock
	http.RoundTripper

	mu     sync.Mutex // guards counts
	counts []float64
}

func (m *meter) RoundTrip(req *http.Request) (*http.Response, error) {
	second := int(m.now() / time.Second)
	m.mu.Lock()
	if second < len(m.counts) {
		m.counts[second]++
	}
	m.mu.Unlock()
	return m.RoundTripper.RoundTrip(req)
}

// A called is one call of a storm.
type called struct {
	begin, took time.Duration
	ok          bool
}

func (s storm) run(newClient func(http.RoundTripper) call, _ clocking) stormy {
	c := startClock()
	load := &meter{clock: c, RoundTripper: s.service(c), counts: make([]float64, int(s.end()/time.Second))}
	var wg sync.WaitGroup
	var mu sync.Mutex // guards calls
	var calls []called
	for i := range s.clients {
		client := newClient(load)
		for j := range s.callers {
			random := rand.New(rand.NewPCG(uint64(i), uint64(j))) // so that all libraries have the same calls to make
			wg.Go(func() {
				for begin := s.next(0, random); begin < s.end()+s.tail; begin = s.next(begin, random) {
					time.Sleep(begin - c.now())
					wg.Go(func() {
						ok := client()
						took := c.now() - begin
						if begin < s.end() {
							mu.Lock()
							calls = append(calls, called{begin, took, ok})
							mu.Unlock()
						}
					})
				}
			})
		}
	}
	wg.Wait()
	return s.figures(load.counts, calls)
}

func (s storm) next(last time.Duration, random *rand.Rand) time.Duration {
	return last + time.Duration(random.ExpFloat64()/s.rate*float64(time.Second))
}

func (s storm) figures(attempts []float64, calls []called) stormy {
	from, to := int(s.down().from/time.Second), int(s.down().to/time.Second)
	began, succeeded := make([]float64, len(attempts)), make([]float64, len(attempts))
	var waited []time.Duration
	for _, call := range calls {
		second := int(call.begin / time.Second)
		began[second]++
		if call.ok {
			succeeded[second]++
		}
		if s.down().contains(call.begin) {
			waited = append(waited, call.took)
		}
	}
	slices.Sort(waited)
	return stormy{
		during:       total(attempts[from:to]) / total(began[from:to]),
		peak:         slices.Max(attempts[from:]) / s.calls(),
		after:        total(attempts[to:]) / total(began[to:]),
		recovered:    recovered(began[to:], succeeded[to:]),
		failedDuring: 1 - total(succeeded[from:to])/total(began[from:to]),
		failedAfter:  1 - total(succeeded[to:])/total(began[to:]),
		failed:       int(total(began) - total(succeeded)),
		p50:          quantile(waited, 0.50),
		p99:          quantile(waited, 0.99),
	}
}

// recovered returns the first second from which on enough calls succeed, for some seconds in a row; -1 where there is none.
func recovered(began, succeeded []float64) int {
	row := 0
	for second, n := range began {
		if succeeded[second] < good*n {
			row = 0
			continue
		}
		if row++; row == recoverFor {
			return second + 1 - recoverFor
		}
	}
	return -1
}
