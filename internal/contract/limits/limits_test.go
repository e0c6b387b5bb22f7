package limits_test

import (
	"cmp"
	"context"
	"flag"
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
	processes, callers int               // callers of each process
	think              time.Duration     // of the callers of all processes but the first, between two calls
	stranger           float64           // requests per second of somebody who does not wait
	status             func(*answer) int // nil: 200
	charge             bool              // the second quota is charged 20 s after the response
	jitter             bool              // of the latency
	tokens, told       bool              // a request costs 300 or so of the second quota; Cost tells how much
	spread             float64           // of the costs, the standard deviation of the logarithm; 0 means 0.5
	duration           time.Duration
	calls              int           // of each caller; 0: until the end
	arrivals           float64       // calls per second instead of callers who call again
	maxWait, deadline  time.Duration // of each call
	paths              []string      // of the callers in turn
	perSecond          float64       // requests that the service can serve, for the callers
	want               goals
}

// goals are bounds.
type goals struct {
	throttled         float64       // share of all requests
	goodput, fairness float64       // share of what the service can serve; Jain's index of the processes
	p99               time.Duration // of the time that a call takes
	late              float64       // share of the admitted calls that waited longer than MaxWait or were not answered in time
}

func (g goals) reach(want goals) bool {
	return g.throttled <= want.throttled && g.goodput >= want.goodput && g.fairness >= want.fairness &&
		g.p99 <= want.p99 && g.late <= want.late
}

func (g goals) String() string {
	return fmt.Sprintf("%.2f %% throttled, goodput %.3f, fairness %.2f, p99 %.1f s, %.2f %% late",
		100*g.throttled, g.goodput, g.fairness, g.p99.Seconds(), 100*g.late)
}

const (
	minute = time.Minute
	hour   = time.Hour
	second = time.Second
)

var (
	perMinute600 = []func() quota{perWindow(600, minute)}
	ofTokens     = []func() quota{refilling(500, 500./60), refilling(30_000, 500)}
	survives     = goals{.2, .9, 0, 100 * second, 0}
)

