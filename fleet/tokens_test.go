package fleet_test

import (
	"errors"
	"fmt"
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
)

const (
	capacity = 500 // of retry tokens
	cost     = 5   // of a retry
	float    = 10  // what a process keeps for its next retries
)

// A pool is a number of processes that share a bucket of retry tokens, in virtual
// time.
type pool struct {
	*testing.T
	store     *fleettest.Store
	increment int // for a success; 0 means 1
	share     float64
	base      *responder
	processes []*process
	ended     []*process
}

// inPool tests a pool of n processes, whose service responds with a status.
func inPool(t *testing.T, n, status, increment int, test func(p *pool)) {
	synctest.Test(t, func(t *testing.T) {
		p := &pool{
			T: t, store: &fleettest.Store{Latency: time.Millisecond}, base: respond(status, 0), increment: increment,
		}
		for range n {
			p.start()
		}
		test(p)
		for _, one := range append(p.processes, p.ended...) {
			one.shared.Close()
		}
	})
}

// start starts a process that has a lease.
func (p *pool) start() *process {
	p.Helper()
	one := &process{link: &link{Client: p.store}}
	one.shared = newFleet(p, one.link, fleet.Config{})
	one.transport = &awsretry.Transport{
		Base: p.base, Shared: one.shared, Quota: awsretry.QuotaConfig{SuccessIncrement: p.increment, Share: p.share}, Backoff: atOnce,
	}
	status := p.base.status.Swap(http.StatusNotFound) // neither a success nor retried
	send(p, one.transport)
	p.base.status.Store(status)
	time.Sleep(time.Second)
	if s := stateOf(one.transport); !s.Fleet.Leased || s.Tokens > 2*float {
		p.Fatalf("a process that joined a second ago has the state %+v", s)
	}
	p.processes = append(p.processes, one)
	return one
}

// remove forgets a process.
func (p *pool) remove(one *process) {
	p.processes = slices.DeleteFunc(p.processes, func(other *process) bool { return other == one })
	p.ended = append(p.ended, one)
}

func (p *pool) stored() int {
	n, _ := p.store.Tokens(key)
	return int(n)
}

// sum returns the total number of retry tokens.
func (p *pool) sum() int {
	n := p.stored()
	for _, one := range p.processes {
		n += stateOf(one.transport).Tokens
	}
	return n
}

// calls makes calls by a process, with pauses, and returns how many retries
// there were.
func (p *pool) calls(one *process, n int, pause time.Duration) (retries int) {
	before := int(p.base.attempts.Load())
	for range n {
		send(p, one.transport)
		time.Sleep(pause)
	}
	return int(p.base.attempts.Load()) - before - n
}

// Whatever processes do, and whatever happens to the store and the way to it,
// there are never more retry tokens than the bucket of all processes may have.
// Without successes, and while the store keeps what it has, they never become
// more.
func TestTokensAreNotMinted(t *testing.T) {
	for name, test := range map[string]struct {
		increment int
		restarts  bool
	}{
		"no successes":        {-1, false},
		"successes, restarts": {1, true},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(2) {
				inPool(t, 1, http.StatusServiceUnavailable, test.increment, func(p *pool) {
					random, before := rand.New(rand.NewPCG(seed, 0)), p.sum()
					for range 120 {
						p.step(random, test.restarts)
						settled := random.IntN(5) == 0
						if settled { // and all have renewed
							for _, one := range p.processes {
								one.link.mode.Store(works)
							}
							time.Sleep(5 * time.Second)
						}
						now := p.sum()
						if !test.restarts && now > before {
							p.Fatalf("%d retry tokens, %d before", now, before)
						}
						if settled && now > capacity {
							p.Fatalf("%d retry tokens of %d", now, capacity)
						}
						before = now
					}
				})
			}
		})
	}
}

