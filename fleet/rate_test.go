package fleet_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
	"example.com/awsretry/internal/httpfake"
)

// A service allows rate requests per second, with a burst.
type service struct {
	rate, burst float64

	mu     sync.Mutex
	tokens float64
	at     time.Time
	sent   []sending
}

// A sending is a request that reached a service.
type sending struct {
	at       time.Time
	accepted bool
}

func (s *service) RoundTrip(req *http.Request) (*http.Response, error) {
	time.Sleep(delay)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.at.IsZero() {
		s.tokens = s.burst
	}
	s.tokens = min(s.tokens+min(now.Sub(s.at).Seconds(), 60)*s.rate, s.burst)
	s.at = now
	status := http.StatusTooManyRequests
	if s.tokens >= 1 {
		s.tokens--
		status = http.StatusOK
	}
	s.sent = append(s.sent, sending{now, status == http.StatusOK})
	return httpfake.Empty(status, req), nil
}

func (s *service) setRate(rate float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rate = rate
}

// A process is a Transport of a fleet, with callers that call without a pause.
type process struct {
	transport *awsretry.Transport
	shared    *fleet.Fleet
	link      *link
	good      atomic.Int64
	failed    atomic.Int64 // calls
	failures  atomic.Int64 // what OnError was called with
	stop      context.CancelFunc
	callers   sync.WaitGroup
}