var scenarios = []scenario{
	{name: "600 a minute", quotas: perMinute600, announce: gitHub(0, 0),
		processes: 1, callers: 64, perSecond: 10, want: goals{.002, .99, 0, 45 * second, 0}},
	{name: "600 a minute, draft 6", quotas: perMinute600, announce: draft6,
		processes: 1, callers: 64, perSecond: 10, want: goals{.002, .99, 0, 45 * second, 0}},
	{name: "clock ahead", quotas: perMinute600, announce: gitHub(5*minute, 0),
		processes: 1, callers: 64, perSecond: 10, want: goals{.002, .99, 0, 45 * second, 0}},
	{name: "clock behind", quotas: perMinute600, announce: gitHub(-5*minute, 0),
		processes: 1, callers: 64, perSecond: 10, want: goals{.002, .99, 0, 45 * second, 0}},
	{name: "bucket of an hour", quotas: []func() quota{refilling(4500, 1.25)}, announce: heroku, duration: 2 * hour,
		processes: 2, callers: 5, perSecond: 1.25, want: goals{.012, .99, .95, 15 * second, 0}},
	{name: "tokens, learned", quotas: ofTokens, announce: openAI, latency: 2 * second, tokens: true,
		processes: 1, callers: 64, perSecond: 500. / 300, want: goals{.03, .98, 0, 80 * second, 0}},
	{name: "tokens, heavy-tailed", quotas: ofTokens, announce: openAI, latency: 2 * second, tokens: true, spread: 1,
		processes: 1, callers: 64, perSecond: 500. / 300, want: goals{.05, .9, 0, 100 * second, 0}},
	{name: "tokens, told", quotas: ofTokens, announce: openAI, latency: 2 * second, tokens: true, told: true,
		processes: 1, callers: 64, perSecond: 500. / 300, want: goals{.005, .98, 0, 80 * second, 0}},
	{name: "tokens, rounded to thousands", quotas: []func() quota{refilling(500, 500./60), refilling(16_000, 16_000./60)}, announce: anthropic,
		latency: 2 * second, tokens: true, processes: 1, callers: 16, perSecond: 16_000. / 60 / 300, want: goals{.16, .98, 0, 60 * second, 0}},
	{name: "tokens of a window", quotas: []func() quota{perWindow(500, minute), perWindow(30_000, minute)}, announce: openAI,
		latency: 2 * second, tokens: true, processes: 1, callers: 64, perSecond: 500. / 300, want: goals{.05, .85, 0, 100 * second, 0}},
	{name: "three processes", quotas: []func() quota{perWindow(1000, minute)}, announce: gitHub(0, 0),
		processes: 3, callers: 20, perSecond: 1000. / 60, want: goals{.005, .99, .95, 35 * second, 0}},
	{name: "two processes, one whose callers think", quotas: []func() quota{perWindow(1000, minute)}, announce: gitHub(0, 0),
		processes: 2, callers: 5, think: second, perSecond: 1000. / 60, want: goals{.005, .99, .7, 20 * second, 0}},
	{name: "twenty processes", quotas: []func() quota{perWindow(1000, minute)}, announce: gitHub(0, 0),
		processes: 20, callers: 3, perSecond: 1000. / 60, want: goals{.03, .98, .85, 60 * second, 0}},
	{name: "six slow processes", quotas: []func() quota{perWindow(100, minute)}, announce: gitHub(0, 0),
		latency: 3 * second, processes: 6, callers: 5, perSecond: 100. / 60, want: goals{.045, .96, .9, 60 * second, 0}},
	{name: "a quota that changes", quotas: []func() quota{halved(600, 5*minute)}, announce: gitHub(0, 0),
		processes: 1, callers: 64, perSecond: 7.5, want: goals{.01, .98, 0, 70 * second, 0}},
	{name: "a stranger", quotas: perMinute600, announce: gitHub(0, 0), stranger: 5,
		processes: 1, callers: 64, perSecond: 5, want: goals{.005, .99, 0, 60 * second, 0}},
	{name: "sliding", quotas: []func() quota{inAnyMinute(600, false)}, announce: draft6,
		processes: 1, callers: 64, perSecond: 10, want: goals{.005, .96, 0, 60 * second, 0}},
	{name: "sliding, constant reset", quotas: []func() quota{inAnyMinute(600, true)}, announce: draft6,
		processes: 1, callers: 64, perSecond: 10, want: goals{.16, .9, 0, 60 * second, 0}},
	{name: "two policies", quotas: []func() quota{perWindow(20, 2*second), perWindow(300, minute)}, announce: policies("burst", "long"),
		processes: 1, callers: 32, perSecond: 5, want: goals{.005, .98, 0, 60 * second, 0}},

	// What is unusual.
	{name: "polls that did not change", quotas: []func() quota{perWindow(5000, hour)}, announce: gitHub(0, 0), status: always(304),
		processes: 1, callers: 5, perSecond: 49, want: goals{0, .99, 0, second, 0}},
	{name: "hits of a cache", quotas: []func() quota{perWindow(100, hour)}, announce: cached(fixed(100, 0, 3600)), status: always(299),
		processes: 1, callers: 5, perSecond: 49, want: goals{0, .99, 0, second, 0}},
	{name: "Retry-After before the reset", quotas: []func() quota{refilling(600, 10)}, announce: both(fixed(600, 0, 3600), "Retry-After", "1", true),
		processes: 1, callers: 64, perSecond: 10, want: survives},
	{name: "a cold start on an empty bucket", quotas: []func() quota{empty(3600, 1)}, announce: draft6,
		processes: 1, callers: 5, perSecond: 1, want: goals{.02, .965, 0, 10 * second, 0}},
	{name: "MaxWait", quotas: []func() quota{refilling(600, 10), refilling(1e6, 1e6)}, announce: openAI, maxWait: 2 * second,
		processes: 1, arrivals: 12, perSecond: 10, want: goals{.005, .95, 0, 100 * second, 0}},
	{name: "MaxWait, window", quotas: perMinute600, announce: gitHub(0, 0), maxWait: 2 * second,
		processes: 1, arrivals: 12, perSecond: 10, want: goals{.005, .95, 0, 100 * second, 0}},
	{name: "deadline", quotas: perMinute600, announce: gitHub(0, 0), deadline: 5 * second, latency: 500 * time.Millisecond,
		processes: 1, arrivals: 12, perSecond: 10, want: goals{.005, .95, 0, 100 * second, 0}},
	{name: "deadline, bucket", quotas: []func() quota{refilling(600, 10), refilling(1e6, 1e6)}, announce: openAI, deadline: 5 * second, latency: 500 * time.Millisecond,
		processes: 1, arrivals: 12, perSecond: 10, want: goals{.005, .95, 0, 100 * second, 0}},
	{name: "deadline, jitter", quotas: perMinute600, announce: gitHub(0, 0), deadline: 5 * second, latency: 500 * time.Millisecond, jitter: true,
		processes: 1, arrivals: 12, perSecond: 10, want: goals{.005, .95, 0, 100 * second, .01}},
	{name: "Retry-After of a bucket", quotas: ofTokens, announce: both(openAI, "Retry-After", "1", true), latency: 2 * second, tokens: true, spread: 1,
		processes: 1, callers: 64, perSecond: 500. / 300, want: goals{.03, .98, 0, 80 * second, 0}},
	{name: "short sliding", quotas: []func() quota{inAny(100, 10*second, false)}, announce: draft6,
		processes: 1, callers: 32, perSecond: 10, want: goals{.012, .94, 0, 60 * second, 0}},
	{name: "short sliding, constant reset", quotas: []func() quota{inAny(200, 20*second, true)}, announce: draft6,
		processes: 1, callers: 32, perSecond: 10, want: goals{.005, .95, 0, 10 * second, 0}},
	{name: "short sliding, slow", quotas: []func() quota{inAny(100, 10*second, false)}, announce: draft6, latency: second,
		processes: 1, callers: 32, perSecond: 10, want: goals{.005, .82, 0, 60 * second, 0}},
	{name: "short sliding, three processes", quotas: []func() quota{inAny(100, 10*second, false)}, announce: draft6,
		processes: 3, callers: 10, perSecond: 10, want: goals{.07, .85, .6, 45 * second, 0}},
	{name: "Age 0", quotas: perMinute600, announce: both(draft6, "Age", "0", false),
		processes: 1, callers: 64, perSecond: 10, want: goals{.002, .99, 0, 45 * second, 0}},
	{name: "ISO 8601", quotas: []func() quota{perWindow(300, 5*minute)}, announce: iso8601, duration: hour,
		processes: 1, callers: 10, perSecond: 1, want: goals{.002, .98, 0, 40 * second, 0}},
	{name: "milliseconds", quotas: perMinute600, announce: milliseconds,
		processes: 1, callers: 64, perSecond: 10, want: goals{.005, .99, 0, 60 * second, 0}},
	{name: "nothing is left of a bucket", quotas: []func() quota{refilling(600, 10), refilling(600, 100)}, announce: openAIZero,
		processes: 1, callers: 64, perSecond: 10, want: survives},
	{name: "nothing is left of a large bucket", quotas: []func() quota{refilling(600, 100), refilling(600, 100)}, announce: openAIZero,
		processes: 1, callers: 64, perSecond: 100, want: goals{.2, .8, 0, 100 * second, 0}},
	{name: "charged at the end", quotas: ofTokens, announce: openAI, latency: 10 * second, tokens: true, charge: true,
		processes: 1, callers: 64, perSecond: 500. / 300, want: goals{.58, .75, 0, 140 * second, 0}},
	{name: "1/s", quotas: []func() quota{perWindow(1, second)}, announce: draft6,
		processes: 1, callers: 4, perSecond: 1, want: goals{.006, .97, 0, 60 * second, 0}},
	{name: "2/s", quotas: []func() quota{perWindow(2, second)}, announce: draft6,
		processes: 1, callers: 8, perSecond: 2, want: goals{.01, .97, 0, 60 * second, 0}},
	{name: "1/s, Unix time", quotas: []func() quota{perWindow(1, second)}, announce: gitHub(0, 0),
		processes: 1, callers: 4, perSecond: 1, want: goals{.006, .97, 0, 60 * second, 0}},
	{name: "1/s, sliding", quotas: []func() quota{inAny(1, second, false)}, announce: draft6,
		processes: 1, callers: 4, perSecond: 1, want: goals{.015, .97, 0, 60 * second, 0}},
	{name: "6 in 10 s", quotas: []func() quota{perWindow(6, 10*second)}, announce: draft6,
		processes: 1, callers: 8, perSecond: .6, want: goals{.01, .97, 0, 20 * second, 0}},
	{name: "two resources", quotas: []func() quota{perWindow(5000, hour), perWindow(30, hour)}, announce: resources, paths: []string{"/orgs/a/repos", "/orgs/a/audit-log"},
		processes: 1, callers: 10, perSecond: 1.4, duration: hour, want: goals{.005, .9, 0, hour, 0}},
	{name: "six processes at 10/s", quotas: []func() quota{perWindow(10, second)}, announce: draft6, latency: 500 * time.Millisecond,
		processes: 6, callers: 4, perSecond: 10, want: goals{.12, .95, .85, 15 * second, 0}},
	{name: "600 a minute, six processes, 500 ms", quotas: perMinute600, announce: gitHub(0, 0), latency: 500 * time.Millisecond,
		processes: 6, callers: 10, perSecond: 10, want: goals{.01, .98, .9, 50 * second, 0}},
	{name: "answers take 30 s", quotas: []func() quota{perWindow(60, minute)}, announce: draft6, latency: 30 * second,
		processes: 1, callers: 64, perSecond: 1, duration: 20 * minute, want: goals{.56, .87, 0, 220 * second, 0}},
	{name: "answers take 30 s, jitter", quotas: []func() quota{perWindow(60, minute)}, announce: gitHub(0, 0), latency: 30 * second, jitter: true,
		processes: 1, callers: 64, perSecond: 1, duration: 20 * minute, want: goals{.48, .95, 0, 320 * second, 0}},
	{name: "600 a minute, jitter", quotas: perMinute600, announce: gitHub(0, 0), latency: 300 * time.Millisecond, jitter: true,
		processes: 1, callers: 64, perSecond: 10, want: goals{.002, .99, 0, 45 * second, 0}},
	{name: "tokens, learned, jitter", quotas: ofTokens, announce: openAI, latency: 2 * second, tokens: true, jitter: true,
		processes: 1, callers: 64, perSecond: 500. / 300, want: goals{.03, .98, 0, 90 * second, 0}},
	{name: "three processes, tokens", quotas: ofTokens, announce: openAI, latency: 2 * second, tokens: true,
		processes: 3, callers: 20, perSecond: 500. / 300, want: goals{.03, .98, .85, 120 * second, 0}},
	{name: "bucket, generic headers", quotas: []func() quota{refilling(600, 10)}, announce: draft6,
		processes: 1, callers: 64, perSecond: 10, want: goals{.005, .99, 0, 45 * second, 0}},
	{name: "bucket, generic headers, three processes", quotas: []func() quota{refilling(600, 10)}, announce: draft6,
		processes: 3, callers: 20, perSecond: 10, want: goals{.01, .99, .85, 45 * second, 0}},
	{name: "low demand", quotas: perMinute600, announce: gitHub(0, 0),
		processes: 1, arrivals: 8, perSecond: 8, want: goals{0, .98, 0, 5 * second, 0}},
	{name: "low demand, crawler", quotas: []func() quota{perWindow(5000, hour)}, announce: gitHub(0, 0), duration: 3 * hour,
		processes: 1, callers: 1, perSecond: 5000. / 3600, want: goals{.001, .98, 0, 45 * second, 0}},

	{name: "2/s, sliding, Unix time", quotas: []func() quota{inAny(2, second, false)}, announce: gitHub(0, 0),
		processes: 1, callers: 8, perSecond: 2, want: goals{.025, .97, 0, 10 * second, 0}},
	{name: "3/s, sliding", quotas: []func() quota{inAny(3, second, false)}, announce: draft6,
		processes: 1, callers: 8, perSecond: 3, want: goals{.02, .97, 0, 10 * second, 0}},
	{name: "1 in 10 s", quotas: []func() quota{perWindow(1, 10*second)}, announce: draft6,
		processes: 1, callers: 4, perSecond: .1, duration: hour, want: goals{.012, .98, 0, 60 * second, 0}},
	{name: "1 in 10 s, sliding", quotas: []func() quota{inAny(1, 10*second, false)}, announce: draft6,
		processes: 1, callers: 4, perSecond: .1, duration: hour, want: goals{.015, .98, 0, 60 * second, 0}},
	{name: "900 of 1,000 a day", quotas: []func() quota{perWindow(1000, 24*hour)}, announce: gitHub(0, 0), calls: 900,
		processes: 1, callers: 1, perSecond: .25, duration: hour, want: goals{0, 1, 0, 6 * second, 0}},
	{name: "two quotas without a name", quotas: []func() quota{perWindow(600, minute), perWindow(50, minute)}, announce: unnamed, paths: []string{"/orgs/a/repos", "/orgs/a/audit-log"},
		processes: 1, callers: 32, perSecond: 650. / 60, want: goals{.005, .99, 0, 45 * second, 0}},

	{name: "50/s", quotas: []func() quota{perWindow(50, second)}, announce: draft6,
		processes: 1, callers: 50, perSecond: 50, want: goals{.005, .96, 0, 3 * second, 0}},
	{name: "1/s, rounded down", quotas: []func() quota{perWindow(1, second)}, announce: draft6Down,
		processes: 1, callers: 4, perSecond: 1, want: goals{.02, .97, 0, 10 * second, 0}},
	{name: "10/s, rounded down", quotas: []func() quota{perWindow(10, second)}, announce: draft6Down,
		processes: 1, callers: 16, perSecond: 10, want: goals{.015, .9, 0, 10 * second, 0}},
	{name: "a small bucket", quotas: []func() quota{refilling(5, 5)}, announce: draft6,
		processes: 1, callers: 16, perSecond: 5, want: goals{.01, .98, 0, 6 * second, 0}},
	{name: "20 in 10 s, sliding", quotas: []func() quota{inAny(20, 10*second, false)}, announce: draft6,
		processes: 1, callers: 16, perSecond: 2, want: goals{.025, .95, 0, 20 * second, 0}},
	{name: "60 a minute, sliding", quotas: []func() quota{inAny(60, minute, false)}, announce: draft6,
		processes: 1, callers: 16, perSecond: 1, want: goals{.05, .97, 0, 60 * second, 0}},

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
	{name: "little is left for good", quotas: perMinute600, announce: fixed(600, 27, 1800),
		processes: 1, callers: 64, perSecond: 10, want: survives},
	{name: "one is left for good", quotas: perMinute600, announce: fixed(600, 1, 1800),
		processes: 1, callers: 64, perSecond: 10, want: survives},
	{name: "little is left or much", quotas: perMinute600, announce: everyThird(fixed(600, 5, 600), fixed(600, 550, 600)),
		processes: 1, callers: 64, perSecond: 10, want: goals{.2, .1, 0, 120 * second, 0}},
	{name: "reset in the past", quotas: perMinute600, announce: gitHub(0, -hour),
		processes: 1, callers: 64, perSecond: 10, want: survives},
	{name: "two limits under one name", quotas: perMinute600, announce: everyThird(fixed(600, 0, 40), draft6),
		processes: 1, callers: 64, perSecond: 10, want: survives},
}