// step makes one random event happen.
func (p *pool) step(random *rand.Rand, restarts bool) {
	one := p.processes[random.IntN(len(p.processes))]
	switch what := random.IntN(10); {
	case what == 0 && len(p.processes) < 12:
		p.start()
	case what == 1 && len(p.processes) > 1: // it leaves
		one.shared.Close()
		p.remove(one)
	case what == 2 && len(p.processes) > 1: // it dies
		one.link.mode.Store(refuses)
		p.remove(one)
	case what == 3 && restarts:
		p.store.Flush()
	case what < 7: // its way to the store fails, or works again
		one.link.mode.Store(random.Int64N(losesEvery + 1))
	default:
		if p.increment > 0 && random.IntN(2) == 0 {
			p.base.status.Store(http.StatusOK)
		}
		p.calls(one, 30, 20*time.Millisecond)
		p.base.status.Store(http.StatusServiceUnavailable)
	}
	time.Sleep(500 * time.Millisecond)
}

// A fault of the store, or of the way to it, removes and adds few tokens: those of
// one renewal of each process at most.
func TestTokensAfterAFault(t *testing.T) {
	const mostInARenewal = 5 * float // for a retry, and four that were refused
	for name, test := range map[string]struct {
		processes int
		status    int
		fault     func(p *pool, meanwhile func(calls int))
		lost      int // at most, without what was spent
		more      int // at most
	}{
		"the store refuses": {12, http.StatusNotFound, func(p *pool, meanwhile func(calls int)) {
			p.store.Refuse(errors.New("refused"))
			meanwhile(50)
			p.store.Refuse(nil)
		}, 0, 0},
		"one process is refused": {1, http.StatusServiceUnavailable, func(p *pool, meanwhile func(calls int)) {
			p.processes[0].link.mode.Store(refuses)
			meanwhile(50)
			p.processes[0].link.mode.Store(works)
		}, mostInARenewal, 0},
		"replies are lost": {1, http.StatusServiceUnavailable, func(p *pool, meanwhile func(calls int)) {
			p.processes[0].link.mode.Store(loses)
			meanwhile(50)
			p.processes[0].link.mode.Store(works)
		}, mostInARenewal, 0},
		"the store comes back empty": {6, http.StatusServiceUnavailable, func(p *pool, meanwhile func(calls int)) {
			meanwhile(2)
			p.store.Refuse(errors.New("restarting"))
			time.Sleep(time.Second)
			p.store.Flush()
			p.store.Refuse(nil)
		}, capacity, 6 * float},
		"it comes back with an older copy": {6, http.StatusServiceUnavailable, func(p *pool, meanwhile func(calls int)) {
			restore := p.store.Copy()
			meanwhile(5)
			time.Sleep(time.Second)
			restore()
		}, capacity, 6 * float},
	} {
		t.Run(name, func(t *testing.T) {
			inPool(t, test.processes, test.status, -1, func(p *pool) {
				time.Sleep(20 * time.Second)
				before, retries := p.sum(), 0
				test.fault(p, func(calls int) {
					for range calls {
						for _, one := range p.processes {
							retries += p.calls(one, 1, 100*time.Millisecond)
						}
					}
				})
				p.base.status.Store(http.StatusNotFound)
				time.Sleep(time.Second)
				for _, one := range p.processes {
					if s := stateOf(one.transport); s.Tokens < float && p.stored() > float {
						p.Errorf("a second later a process has the state %+v", s)
					}
				}
				time.Sleep(20 * time.Second)
				spent := retries * cost
				if after := p.sum(); after > before-spent+test.more || after < before-spent-test.lost {
					p.Errorf("%d tokens before, %d were spent, %d after", before, spent, after)
				}
			})
		})
	}
}

