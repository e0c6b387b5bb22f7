package fleet_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
	"example.com/awsretry/internal/httpfake"
)

var (
	goalRuns  = flag.Int("goals", 0, "run TestGoals so many times with each market, and print a table")
	goalCases = flag.String("market", "", "only markets whose name and pacing match this expression")
)

// A market is a service that many processes call for a while.
type market struct {
	name      string
	processes int
	callers   func(process int) int
	limit     float64 // requests per second
	answer    time.Duration
	length    time.Duration

	starts func(process int) time.Duration                            // nil: all at once
	calls  func(process int, now time.Duration) (pause time.Duration) // before a call; nil: none
	outage [2]time.Duration                                           // every response is a 503
	random float64                                                    // share of the requests that are throttled at any rate
	deploy bool                                                       // every two seconds a process ends and another one begins
}

// A shop is the service of a market.
type shop struct {
	market
	started time.Time

	mu     sync.Mutex
	tokens float64
	at     time.Time
	sent   []arrival
}

type arrival struct {
	at        time.Duration
	throttled bool
}

func (s *shop) RoundTrip(req *http.Request) (*http.Response, error) {
	const network = 2 * time.Millisecond
	time.Sleep(network / 2)
	status, took := s.arrive(), network/2
	if status == http.StatusOK {
		took += s.answer
	}
	select {
	case <-time.After(took):
		return httpfake.Empty(status, req), nil
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}

func (s *shop) arrive() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	since := now.Sub(s.started)
	if since >= s.outage[0] && since < s.outage[1] {
		s.sent = append(s.sent, arrival{since, false})
		return http.StatusServiceUnavailable
	}
	burst := max(s.limit/5, 2)
	s.tokens, s.at = min(s.tokens+now.Sub(s.at).Seconds()*s.limit, burst), now
	if rand.Float64() < s.random || s.tokens < 1 {
		s.sent = append(s.sent, arrival{since, true})
		return http.StatusTooManyRequests
	}
	s.tokens--
	s.sent = append(s.sent, arrival{since, false})
	return http.StatusOK
}

// An account has the results of a market's callers.
type account struct {
	goodput   float64 // calls that succeeded, per second
	failed    float64 // of the calls that ended
	p99       float64 // of the calls, in seconds, with those that had not ended
	throttled float64 // of the requests
	later     float64 // the same from ten seconds on
	over      float64 // requests above the limit in the fullest second from then on, as a part of the limit
}

// trade runs a market, in virtual time.
func trade(m market, pacing awsretry.Pacing, shares bool) (got account) {
	s := &shop{market: m}
	var mu sync.Mutex
	var took []time.Duration
	good, failed := 0.0, 0.0
	synctest.Test(new(testing.T), func(t *testing.T) {
		store := &fleettest.Store{Latency: time.Millisecond}
		s.started, s.at, s.tokens = time.Now(), time.Now(), max(m.limit/5, 2)
		end := s.started.Add(m.length)
		all, stopAll := context.WithCancel(context.Background())
		var processes sync.WaitGroup
		start := func(i int, ctx context.Context) {
			tr := &awsretry.Transport{Base: s, Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{Pacing: pacing}}
			if shares {
				f, err := fleet.New(store, fleet.Config{Prefix: prefix})
				if err != nil {
					panic(err)
				}
				defer f.Close()
				tr.Shared = f
			}
			var callers sync.WaitGroup
			for range m.callers(i) {
				callers.Go(func() {
					for ctx.Err() == nil && time.Now().Before(end) {
						if m.calls != nil {
							select {
							case <-ctx.Done():
							case <-time.After(m.calls(i, time.Since(s.started))):
							}
						}
						began := time.Now()
						code, err := status(ctx, tr, host)
						mu.Lock()
						switch ended := ctx.Err() == nil; {
						case code == http.StatusOK:
							good++
							took = append(took, time.Since(began))
						case ended:
							failed++
							took = append(took, time.Since(began))
						case all.Err() != nil || err == nil:
							took = append(took, time.Since(began))
						}
						mu.Unlock()
						if code != http.StatusOK {
							time.Sleep(time.Millisecond)
						}
					}
				})
			}
			callers.Wait()
		}
		var cancels []context.CancelFunc
		begin := func(i int) {
			ctx, cancel := context.WithCancel(all)
			cancels = append(cancels, cancel)
			processes.Go(func() {
				if m.starts != nil {
					time.Sleep(m.starts(i))
				}
				start(i, ctx)
			})
		}
		for i := range m.processes {
			begin(i)
		}
		for i := 0; m.deploy && time.Until(end) > 2*time.Second; i++ {
			time.Sleep(2 * time.Second)
			cancels[i]()
			begin(i % m.processes)
		}
		time.Sleep(time.Until(end))
		stopAll()
		processes.Wait()
	})
	slices.Sort(took)
	seconds := m.length.Seconds()
	got.goodput, got.failed = good/seconds, failed/max(good+failed, 1)
	if len(took) > 0 {
		got.p99 = took[min(len(took)*99/100, len(took)-1)].Seconds()
	}
	first, most, late := 0, 0, 0.0
	for i, one := range s.sent {
		for one.at-s.sent[first].at >= time.Second {
			first++
		}
		if one.throttled {
			got.throttled++
		}
		if one.at > 10*time.Second {
			most = max(most, i-first+1)
			late++
			if one.throttled {
				got.later++
			}
		}
	}
	got.throttled /= float64(len(s.sent))
	got.later /= max(late, 1)
	got.over = max(float64(most)/m.limit-1, 0)
	return got
}