// With -unread, the same clients do not read the limits, to compare with.
var unread = flag.Bool("unread", false, "the clients do not read the limits")

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
				if t.Log(got); !*unread && !got.reach(s.want) {
					t.Error("want", s.want)
				}
			})
		})
	}
}

// run runs the scenario and returns the outcome.
func (s scenario) run(t *testing.T) goals {
	service := &service{
		latency: max(s.latency, 100*time.Millisecond), announce: s.announce, status: s.status,
		charge: s.charge, jitter: s.jitter, served: make(map[string]int),
	}
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
	var log record
	for process := range s.processes {
		client := s.client(service, uint64(process))
		if s.arrivals > 0 {
			calls.Go(func() {
				random := rand.New(rand.NewPCG(uint64(process), 7))
				for n := 0; sleep(ctx, seconds(random.ExpFloat64()/s.arrivals)) == nil; n++ {
					trips := withTrips(context.Background(), uint64(process), uint64(n))
					calls.Go(func() { s.call(trips, t, client, process, 0, random, &log) })
				}
			})
		}
		for caller := range s.callers {
			random := rand.New(rand.NewPCG(uint64(process), uint64(caller)))
			trips := withTrips(context.Background(), uint64(process), uint64(caller))
			calls.Go(func() {
				for n := 0; sleep(ctx, seconds(random.Float64()/1000)) == nil && (s.calls == 0 || n < s.calls); n++ {
					if process > 0 && s.think > 0 && sleep(ctx, seconds(random.ExpFloat64()*s.think.Seconds())) != nil {
						return
					}
					s.call(trips, t, client, process, caller, random, &log)
				}
			})
		}
	}
	<-ctx.Done()
	synctest.Wait()
	throttled, accepted, fairness := service.figures()
	calls.Wait()
	return goals{throttled, accepted / duration.Seconds() / s.perSecond, fairness, log.p99(), log.late / max(accepted, 1)}
}

