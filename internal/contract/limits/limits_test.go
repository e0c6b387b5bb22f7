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
	latency            time.Duration  // 0 means 100 ms
	quotas             []func() quota // nil means 600 a minute
	announce           func(*answer)
	processes, callers int           // callers of each process; 0 means 1 and 64
	tokens, told       bool          // a request costs 300 or so of the second quota; Cost tells how much
	duration           time.Duration // 0 means 10 minutes
	perSecond          float64       // requests that the service can serve, for the callers; 0 means 10
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
	year   = 365 * 24 * 3600
)

var (
	ofTokens = []func() quota{refilling(500, 500./60), refilling(30_000, 500)}
	ofMinute = []func() quota{perWindow(500, minute), perWindow(30_000, minute)}
	survives = goals{1, .5, 0, 100 * second}
)

var scenarios = []scenario{
	{name: "600 a minute", announce: gitHub(0, 0), want: goals{.002, .99, 0, 45 * second}},
	{name: "clock ahead", announce: gitHub(5*minute, 0), want: goals{.002, .99, 0, 45 * second}},
	{name: "sliding", quotas: []func() quota{inAnyMinute(600)}, announce: draft6, want: goals{.005, .96, 0, 60 * second}},
	{name: "bucket of an hour", quotas: []func() quota{refilling(4500, 1.25)}, announce: heroku, duration: 2 * hour,
		processes: 2, callers: 5, perSecond: 1.25, want: goals{.005, .99, .95, 24 * second}},
	{name: "tokens, learned", quotas: ofTokens, announce: openAI, latency: 2 * second, tokens: true,
		perSecond: 500. / 300, want: goals{.03, .98, 0, 80 * second}},
	{name: "tokens, told", quotas: ofTokens, announce: openAI, latency: 2 * second, tokens: true, told: true,
		perSecond: 500. / 300, want: goals{.005, .98, 0, 80 * second}},
	{name: "tokens of a window", quotas: ofMinute, announce: openAI, latency: 2 * second, tokens: true,
		perSecond: 500. / 300, want: goals{.05, .9, 0, 90 * second}},
	{name: "twenty processes", quotas: []func() quota{perWindow(1000, minute)}, announce: gitHub(0, 0),
		processes: 20, callers: 3, perSecond: 1000. / 60, want: goals{.03, .98, .9, 60 * second}},

	// What is announced is not true. That must not do much harm.
	{name: "never falls", announce: fixed(100, 100, 30), want: survives},
	{name: "nothing is left", announce: fixed(100, 0, 30), want: survives},
	{name: "nothing for a year", announce: fixed(100, 0, year), want: survives},
	{name: "reset in the past", announce: gitHub(0, -hour), want: survives},
}

// Clients that read the limits of a service are throttled little, share them,
// and use them up.
func TestAnnouncedLimits(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
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
	if s.quotas == nil {
		s.quotas = []func() quota{perWindow(600, minute)}
	}
	for _, q := range s.quotas {
		service.quotas = append(service.quotas, q())
	}
	duration := max(s.duration, 10*minute)
	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	var calls sync.WaitGroup
	var mu sync.Mutex
	var times []time.Duration
	for process := range max(s.processes, 1) {
		client := s.client(service)
		for caller := range cmp.Or(s.callers, 64) {
			random := rand.New(rand.NewPCG(uint64(process), uint64(caller)))
			calls.Go(func() {
				for ctx.Err() == nil {
					req := httpfake.Request(t, context.Background(), "GET", nil)
					req.Header.Set("Process", fmt.Sprint(process))
					if s.tokens {
						req.Header.Set("Tokens", fmt.Sprint(300*math.Exp(.5*random.NormFloat64()-.125)))
					}
					start := time.Now()
					if _, err := client.RoundTrip(req); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					times = append(times, time.Since(start))
					mu.Unlock()
					client.State("service.example") // the race detector may see it
				}
			})
		}
	}
	<-ctx.Done()
	synctest.Wait()
	throttled, accepted, fairness := service.figures()
	calls.Wait()
	slices.Sort(times)
	return goals{throttled, accepted / duration.Seconds() / cmp.Or(s.perSecond, 10), fairness, times[len(times)*99/100]}
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