func markets() (all []market) {
	same := func(n int) func(int) int { return func(int) int { return n } }
	for _, n := range []int{5, 20, 100} {
		for _, limit := range []float64{5, 100, 1000} {
			for _, answer := range []time.Duration{50 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second} {
				callers := 20
				if limit == 1000 && n == 5 {
					callers = 80
				}
				all = append(all, market{
					name:      fmt.Sprintf("%d processes, %g/s, %v", n, limit, answer),
					processes: n, callers: same(callers), limit: limit, answer: answer, length: time.Minute,
				})
			}
		}
	}
	for _, answer := range []time.Duration{50 * time.Millisecond, 3 * time.Second} {
		base := market{processes: 20, callers: same(20), limit: 100, answer: answer, length: time.Minute}
		add := func(name string, change func(m *market)) {
			m := base
			m.name = fmt.Sprintf("%s, %v", name, answer)
			change(&m)
			all = append(all, m)
		}
		add("one after the other", func(m *market) {
			m.starts = func(i int) time.Duration { return time.Duration(i) * time.Second }
		})
		add("half idle", func(m *market) {
			m.callers = func(i int) int { return 1 + 39*(i%2) }
			m.calls = func(i int, _ time.Duration) time.Duration {
				if i%2 == 1 {
					return 0
				}
				return time.Duration(rand.ExpFloat64() * 10 * float64(time.Second))
			}
		})
		add("one busy", func(m *market) {
			m.callers = func(i int) int {
				if i == 0 {
					return 400
				}
				return 8
			}
		})
		add("come and go", func(m *market) { m.deploy = true })
		add("outage", func(m *market) {
			m.length, m.outage = 2*time.Minute, [2]time.Duration{20 * time.Second, 80 * time.Second}
		})
		add("5 % at random", func(m *market) { m.random = 0.05 })
	}
	return all
}

// TestGoals compares a fleet with its processes alone: a fleet has at least the
// goodput, and fails no more calls. With -goals it runs all markets, and prints
// the medians of each figure as a table, with the worst goodput.
func TestGoals(t *testing.T) {
	runs, wanted := max(*goalRuns, 1), regexp.MustCompile(*goalCases)
	for _, m := range markets() {
		if *goalRuns == 0 && m.name != "20 processes, 100/s, 3s" {
			continue
		}
		for _, pacing := range []awsretry.Pacing{awsretry.CubicPacing, awsretry.ScaledPacing} {
			if !wanted.MatchString(fmt.Sprintf("%s, %v", m.name, pacing)) {
				continue
			}
			var alone, shared []account
			for range runs {
				alone, shared = append(alone, trade(m, pacing, false)), append(shared, trade(m, pacing, true))
			}
			a, f := medians(alone), medians(shared)
			if *goalRuns > 0 {
				fmt.Printf("| %s, %v | %.1f → %.1f (%.1f) | %.1f → %.1f | %.1f → %.1f | %.1f → %.1f | %.1f → %.1f | %.0f → %.0f |\n",
					m.name, pacing, a.goodput, f.goodput, worst(shared), 100*a.failed, 100*f.failed, a.p99, f.p99,
					100*a.throttled, 100*f.throttled, 100*a.later, 100*f.later, 100*a.over, 100*f.over)
			} else if f.goodput < 0.95*a.goodput || f.failed > a.failed+0.005 || f.p99 > a.p99 || f.later > a.later {
				t.Errorf("%s, %v: alone %+v, as a fleet %+v", m.name, pacing, a, f)
			}
		}
	}
}

// worst returns the lowest goodput.
func worst(all []account) float64 {
	return slices.MinFunc(all, func(a, b account) int { return cmp.Compare(a.goodput, b.goodput) }).goodput
}

// medians returns the median of each figure.
func medians(all []account) account {
	of := func(get func(account) float64) float64 {
		var values []float64
		for _, a := range all {
			values = append(values, get(a))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return account{
		goodput: of(func(a account) float64 { return a.goodput }), failed: of(func(a account) float64 { return a.failed }),
		p99: of(func(a account) float64 { return a.p99 }), throttled: of(func(a account) float64 { return a.throttled }),
		later: of(func(a account) float64 { return a.later }), over: of(func(a account) float64 { return a.over }),
	}
}
