package fleet_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
)

const host = "service.test" // and the partition of all requests

// A process is a Transport that shares, with callers that call without a pause.
type process struct {
	transport *awsretry.Transport
	shared    *fleet.Fleet
	good      atomic.Int64
	failures  atomic.Int64 // what OnError was called with
	stop      context.CancelFunc
	callers   sync.WaitGroup
}

// startProcess starts a process. It must be called in virtual time.
func startProcess(store fleet.Client, base http.RoundTripper, pacing awsretry.Pacing, callers int) *process {
	p := new(process)
	p.shared = fleet.New(store, fleet.Config{OnError: func(string, error) { p.failures.Add(1) }})
	p.transport = &awsretry.Transport{
		Base: base, Mode: awsretry.Adaptive, Shared: p.shared, RateLimit: awsretry.RateLimitConfig{Pacing: pacing},
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	for range callers {
		p.callers.Go(func() {
			for ctx.Err() == nil {
				if !p.call(ctx) {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	return p
}

// call makes a call and reports whether there is a response.
func (p *process) call(ctx context.Context) bool {
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/", nil)
	resp, err := p.transport.RoundTrip(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		p.good.Add(1)
	}
	return true
}

// several returns how many processes a test has. The race detector makes them
// slow.
func several() int {
	if raceEnabled {
		return 4
	}
	return 20
}

// leave ends the callers, then the lease.
func (p *process) leave() {
	p.stop()
	p.callers.Wait()
	p.shared.Close()
}

func (p *process) state() awsretry.State {
	s, _ := p.transport.State(host)
	return s
}

// A limited is a service whose token bucket has a rate of 100 requests per
// second. It counts what came in each second.
type limited struct {
	service
	start         time.Time
	sent, refused [120]atomic.Int64
}

func newLimited() *limited {
	return &limited{service: service{rate: 100, burst: 20}, start: time.Now()}
}

func (l *limited) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := l.service.RoundTrip(req)
	second := int(time.Since(l.start).Seconds())
	l.sent[second].Add(1)
	if resp.StatusCode != http.StatusOK {
		l.refused[second].Add(1)
	}
	return resp, err
}

// over returns the goodput, as a part of the rate, and the part of what was
// sent that was throttled, from one second of the run to another, and the most
// that was sent in one of these seconds.
func (l *limited) over(from, to int) (goodput, throttled float64, most int64) {
	var sent, refused int64
	for i := from; i < to; i++ {
		sent += l.sent[i].Load()
		refused += l.refused[i].Load()
		most = max(most, l.sent[i].Load())
	}
	return float64(sent-refused) / (l.rate * float64(to-from)), float64(refused) / float64(sent), most
}

// fairness is Jain's index: 1 if all have the same, 1/n if one has everything.
func fairness(had []float64) float64 {
	var sum, squares float64
	for _, n := range had {
		sum += n
		squares += n * n
	}
	return sum * sum / (float64(len(had)) * squares)
}

// gains returns how many calls each process has made well since before.
func gains(processes []*process, before []float64) []float64 {
	had := make([]float64, len(processes))
	for i, p := range processes {
		had[i] = float64(p.good.Load())
		if before != nil {
			had[i] -= before[i]
		}
	}
	return had
}

func TestVirtualRate(t *testing.T) {
	const callers, length, start = 4, 60, 15
	count := several()
	for _, test := range []struct {
		pacing                   awsretry.Pacing
		goodput, throttled, most float64
	}{
		{awsretry.CubicPacing, 0.92, 0.04, 140},
		{awsretry.ScaledPacing, 0.93, 0.04, 140},
	} {
		t.Run(test.pacing.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &fleettest.Store{Latency: time.Millisecond}
				service := newLimited()
				processes := make([]*process, count)
				for i := range processes {
					processes[i] = startProcess(store, service, test.pacing, callers)
				}
				time.Sleep(start * time.Second)
				before := gains(processes, nil)
				time.Sleep((length - start) * time.Second)
				goodput, throttled, most := service.over(start, length)
				fair := fairness(gains(processes, before))
				evals := float64(store.Evals()) / float64(count*length)
				t.Logf("goodput %.3f, throttled %.4f, most in a second %d, fairness %.4f, renewals a second and process %.1f",
					goodput, throttled, most, fair, evals)
				if goodput < test.goodput {
					t.Errorf("goodput is %.3f, want at least %.2f", goodput, test.goodput)
				}
				if throttled > test.throttled {
					t.Errorf("%.4f of the requests are throttled, want at most %.2f", throttled, test.throttled)
				}
				if float64(most) > test.most {
					t.Errorf("%d requests are sent in a second, want at most %g", most, test.most)
				}
				if fair < 0.95 {
					t.Errorf("fairness is %.4f, want at least 0.95", fair)
				}
				if evals > 10 {
					t.Errorf("a process renews %.1f times a second, want at most 10", evals)
				}
				for _, p := range processes {
					if s := p.state(); s.Members < count-2 || s.Members > count || !s.Leased {
						t.Errorf("a process has the state %+v, want a lease and about %d members", s, count)
					}
				}
				for _, p := range processes {
					p.leave()
				}
			})
		})
	}
}

func TestVirtualJoinAndLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const few = 5
		all := several() + few
		store := &fleettest.Store{Latency: time.Millisecond}
		service := newLimited()
		var processes []*process
		join := func(n int) {
			for len(processes) < n {
				processes = append(processes, startProcess(store, service, awsretry.ScaledPacing, 4))
			}
		}
		phase := func(name string, from, settle, to int) {
			t.Helper()
			time.Sleep(time.Duration(settle) * time.Second)
			before := gains(processes, nil)
			time.Sleep(time.Duration(to-from-settle) * time.Second)
			goodput, throttled, most := service.over(from, to)
			fair := fairness(gains(processes, before))
			t.Logf("%s: goodput %.3f, throttled %.4f, most in a second %d, fairness %.4f", name, goodput, throttled, most, fair)
			if goodput < 0.8 || throttled > 0.12 {
				t.Errorf("%s: goodput is %.3f and throttled %.4f, want at least 0.8 and at most 0.12", name, goodput, throttled)
			}
			if fair < 0.95 {
				t.Errorf("%s: fairness is %.4f, want at least 0.95", name, fair)
			}
			if n := processes[0].state().Members; n < len(processes)-2 || n > len(processes) {
				t.Errorf("%s: a process knows of %d members, want about %d", name, n, len(processes))
			}
		}
		join(few)
		time.Sleep(15 * time.Second)
		phase("few", 15, 0, 30)
		join(all)
		phase("all", 30, 2, 50)
		for _, p := range processes[few:] {
			p.leave()
		}
		processes = processes[:few]
		time.Sleep(time.Until(service.start.Add(51 * time.Second)))
		phase("few again", 51, 2, 70)
		for _, p := range processes {
			p.leave()
		}
	})
}