func (s scenario) call(ctx context.Context, t *testing.T, client *awsretry.Transport, process, caller int, random *rand.Rand, log *record) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(s.deadline, 24*hour))
	defer cancel()
	var waited time.Duration
	executed := false
	ctx = awsretry.WithObserver(ctx, func(a awsretry.Attempt) { waited = a.Waited; executed = executed || a.Number > 0 })
	req := httpfake.Request(t, ctx, "GET", nil)
	if len(s.paths) > 0 {
		req.URL.Path = s.paths[caller%len(s.paths)]
	}
	req.Header.Set("Process", fmt.Sprint(process))
	if s.tokens {
		spread := cmp.Or(s.spread, .5)
		req.Header.Set("Tokens", fmt.Sprint(300*math.Exp(spread*random.NormFloat64()-spread*spread/2)))
	}
	start := time.Now()
	_, err := client.RoundTrip(req)
	if err != nil && s.deadline == 0 && s.maxWait == 0 {
		t.Error(err)
		return
	}
	log.add(time.Since(start), executed && err != nil || s.maxWait > 0 && waited > s.maxWait)
}

// client returns a Transport, as each process has one.
func (s scenario) client(base http.RoundTripper, seed uint64) *awsretry.Transport {
	limits := awsretry.RateLimitConfig{Pacing: awsretry.ScaledPacing, Limits: awsretry.ReadLimits, MaxWait: s.maxWait}
	if *unread {
		limits.Limits = nil
	}
	if s.told && limits.Limits != nil {
		limits.Cost = func(req *http.Request, limit string) float64 {
			return units(req, slices.Index([]string{"requests", "tokens"}, limit))
		}
	}
	return newClient(base, limits, seed)
}

// A record has how long calls took.
type record struct {
	mu    sync.Mutex
	calls []time.Duration
	late  float64
}

func (r *record) add(d time.Duration, late bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if late {
		r.late++
	}
	r.calls = append(r.calls, d)
}

func (r *record) p99() time.Duration {
	slices.Sort(r.calls)
	return r.calls[len(r.calls)*99/100]
}