// Close leaves a Transport the retry tokens of one retry, and returns the others.
func TestTokensAfterClose(t *testing.T) {
	inPool(t, 1, http.StatusOK, 0, func(p *pool) {
		one := p.processes[0]
		p.calls(one, 5, 0)
		time.Sleep(time.Second)
		if stored, known := p.stored(), stateOf(one.transport).Fleet.Tokens; known != stored {
			t.Errorf("the process knows of %d retry tokens in the store, which has %d", known, stored)
		}
		one.shared.Close()
		if has, stored := stateOf(one.transport).Tokens, p.stored(); has != float || stored != capacity-float {
			t.Errorf("after Close the process has %d retry tokens and the store %d, want 10 and 490", has, stored)
		}
	})
}

// Made-up names of partitions gain no retries: a partition that replaces another one
// in the table begins with what was left in the other one's fleet.
func TestTokensOfMadeUpPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newFleet(t, &fleettest.Store{Latency: time.Millisecond}, fleet.Config{})
		defer shared.Close()
		base := respond(http.StatusServiceUnavailable, 0)
		tr := &awsretry.Transport{Base: base, Shared: shared, MaxPartitions: 1, Backoff: atOnce}
		const requests = 500
		for i := range requests {
			send(t, tr, fmt.Sprintf("host%d.test", i/10))
			time.Sleep(50 * time.Millisecond)
		}
		if retries := base.attempts.Load() - requests; retries > 130 {
			t.Errorf("%d made-up partitions brought %d retries; a bucket pays for 100", requests/10, retries)
		}
	})
}

// With a Share, the bucket follows the calls of all processes, from the retries of
// one call to a bucket for each process.
func TestShareOfTheCalls(t *testing.T) {
	const processes, perCall = 5, 20
	inPool(t, 0, http.StatusOK, 1000, func(p *pool) {
		p.share = 0.2
		for range processes {
			p.start()
		}
		most := func(what string, least, most int) {
			t.Helper()
			if n := p.sum(); n < least || n > most {
				t.Errorf("%s: %d retry tokens, want %d to %d", what, n, least, most)
			}
		}
		most("at first", 1, perCall+processes*perCall)
		call := func(n int, pause time.Duration) {
			for range n {
				for _, one := range p.processes {
					p.calls(one, 1, pause)
				}
			}
			time.Sleep(5 * time.Second) // and all have renewed
		}
		call(40, 20*time.Millisecond)
		most("after 200 calls", 600, 200*perCall/5+processes*2*float)
		call(600, 2*time.Millisecond)
		most("after 3,000 more", 1000, processes*capacity)
		time.Sleep(10 * time.Minute)
		call(1, 0)
		most("ten minutes later", 1, 2*processes*perCall)
	})
}

// In an outage, many processes that share a bucket hardly add to the load.
func TestOutage(t *testing.T) {
	const perSecond = 5
	load := func(t *testing.T, clients int, sharing bool) float64 {
		store, service := &fleettest.Store{Latency: time.Millisecond}, respond(http.StatusServiceUnavailable, 0)
		var made atomic.Int64
		var arrivals, calls sync.WaitGroup
		end := time.Now().Add(15 * time.Second)
		for i := range clients {
			tr := &awsretry.Transport{Base: service, Backoff: awsretry.Exponential{Initial: 50 * time.Millisecond}}
			if sharing {
				shared := newFleet(t, store, fleet.Config{Lease: time.Second})
				defer shared.Close()
				tr.Shared = shared
			}
			random := rand.New(rand.NewPCG(uint64(i), 0))
			arrivals.Go(func() {
				for time.Now().Before(end) {
					time.Sleep(time.Duration(random.ExpFloat64() / perSecond * float64(time.Second)))
					made.Add(1)
					calls.Go(func() { send(t, tr) })
				}
			})
		}
		arrivals.Wait()
		calls.Wait()
		return float64(service.attempts.Load()) / float64(made.Load())
	}
	synctest.Test(t, func(t *testing.T) {
		if got := load(t, 10*count, true); got > 1.1 {
			t.Errorf("the service has %.3f of the load of the calls, want at most 1.1", got)
		}
		if got := load(t, 5, false); got < 1.5 {
			t.Errorf("without sharing the service has %.3f of the load of the calls; the test shows nothing", got)
		}
	})
}
