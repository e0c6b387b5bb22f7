package fleet_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
)

// fixedRate is a store whose fleet has a rate of 100 requests per second: no
// leader sets another one.
type fixedRate struct{ fleet.Client }

func (f fixedRate) Eval(ctx context.Context, script string, keys, args []string) ([]string, error) {
	const seedRate, rate = 3, 11
	args[seedRate], args[rate] = "100", "-1"
	return f.Client.Eval(ctx, script, keys, args)
}

// At a fixed rate the processes send together what the rate allows, in any
// second, wherever that begins: those that want more than their share send one
// after the other. What some do not want the others get.
func TestVirtualPlaces(t *testing.T) {
	const start, length = 3, 13
	for _, test := range []struct {
		name    string
		greedy  func(count int) int // how many processes always have a request
		latency time.Duration
		least   float64 // part of the rate
		most    int     // in any second
	}{
		{"equal", func(count int) int { return count }, time.Millisecond, 0.995, 102},
		{"equal, a slow store", func(count int) int { return count }, 20 * time.Millisecond, 0.995, 102},
		{"unequal", func(count int) int { return count / 4 }, time.Millisecond, 0.97, 115},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				count := several()
				store := fixedRate{&fleettest.Store{Latency: test.latency}}
				service := &service{rate: 1000, burst: 1000}
				var mu sync.Mutex
				var sent []time.Time
				base := roundTripper(func(req *http.Request) (*http.Response, error) {
					mu.Lock()
					sent = append(sent, time.Now())
					mu.Unlock()
					return service.RoundTrip(req)
				})
				ctx, cancel := context.WithCancel(t.Context())
				var processes []*process
				for i := range count {
					callers := 4
					if i >= test.greedy(count) {
						callers = 0
					}
					p := startProcess(store, base, awsretry.ScaledPacing, callers)
					if callers == 0 {
						p.callers.Go(func() {
							for ctx.Err() == nil {
								time.Sleep(time.Duration(rand.ExpFloat64() / 2 * float64(time.Second)))
								p.call(ctx)
							}
						})
					}
					processes = append(processes, p)
				}
				began := time.Now()
				time.Sleep(length * time.Second)
				cancel()
				for _, p := range processes {
					p.leave()
				}
				sent = slices.DeleteFunc(sent, func(at time.Time) bool {
					after := at.Sub(began)
					return after < start*time.Second || after >= length*time.Second
				})
				most, first := 0, 0
				for last, at := range sent {
					for at.Sub(sent[first]) >= time.Second {
						first++
					}
					most = max(most, last-first+1)
				}
				part := float64(len(sent)) / 100 / (length - start)
				t.Logf("%.3f of the rate, at most %d in a second", part, most)
				if part < test.least || most > test.most {
					t.Errorf("%.3f of the rate is used, at most %d in a second; want at least %.3f and at most %d",
						part, most, test.least, test.most)
				}
			})
		})
	}
}

// Places are given up by processes that say so, and by those that cannot: after
// a death, an outage, and a store that has lost everything, those that are left
// send one after the other again.
func TestVirtualPlacesHeal(t *testing.T) {
	for name, fault := range map[string]func(store *fleettest.Store, links []*link, processes []*process){
		"the store has lost everything": func(store *fleettest.Store, _ []*link, _ []*process) { store.Flush() },
		"an outage": func(store *fleettest.Store, _ []*link, _ []*process) {
			store.Refuse(errors.New("an outage"))
			time.Sleep(3 * time.Second)
			store.Refuse(nil)
		},
		"deaths": func(_ *fleettest.Store, links []*link, processes []*process) {
			for i := range len(links) / 3 {
				links[i].mode.Store(refuses)
				processes[i].stop()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &fleettest.Store{Latency: time.Millisecond}
				service := &service{rate: 103, burst: 2} // throttles two requests that come together
				var links []*link
				var processes []*process
				for range several() {
					l := &link{Client: fixedRate{store}}
					links = append(links, l)
					processes = append(processes, startProcess(l, service, awsretry.ScaledPacing, 20))
				}
				throttled := func() int {
					service.mu.Lock()
					defer service.mu.Unlock()
					return service.throttled
				}
				time.Sleep(10 * time.Second)
				fault(store, links, processes)
				time.Sleep(10 * time.Second)
				before := throttled()
				time.Sleep(10 * time.Second)
				if n := throttled() - before; n > 10 {
					t.Errorf("%d of 1000 requests are throttled", n)
				}
				for _, p := range processes {
					p.leave()
				}
			})
		})
	}
}
