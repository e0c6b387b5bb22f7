package fleet_test

import (
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
)

// With MaxRate, the processes keep a limit in every second, whatever they do.
func TestMaxRate(t *testing.T) {
	within := func(goodput, fairness float64) figures { return figures{goodput, 0, 1.02, fairness, 0} }
	for name, test := range map[string]func(r *run){
		"a store that is 20 ms away": func(r *run) {
			r.store.Latency = 20 * time.Millisecond
			r.join(count, 4)
			r.phase("begin", 10, within(0.92, 0.9))
			r.phase("steady", 20, within(0.96, 0.97))
		},
		"unequal wants": func(r *run) {
			r.join(count/4, 4)
			r.join(count, 0)
			r.phase("unequal", 15, within(0.9, 0))
		},
		"more processes than the limit": func(r *run) {
			r.maxRate, r.service.rate = 20, 20
			r.join(2*count, 1)
			r.phase("steady", 15, within(0.93, 0.8))
		},
		"most of them idle": func(r *run) {
			r.maxRate = 20
			r.join(2*count, 0)
			time.Sleep(3 * time.Second)
			for _, p := range r.processes {
				p.stop()
				p.callers.Wait()
			}
			time.Sleep(10 * time.Second)
			r.service.sent = nil
			for _, p := range r.processes {
				p.callers.Go(func() { call(r.Context(), p.transport, host) })
			}
			time.Sleep(2500 * time.Millisecond)
			r.service.mu.Lock()
			defer r.service.mu.Unlock()
			if n, most := len(r.service.sent), mostInASecond(r.service.sent); n != 2*count || most > 20 {
				r.Errorf("%d of 40 were sent, at most %g in a second", n, most)
			}
		},
		"idle when the store goes": func(r *run) {
			r.join(1, 0)
			time.Sleep(10 * time.Second)
			p := r.processes[0]
			p.stop()
			p.callers.Wait()
			time.Sleep(10 * time.Second)
			r.store.Refuse(errors.New("gone"))
			for i := range 3 {
				longest := 100 * time.Millisecond
				if i == 0 { // it may just have renewed: it is alone from its second failure on
					longest += 500 * time.Millisecond
				}
				start := time.Now()
				if err := call(r.Context(), p.transport, host); err != nil || time.Since(start) > longest {
					r.Errorf("call %d took %v: %v", i+1, time.Since(start), err)
				}
				time.Sleep(time.Second)
			}
		},
		"processes come and go": func(r *run) {
			r.join(count, 4)
			r.meanwhile = func() {
				for i := range 15 {
					time.Sleep(time.Second)
					p := r.processes[0]
					if i%2 == 0 { // it is killed
						p.link.mode.Store(refuses)
					}
					p.leave()
					r.processes = r.processes[1:]
					r.join(count, 4)
				}
			}
			r.phase("meanwhile", 17, within(0.9, 0))
		},
		"the store is gone": func(r *run) {
			r.join(count, 4)
			time.Sleep(5 * time.Second)
			r.store.Refuse(errors.New("gone"))
			r.phase("without it", 10, within(0.9, 0.9))
			r.join(count+5, 4)
			r.phase("more join", 10, figures{0.9, 0, 1.02 + 5/100., 0, 0})
			r.store.Refuse(nil)
			r.phase("again", 10, within(0.9, 0))
		},
		"the store loses its keys": func(r *run) {
			r.join(count, 4)
			r.meanwhile = func() {
				for range 3 {
					time.Sleep(3 * time.Second)
					r.store.Flush()
				}
			}
			r.phase("meanwhile", 12, within(0.85, 0))
		},
		"an older copy": func(r *run) {
			r.join(count, 4)
			time.Sleep(5 * time.Second)
			restore := r.store.Copy()
			r.meanwhile = func() {
				time.Sleep(5 * time.Second)
				restore()
			}
			r.phase("meanwhile", 10, within(0.9, 0))
		},
		"a lower limit of the service": func(r *run) {
			r.service.rate, r.service.burst = 50, 5
			r.join(count, 4)
			time.Sleep(10 * time.Second)
			r.phase("fifty", 20, figures{0.9, 0.1, 1.5, 0, 0})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &run{
					T: t, pacing: awsretry.ScaledPacing, maxRate: 100, service: &service{rate: 100, burst: 1000},
					store: &fleettest.Store{Latency: time.Millisecond},
				}
				test(r)
				r.end(0)
			})
		})
	}
}

// Slots of requests that are not sent, because Prepare fails for all of them at once,
// are lost.
func TestMaxRateAfterPrepareFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, &fleettest.Store{Latency: time.Millisecond}, fleet.Config{MaxRate: 50})
		defer f.Close()
		s := &service{rate: 1e6, burst: 1e6}
		begun, refreshed := time.Now(), make(chan struct{})
		tr := &awsretry.Transport{
			Base: s, Mode: awsretry.Adaptive, Shared: f,
			Prepare: func(*http.Request, int) error {
				if since := time.Since(begun); since < 5*time.Second || since >= 8*time.Second {
					return nil
				}
				<-refreshed
				return errors.New("no credentials")
			},
		}
		var callers sync.WaitGroup
		for range 400 {
			callers.Go(func() {
				for time.Since(begun) < 12*time.Second {
					_ = call(t.Context(), tr, host)
				}
			})
		}
		time.Sleep(8 * time.Second)
		close(refreshed)
		callers.Wait()
		if most := mostInASecond(s.sent); most > 50 || len(s.sent) < 8*50 {
			t.Errorf("%g of 50 were sent in a second, %d in all", most, len(s.sent))
		}
	})
}

// An idle process has a longer lease, which ends when it needs one and the store fails.
func TestIdleWhenTheStoreGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fleettest.Store{Latency: time.Millisecond}
		shared := newFleet(t, store, fleet.Config{MaxRate: 50})
		defer shared.Close()
		tr := &awsretry.Transport{Base: respond(http.StatusOK, delay), Mode: awsretry.Adaptive, Shared: shared}
		send(t, tr)
		time.Sleep(time.Minute)
		if state := stateOf(tr); !state.Fleet.Leased {
			t.Errorf("the state is %+v", state.Fleet)
		}
		store.Refuse(errors.New("gone"))
		send(t, tr)
		time.Sleep(time.Second)
		if state := stateOf(tr); state.Fleet.Leased || state.Fleet.Idle {
			t.Errorf("without the store, the state is %+v", state.Fleet)
		}
	})
}
