package limits_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// A scenario is a service and its callers. They call it again and again.
type scenario struct {
	name               string
	latency            time.Duration // 0 means 100 ms
	quotas             []func() quota
	announce           func(*answer)
	processes, callers int     // callers of each process
	stranger           float64 // requests per second of somebody who does not wait
	tokens, told       bool    // a request costs 300 or so of the second quota; Cost tells how much
	spread             float64 // of the costs, the standard deviation of the logarithm; 0 means 0.5
	duration           time.Duration
	perSecond          float64 // requests that the service can serve, for the callers
	want               goals
}

// goals are bounds.
type goals struct {
	throttled         float64       // share of all requests
	goodput, fairness float64       // share of what the service can serve; Jain's index of the processes
	p99               time.Duration // of the time that a call takes
}

func (g goals) String() string {
	return fmt.Sprintf("%.2f %% throttled, goodput %.3f, fairness %.2f, p99 %.1f s",
		100*g.throttled, g.goodput, g.fairness, g.p99.Seconds())
}

const (
	minute = time.Minute
	hour   = time.Hour
	second = time.Second
)

var (
	perMinute600 = []func() quota{perWindow(600, minute)}
	ofTokens     = []func() quota{refilling(500, 500./60), refilling(30_000, 500)}
	survives     = goals{1, .5, 0, 100 * second}
)

var scenarios = []scenario{
	{name: "600 a minute", quotas: perMinute600, announce: gitHub(0, 0),
		processes: 1, callers: 64, perSecond: 10, want: goals{.002, .99, 0, 45 * second}},
	{name: "600 a minute, draft 6", quotas: perMinute600, announce: draft6,
		processes: 1, callers: 64, perSecond: 10, want: goals{.002, .99, 0, 45 * second}},
	{name: "clock ahead", quotas: perMinute600, announce: gitHub(5*minute, 0),
		processes: 1, callers: 64, perSecond: 10, want: goals{.002, .99, 0, 45 * second}},
	{name: "clock behind", quotas: perMinute600, announce: gitHub(-5*minute, 0),
		processes: 1, callers: 64, perSecond: 10, want: goals{.002, .99, 0, 45 * second}},
	{name: "bucket of an hour", quotas: []func() quota{refilling(4500, 1.25)}, announce: heroku, duration: 2 * hour,
		processes: 2, callers: 5, perSecond: 1.25, want: goals{.005, .99, .95, 24 * second}},
	{name: "tokens, learned", quotas: ofTokens, announce: openAI, latency: 2 * second, tokens: true,
		processes: 1, callers: 64, perSecond: 500. / 300, want: goals{.03, .98, 0, 80 * second}},
	{name: "tokens, heavy-tailed", quotas: ofTokens, announce: openAI, latency: 2 * second, tokens: true, spread: 1,
		processes: 1, callers: 64, perSecond: 500. / 300, want: goals{.05, .9, 0, 100 * second}},
	{name: "tokens, told", quotas: ofTokens, announce: openAI, latency: 2 * second, tokens: true, told: true,
		processes: 1, callers: 64, perSecond: 500. / 300, want: goals{.005, .98, 0, 80 * second}},
	{name: "tokens of a window", quotas: []func() quota{perWindow(500, minute), perWindow(30_000, minute)}, announce: openAI,
		latency: 2 * second, tokens: true, processes: 1, callers: 64, perSecond: 500. / 300, want: goals{.05, .9, 0, 90 * second}},
	{name: "three processes", quotas: []func() quota{perWindow(1000, minute)}, announce: gitHub(0, 0),
		processes: 3, callers: 20, perSecond: 1000. / 60, want: goals{.005, .99, .95, 57 * second}},
	{name: "twenty processes", quotas: []func() quota{perWindow(1000, minute)}, announce: gitHub(0, 0),
		processes: 20, callers: 3, perSecond: 1000. / 60, want: goals{.03, .98, .9, 60 * second}},
	{name: "six slow processes", quotas: []func() quota{perWindow(100, minute)}, announce: gitHub(0, 0),
		latency: 3 * second, processes: 6, callers: 5, perSecond: 100. / 60, want: goals{.2, .98, .9, 90 * second}}, // 30 of 100 requests are in flight
	{name: "a quota that changes", quotas: []func() quota{halved(600, 5*minute)}, announce: gitHub(0, 0),
		processes: 1, callers: 64, perSecond: 7.5, want: goals{.01, .98, 0, 60 * second}},
	{name: "a stranger", quotas: perMinute600, announce: gitHub(0, 0), stranger: 5,
		processes: 1, callers: 64, perSecond: 5, want: goals{.005, .99, 0, 60 * second}},
	{name: "sliding", quotas: []func() quota{inAnyMinute(600, false)}, announce: draft6,
		processes: 1, callers: 64, perSecond: 10, want: goals{.005, .96, 0, 60 * second}},
	{name: "sliding, constant reset", quotas: []func() quota{inAnyMinute(600, true)}, announce: draft6,
		processes: 1, callers: 64, perSecond: 10, want: goals{.005, .96, 0, 60 * second}},
	{name: "two policies", quotas: []func() quota{perWindow(20, 2*second), perWindow(300, minute)}, announce: twoPolicies,
		processes: 1, callers: 32, perSecond: 5, want: goals{.005, .98, 0, 60 * second}},

	// What is announced is not true. That must not do much harm.
	{name: "never falls", quotas: perMinute600, announce: fixed(100, 100, 30),
		processes: 1, callers: 64, perSecond: 10, want: survives},
	{name: "nothing is left", quotas: perMinute600, announce: fixed(100, 0, 30),
		processes: 1, callers: 64, perSecond: 10, want: survives},
	{name: "only if throttled", quotas: perMinute600, announce: ifThrottled(fixed(100, 0, 30)),
		processes: 1, callers: 64, perSecond: 10, want: survives},
	{name: "reset in a year", quotas: perMinute600, announce: fixed(100, 50, 365*24*3600),
		processes: 1, callers: 64, perSecond: 10, want: survives},
	{name: "nothing for a year", quotas: perMinute600, announce: fixed(100, 0, 365*24*3600),
		processes: 1, callers: 64, perSecond: 10, want: survives},
	{name: "reset in the past", quotas: perMinute600, announce: gitHub(0, -hour),
		processes: 1, callers: 64, perSecond: 10, want: survives},
	{name: "two limits under one name", quotas: perMinute600, announce: everyThird(fixed(600, 0, 40), draft6),
		processes: 1, callers: 64, perSecond: 10, want: survives},
}