// startProcess starts a process in adaptive mode, with several callers, or else
// with two calls per second.
func startProcess(
	t testing.TB, store fleet.Client, base http.RoundTripper, pacing awsretry.Pacing, maxRate float64, callers int,
) *process {
	t.Helper()
	p := &process{link: &link{Client: store}}
	p.shared = newFleet(t, p.link, fleet.Config{
		MaxRate: maxRate, OnError: func(string, error) { p.failures.Add(1) },
	})
	p.transport = &awsretry.Transport{
		Base: base, Mode: awsretry.Adaptive, Shared: p.shared, RateLimit: awsretry.RateLimitConfig{Pacing: pacing},
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	for range max(callers, 1) {
		p.callers.Go(func() {
			for ctx.Err() == nil {
				if callers == 0 {
					time.Sleep(time.Duration(rand.ExpFloat64() / 2 * float64(time.Second)))
				}
				if code, _ := status(ctx, p.transport, host); code == http.StatusOK {
					p.good.Add(1)
				} else if ctx.Err() == nil {
					p.failed.Add(1)
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	return p
}

// leave stops the callers, then ends the lease.
func (p *process) leave() {
	p.stop()
	p.callers.Wait()
	p.shared.Close()
}

// A run is a fleet of processes on a service, in virtual time.
type run struct {
	*testing.T
	pacing    awsretry.Pacing
	store     *fleettest.Store
	maxRate   float64
	service   *service
	processes []*process
	all       []*process // with those that ended
	meanwhile func()     // is called during each phase; may be nil
}

// join starts processes until there are n.
func (r *run) join(n, callers int) {
	for len(r.processes) < n {
		p := startProcess(r, r.store, r.service, r.pacing, r.maxRate, callers)
		r.processes, r.all = append(r.processes, p), append(r.all, p)
	}
}

// end stops processes until there are n.
func (r *run) end(n int) {
	for _, p := range r.processes[n:] {
		p.leave()
	}
	r.processes = r.processes[:n]
}

// A figures is the result of a phase of a run, or bounds for it.
type figures struct {
	goodput   float64 // of the limit; at least
	throttled float64 // of what was sent; at most
	most      float64 // that was sent in any second, of the limit
	fairness  float64 // Jain's index: 1 if all have the same, 1/n if one has everything; at least
	failed    float64 // calls, of all; at most, and 0 means any
}

// phase lets time pass, and checks what happens meanwhile.
func (r *run) phase(name string, seconds int, want figures) {
	r.Helper()
	r.service.mu.Lock()
	r.service.sent = nil
	r.service.mu.Unlock()
	before, evals := make(map[*process]int64), r.store.Evals()
	good, failed := r.calls()
	for _, p := range r.processes {
		before[p] = p.good.Load()
	}
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	if r.meanwhile != nil {
		r.meanwhile()
	}
	time.Sleep(time.Until(end))
	r.service.mu.Lock()
	sent := r.service.sent
	r.service.mu.Unlock()
	got, accepted := figures{most: mostInASecond(sent) / r.service.rate}, 0.0
	for _, s := range sent {
		if s.accepted {
			accepted++
		}
	}
	got.goodput = accepted / r.service.rate / float64(seconds)
	got.throttled = 1 - accepted/float64(len(sent))
	var sum, squares float64
	for p, n := range before {
		n := float64(p.good.Load() - n)
		sum += n
		squares += n * n
	}
	moreGood, moreFailed := r.calls()
	got.failed = float64(moreFailed-failed) / float64(moreGood-good+moreFailed-failed)
	got.fairness = sum * sum / (float64(len(before)) * squares)
	renewals := float64(r.store.Evals()-evals) / float64(len(before)*seconds)
	r.Logf("%s: %+.3v, %.1f renewals a second and process", name, got, renewals)
	if got.goodput < want.goodput || got.throttled > want.throttled ||
		got.most > want.most || got.fairness < want.fairness || want.failed > 0 && got.failed > want.failed {
		r.Errorf("%s: %+.3v, want %+v", name, got, want)
	}
	if renewals > 10 {
		r.Errorf("%s: a process renews %.1f times a second, want at most 10", name, renewals)
	}
	for _, p := range r.processes {
		if s := stateOf(p.transport); s.Fleet.Leased && (s.Fleet.Members < len(r.processes)-2 || s.Fleet.Members > len(r.processes)) {
			r.Errorf("%s: a process knows of %d members, want about %d", name, s.Fleet.Members, len(r.processes))
		}
	}
}

// calls returns how many calls of all processes succeeded and failed so far.
func (r *run) calls() (good, failed int64) {
	for _, p := range r.all {
		good += p.good.Load()
		failed += p.failed.Load()
	}
	return good, failed
}

// mostInASecond returns how many requests arrived in the busiest second.
func mostInASecond(sent []sending) (most float64) {
	first := 0
	for i, s := range sent {
		for s.at.Sub(sent[first].at) >= time.Second {
			first++
		}
		most = max(most, float64(i-first+1))
	}
	return most
}

func (r *run) leased() (n int) {
	for _, p := range r.processes {
		if stateOf(p.transport).Fleet.Leased {
			n++
		}
	}
	return n
}

// fault returns a run with a fault of the store. A lease and a second after the
// fault, all processes have a lease again.
func fault(keepsLeases bool, begin, end func(*fleettest.Store)) func(*run) {
	return func(r *run) {
		r.join(count, 4)
		time.Sleep(30 * time.Second)
		begin(r.store)
		r.phase("during the fault", 10, figures{0.7, 0.1, 1.6, 0, 0})
		if n := r.leased(); (n == count) != keepsLeases || !keepsLeases && n > 0 {
			r.Errorf("%d processes of %d have a lease during the fault", n, count)
		}
		end(r.store)
		time.Sleep(1400 * time.Millisecond)
		if n := r.leased(); n != count {
			r.Errorf("a lease and a second after the fault %d processes of %d have a lease", n, count)
		}
		for _, p := range r.processes {
			if n := p.failures.Load(); n > 1 || n == 0 && !keepsLeases {
				r.Errorf("OnError was called %d times by one process in one fault", n)
			}
		}
		r.phase("after it", 9, figures{0.7, 0.12, 1.7, 0.9, 0})
	}
}

func TestRate(t *testing.T) {
	const few = 5
	errGone := errors.New("the store is gone")
	steady := func(r *run) {
		r.join(count, 4)
		r.phase("the first ten seconds", 10, figures{0.4, 0.3, 3, 0.9, 0.12})
		time.Sleep(5 * time.Second)
		r.phase("steady", 20, figures{0.92, 0.04, 1.4, 0.95, 0})
	}
	deploy := func(r *run) {
		r.join(count, 4)
		time.Sleep(30 * time.Second)
		end := time.Now().Add(time.Duration(2*count) * time.Second)
		r.meanwhile = func() {
			for ; time.Until(end) > 2*time.Second; time.Sleep(2 * time.Second) {
				i := max(slices.IndexFunc(r.processes, func(p *process) bool { return p.link.leads.Load() }), 0)
				r.processes[i].leave()
				r.processes = slices.Delete(r.processes, i, i+1)
				r.join(count, 4)
			}
		}
		throttled := 0.08
		if r.pacing == awsretry.CubicPacing {
			throttled = 0.12 // .05 to .09
		}
		r.phase("in a deploy", 2*count, figures{0.9, throttled, 1.6, 0, 0})
	}
	for name, test := range map[string]struct {
		cubic bool // the pacing; else it is scaled
		run   func(r *run)
	}{
		"cubic":  {cubic: true, run: steady},
		"scaled": {run: steady},
		"join and leave": {run: func(r *run) {
			bounds := figures{0.8, 0.12, 1.7, 0.95, 0}
			r.join(few, 4)
			time.Sleep(15 * time.Second)
			r.phase("few", 15, bounds)
			r.join(few+count, 4)
			time.Sleep(2 * time.Second)
			r.phase("all", 18, bounds)
			r.end(few)
			time.Sleep(3 * time.Second)
			r.phase("few again", 17, bounds)
		}},
		"the limit changes": {run: func(r *run) {
			r.join(count, 4)
			time.Sleep(10 * time.Second)
			r.service.setRate(20)
			r.phase("a drop", 5, figures{0.6, 0.6, 5.5, 0, 0})
			r.phase("a fifth", 10, figures{0.4, 0.1, 2, 0.9, 0}) // usually .99
			r.service.setRate(200)
			r.phase("ten times that", 10, figures{0.05, 0.2, 1.6, 0, 0})
			time.Sleep(20 * time.Second)
			r.phase("later", 10, figures{0.75, 0.1, 1.4, 0.9, 0})
		}},

		"the store refuses": {run: fault(false,
			func(s *fleettest.Store) { s.Refuse(errGone) }, func(s *fleettest.Store) { s.Refuse(nil) })},
		"replies are lost": {run: fault(false,
			func(s *fleettest.Store) { s.LoseReplies(errGone) }, func(s *fleettest.Store) { s.LoseReplies(nil) })},
		"the store loses its keys": {run: fault(true, (*fleettest.Store).Flush, func(*fleettest.Store) {})},
		"the store is back at an older copy": {run: func(r *run) {
			r.join(1, 20) // which leads again
			time.Sleep(30 * time.Second)
			restore := r.store.Copy()
			time.Sleep(2 * time.Minute)
			restore()
			r.service.setRate(30)
			time.Sleep(10 * time.Second)
			r.phase("after it, at a lower limit", 20, figures{0.6, 0.08, 1.8, 0, 0}) // usually 1
		}},

		// Every two seconds another process leads.
		"cubic, a deploy": {cubic: true, run: deploy},
		"a deploy":        {run: deploy},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &run{
					T: t, pacing: awsretry.ScaledPacing, service: &service{rate: 100, burst: 20},
					store: &fleettest.Store{Latency: time.Millisecond},
				}
				if test.cubic {
					r.pacing = awsretry.CubicPacing
				}
				test.run(r)
				r.end(0)
			})
		})
	}
}