func TestVirtualStoreFault(t *testing.T) {
	refused := errors.New("the store is gone")
	for _, test := range []struct {
		name   string
		fault  func(*fleettest.Store) (end func())
		leased bool // during the fault
	}{
		{"refuses", func(s *fleettest.Store) func() { s.Refuse(refused); return func() { s.Refuse(nil) } }, false},
		{"loses replies", func(s *fleettest.Store) func() {
			s.LoseReplies(refused)
			return func() { s.LoseReplies(nil) }
		}, false},
		{"loses its keys", func(s *fleettest.Store) func() { s.Flush(); return func() {} }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				count := several()
				store := &fleettest.Store{Latency: time.Millisecond}
				service := newLimited()
				processes := make([]*process, count)
				for i := range processes {
					processes[i] = startProcess(store, service, awsretry.ScaledPacing, 4)
				}
				leased := func() (n int) {
					for _, p := range processes {
						if p.state().Leased {
							n++
						}
					}
					return n
				}
				time.Sleep(30 * time.Second)
				end := test.fault(store)
				time.Sleep(10 * time.Second)
				if n := leased(); (n == count) != test.leased || !test.leased && n > 0 {
					t.Errorf("%d processes of %d have a lease during the fault", n, count)
				}
				end()
				time.Sleep(1400 * time.Millisecond) // a lease and a second
				if n := leased(); n != count {
					t.Errorf("a lease and a second after the fault %d processes of %d have a lease", n, count)
				}
				time.Sleep(8600 * time.Millisecond)
				for _, phase := range []struct {
					name               string
					from, to           int
					goodput, throttled float64
					most               int64
				}{{"before", 15, 30, 0.75, 0.06, 160}, {"during", 30, 40, 0.7, 0.1, 160}, {"after", 41, 50, 0.7, 0.12, 170}} {
					goodput, throttled, most := service.over(phase.from, phase.to)
					t.Logf("%s: goodput %.3f, throttled %.4f, most in a second %d", phase.name, goodput, throttled, most)
					if goodput < phase.goodput || throttled > phase.throttled || most > phase.most {
						t.Errorf("%s the fault: goodput is %.3f, throttled %.4f, most in a second %d, want %+v",
							phase.name, goodput, throttled, most, phase)
					}
				}
				for _, p := range processes {
					if n := p.failures.Load(); n > 1 || n == 0 && !test.leased {
						t.Errorf("OnError was called %d times by one process in one fault", n)
					}
					p.leave()
				}
			})
		})
	}
}

func TestVirtualOutage(t *testing.T) {
	load := func(t *testing.T, sharing bool) float64 {
		const rate = 5
		clients := 10 * several()
		store := &fleettest.Store{Latency: time.Millisecond}
		var service down
		var made atomic.Int64
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		var arrivals sync.WaitGroup
		var fleets []*fleet.Fleet
		for i := range clients {
			p := &process{transport: &awsretry.Transport{
				Base: &service, Backoff: awsretry.Exponential{Initial: 50 * time.Millisecond},
			}}
			if sharing {
				p.shared = fleet.New(store, fleet.Config{})
				p.transport.Shared = p.shared
				fleets = append(fleets, p.shared)
			}
			random := rand.New(rand.NewPCG(uint64(i), 0))
			arrivals.Go(func() {
				for {
					time.Sleep(time.Duration(random.ExpFloat64() / rate * float64(time.Second)))
					if ctx.Err() != nil {
						return
					}
					made.Add(1)
					p.callers.Go(func() { p.call(ctx) })
				}
			})
			defer p.callers.Wait()
		}
		arrivals.Wait()
		for _, f := range fleets {
			f.Close()
		}
		t.Logf("sharing %v: %d calls, %d attempts, %d scripts", sharing, made.Load(), service.attempts.Load(), store.Evals())
		return float64(service.attempts.Load()) / float64(made.Load())
	}
	synctest.Test(t, func(t *testing.T) {
		if got := load(t, true); got > 1.1 {
			t.Errorf("the service has %.3f of the load of the calls, want at most 1.1", got)
		}
		if got := load(t, false); got < 1.5 {
			t.Errorf("without sharing the service has %.3f of the load of the calls; the test shows nothing", got)
		}
	})
}