// Clients that read the limits of a service are throttled little, share them,
// and use them up.
func TestAnnouncedLimits(t *testing.T) {
	for i, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			if testing.Short() && i > 2 {
				t.Skip("it takes long with the race detector; make test runs it without")
			}
			synctest.Test(t, func(t *testing.T) {
				got := s.run(t)
				t.Log(got)
				if want := s.want; got.throttled > want.throttled || got.p99 > want.p99 ||
					got.goodput < want.goodput || got.fairness < want.fairness {
					t.Error("want", want)
				}
			})
		})
	}
}

// run runs the scenario and returns what came of it.
func (s scenario) run(t *testing.T) goals {
	service := &service{latency: max(s.latency, 100*time.Millisecond), announce: s.announce, served: make(map[string]int)}
	for _, q := range s.quotas {
		service.quotas = append(service.quotas, q())
	}
	duration := max(s.duration, 10*minute)
	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	var calls sync.WaitGroup
	if s.stranger > 0 {
		random := rand.New(rand.NewPCG(3, 4))
		calls.Go(func() {
			for sleep(ctx, seconds(random.ExpFloat64()/s.stranger)) == nil {
				service.takeOne()
			}
		})
	}
	spread := cmp.Or(s.spread, .5)
	var log record
	for process := range s.processes {
		client := s.client(service)
		for caller := range s.callers {
			random := rand.New(rand.NewPCG(uint64(process), uint64(caller)))
			calls.Go(func() {
				for ctx.Err() == nil {
					req := httpfake.Request(t, context.Background(), "GET", nil)
					req.Header.Set("Process", fmt.Sprint(process))
					if s.tokens {
						req.Header.Set("Tokens", fmt.Sprint(300*math.Exp(spread*random.NormFloat64()-spread*spread/2)))
					}
					start := time.Now()
					if _, err := client.RoundTrip(req); err != nil {
						t.Error(err)
						return
					}
					log.add(time.Since(start))
				}
			})
		}
	}
	<-ctx.Done()
	synctest.Wait()
	throttled, accepted, fairness := service.figures()
	calls.Wait()
	return goals{throttled, accepted / duration.Seconds() / s.perSecond, fairness, log.p99()}
}

// client returns a Transport, as each process has one.
func (s scenario) client(base http.RoundTripper) *awsretry.Transport {
	limits := awsretry.RateLimitConfig{Pacing: awsretry.ScaledPacing, Limits: awsretry.ReadLimits}
	if s.told {
		limits.Cost = func(req *http.Request, limit string) float64 {
			return units(req, slices.Index([]string{"requests", "tokens"}, limit))
		}
	}
	return &awsretry.Transport{Mode: awsretry.Adaptive, Base: base, MaxAttempts: 10, RateLimit: limits}
}

// A record has how long calls took.
type record struct {
	mu    sync.Mutex
	calls []time.Duration
}

func (r *record) add(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, d)
}

func (r *record) p99() time.Duration {
	slices.Sort(r.calls)
	return r.calls[len(r.calls)*99/100]
}
