package interop

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
	"example.com/awsretry/retrylog"
	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/scenario"
	"example.com/awsretry/simulate/traffic"
)

// A pair is two settings on the same service: what one logs must predict what
// the other does.
type pair struct {
	name          string
	rate          float64 // of calls that arrive, per second
	callers       int     // or callers that wait for each call
	think         time.Duration
	timeout       time.Duration // of a call; 0: none
	untold        bool          // the timeout
	impatience    time.Duration // the timeout of an attempt; 0: none
	service       pairService
	present, next string // settings, in their short form
}

// A pairService is what a service does. Every response takes network.
type pairService struct {
	rate, burst float64       // of a token bucket that throttles
	retryAfter  int           // seconds, of a throttled response
	throttled   float64       // share, at random
	failed      float64       // the same, with status 500
	outage      float64       // tenths of the time, from the third one on, in which every request fails
	refuses     bool          // these are 503 at once
	capacity    float64       // requests per second; others wait; 0: no limit
	hangs       float64       // share that takes 2.5 s
	slower      float64       // how many times longer requests take in the second half; 0: 1
	network     time.Duration // of every response
}

const pairSeconds = 24

var (
	unlucky  = pairService{throttled: .08}
	limited  = pairService{rate: 50, burst: 20, network: 10 * time.Millisecond}
	asking   = pairService{rate: 50, burst: 20, retryAfter: 1}
	outaged  = pairService{outage: 2}
	erring   = pairService{failed: .15}
	hanging  = pairService{hangs: .05}
	slowing  = pairService{slower: 10, failed: .1}
	troubled = pairService{throttled: .05, failed: .05, hangs: .01}
	refusing = pairService{outage: 4, refuses: true, network: 30 * time.Millisecond}
	queueing = pairService{failed: .1, capacity: 60}
)

// The first nine are short enough for every day. PAIRS=all runs them all.
var pairs = []pair{
	{name: "429 at random", rate: 40, timeout: 5 * time.Second, service: unlucky, present: "standard", next: "adaptive"},
	{name: "429 at random, back", rate: 40, timeout: 5 * time.Second, service: unlucky, present: "adaptive", next: "standard"},
	{name: "16 workers at a limit", callers: 16, service: limited, present: "adaptive", next: "standard"},
	{name: "16 workers at a limit, back", callers: 16, service: limited, present: "standard", next: "adaptive"},
	{name: "20 callers, Retry-After", callers: 20, think: 100 * time.Millisecond, service: asking, present: "standard", next: "standard+share_retry_after"},
	{name: "20 callers, outage", callers: 20, think: 100 * time.Millisecond, service: outaged, present: "standard", next: "standard+long_poll"},
	{name: "errors", rate: 60, service: erring, present: "standard", next: "none"},
	{name: "a limit", rate: 60, service: limited, present: "standard", next: "legacy"},
	{name: "hanging", rate: 40, timeout: 5 * time.Second, service: hanging, present: "standard", next: "revision2026"},

	{name: "errors, back", rate: 60, service: erring, present: "none", next: "standard"},
	{name: "errors, legacy", rate: 60, service: erring, present: "standard", next: "legacy"},
	{name: "errors, 2026", rate: 60, service: erring, present: "standard", next: "revision2026"},
	{name: "outage", rate: 60, service: outaged, present: "standard", next: "none"},
	{name: "outage, back", rate: 60, service: outaged, present: "none", next: "legacy"},
	{name: "outage, 2026", rate: 60, service: outaged, present: "revision2026", next: "standard"},
	{name: "outage, share", rate: 60, service: outaged, present: "standard", next: "standard+share"},
	{name: "a limit, scaled", rate: 60, timeout: 5 * time.Second, service: limited, present: "standard", next: "adaptive=scaled"},
	{name: "a limit, back", rate: 60, timeout: 5 * time.Second, service: limited, present: "adaptive=scaled", next: "standard"},
	{name: "Retry-After", rate: 55, timeout: 5 * time.Second, service: asking, present: "standard", next: "standard+share_retry_after"},
	{name: "16 workers, scaled", callers: 16, service: limited, present: "adaptive", next: "adaptive=scaled"},
	{name: "16 workers, scaled, back", callers: 16, service: limited, present: "adaptive=scaled", next: "legacy"},
	{name: "20 callers, errors", callers: 20, think: 100 * time.Millisecond, service: erring, present: "standard", next: "legacy"},
	{name: "20 callers, outage, 2026", callers: 20, think: 100 * time.Millisecond, service: outaged, present: "standard+long_poll", next: "revision2026"},
	{name: "slowing down", rate: 40, service: slowing, present: "standard", next: "none"},
	{name: "all at once", rate: 60, service: troubled, present: "standard", next: "legacy"},
	{name: "429 at random, untold", rate: 40, timeout: 5 * time.Second, untold: true, service: unlucky, present: "standard", next: "adaptive"},
	{name: "impatient", rate: 60, impatience: 500 * time.Millisecond, service: hanging, present: "none", next: "standard"},
	{name: "impatient, back", rate: 60, impatience: 500 * time.Millisecond, service: hanging, present: "standard", next: "none"},
	{name: "a limit, 2026", rate: 60, service: limited, present: "none", next: "revision2026"},
	{name: "down", rate: 60, service: refusing, present: "standard", next: "legacy"},
	{name: "20 callers, down", callers: 20, service: refusing, present: "standard", next: "standard+long_poll"},
	{name: "busy", rate: 45, service: queueing, present: "none", next: "standard"},
	{name: "busy, back", rate: 45, service: queueing, present: "standard", next: "none"},
}

// TestPairs records one setting against a real service over loopback, predicts
// what another one does, and runs that.
func TestPairs(t *testing.T) {
	kit.TakesLong(t)
	const daily, together = 9, 9
	all := pairs[:daily]
	if os.Getenv("PAIRS") == "all" {
		all = pairs
	}
	reproduced := 0
	for group := range slices.Chunk(all, together) {
		predicted := make([]prediction, len(group))
		var runs sync.WaitGroup
		for i, p := range group {
			runs.Go(func() { predicted[i] = p.both(t) })
		}
		runs.Wait()
		for i, p := range group {
			t.Run(p.name, func(t *testing.T) {
				trusted, missed := p.judge(t, predicted[i])
				if len(missed) > 0 { // the machine may have been busy
					t.Logf("once more, alone, because of %q", missed)
					trusted, missed = p.judge(t, p.both(t))
				}
				if trusted {
					reproduced++
				}
				for _, what := range missed {
					t.Error(what)
				}
			})
		}
	}
	if reproduced < len(all)*2/3 {
		t.Errorf("%d of %d logs are reproduced; want two thirds", reproduced, len(all))
	}
}

// A prediction is what one setting did, and what another did that it is to
// predict.
type prediction struct{ was, is real }

// real is what the callers saw, and what was logged.
type real struct {
	log                        []byte
	calls, attempts, good, bad int
	took, lasted               []float64 // of good calls, and of those that had not ended; in seconds
}

// quantile returns a quantile of the times of good calls. Those that had not
// ended take longer than they had lasted: Kaplan and Meier's estimate.
func (r real) quantile(q float64) float64 {
	slices.Sort(r.took)
	slices.Sort(r.lasted)
	lasted := r.lasted
	if len(lasted)*100 <= r.calls {
		lasted = nil
	}
	left, above, gone := len(r.took)+len(lasted), 1.0, 0
	for _, d := range r.took {
		for gone < len(lasted) && lasted[gone] < d {
			gone++
			left--
		}
		above *= 1 - 1/float64(left)
		left--
		if above <= 1-q+1e-9 {
			return d
		}
	}
	if len(lasted) > 0 {
		return lasted[len(lasted)-1]
	}
	if len(r.took) == 0 {
		return 0
	}
	return r.took[len(r.took)-1]
}

// both makes the pair's calls with both settings at the same time.
func (p pair) both(t *testing.T) (of prediction) {
	var runs sync.WaitGroup
	runs.Go(func() { of.was = p.run(t, p.present) })
	of.is = p.run(t, p.next)
	runs.Wait()
	return of
}

// run makes the pair's calls with a setting.
func (p pair) run(t *testing.T, setting string) (r real) {
	server := httptest.NewServer(p.service.handler())
	defer server.Close()
	pool := &http.Transport{MaxIdleConnsPerHost: 512}
	defer pool.CloseIdleConnections()
	end := time.Now().Add(pairSeconds * time.Second)
	var log bytes.Buffer
	until := writerUntil{&log, end}
	tr := transportOf(t, setting)
	tr.AttemptTimeout = p.impatience
	tr.Observe = retrylog.Config{
		Logger: slog.New(slog.NewJSONHandler(until, &slog.HandlerOptions{Level: slog.LevelDebug})), All: true,
	}.Observer()
	var attempts atomic.Int64
	tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
		if time.Now().Before(end) {
			attempts.Add(1)
		}
		return pool.RoundTrip(req)
	})
	ctx, cancel := context.WithCancel(t.Context()) // a deadline would be known before it passes
	defer time.AfterFunc(time.Until(end), cancel).Stop()
	var mu sync.Mutex // guards r
	call := func() {
		own, done := ctx, context.CancelFunc(func() {})
		if p.timeout > 0 {
			own, done = context.WithTimeout(ctx, p.timeout)
		}
		defer done()
		began := time.Now()
		resp, err := tr.RoundTrip(kit.NewRequest(t, own, http.MethodGet, server.URL, nil))
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		took := time.Since(began).Seconds()
		mu.Lock()
		defer mu.Unlock()
		r.calls++
		switch {
		case !time.Now().Before(end):
			r.lasted = append(r.lasted, took)
		case err == nil && resp.StatusCode < 400:
			r.good++
			r.took = append(r.took, took)
		default:
			r.bad++
		}
	}
	var calls sync.WaitGroup
	random := rand.New(rand.NewPCG(7, 8))
	if p.callers == 0 {
		for at := time.Now(); ; {
			at = at.Add(time.Duration(random.ExpFloat64() / p.rate * float64(time.Second)))
			if !at.Before(end) {
				break
			}
			time.Sleep(time.Until(at))
			calls.Go(call)
		}
		time.Sleep(time.Until(end))
	}
	for n := range p.callers {
		calls.Go(func() {
			random := rand.New(rand.NewPCG(9, uint64(n)))
			for time.Now().Before(end) {
				if time.Sleep(time.Duration(random.ExpFloat64() * float64(p.think))); time.Now().Before(end) {
					call()
				}
			}
		})
	}
	calls.Wait()
	r.attempts, r.log = int(attempts.Load()), log.Bytes()
	return r
}

// A writerUntil writes until an instant, as the log of a program that is killed.
type writerUntil struct {
	w   io.Writer
	end time.Time
}

func (u writerUntil) Write(b []byte) (int, error) {
	if time.Now().Before(u.end) {
		return u.w.Write(b)
	}
	return len(b), nil
}

// transportOf returns the Transport of a setting's short form.
func transportOf(t *testing.T, setting string) *awsretry.Transport {
	use, options, _ := strings.Cut(setting, "+")
	tr := map[string]*awsretry.Transport{
		"none":            {MaxAttempts: 1},
		"standard":        {},
		"legacy":          {Mode: awsretry.Legacy},
		"revision2026":    {Revision: awsretry.Revision2026},
		"adaptive":        {Mode: awsretry.Adaptive},
		"adaptive=scaled": {Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{Pacing: awsretry.ScaledPacing}},
	}[use]
	switch options {
	case "":
	case "share_retry_after":
		tr.ShareRetryAfter = true
	case "long_poll":
		tr.LongPoll = func(*http.Request) bool { return true }
	case "share":
		tr.Quota.Share = 0.2
	default:
		t.Errorf("the setting %s is unknown", setting)
	}
	return tr
}

func (s pairService) handler() http.Handler {
	var mu sync.Mutex // guards random, tokens, last and free
	random := rand.New(rand.NewPCG(1, 2))
	began := time.Now()
	tokens, last := s.burst, began
	free := began // when the service is
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		now := time.Now()
		tokens, last = min(tokens+s.rate*now.Sub(last).Seconds(), s.burst), now
		throttled := s.rate > 0 && tokens < 1 || random.Float64() < s.throttled
		if !throttled {
			tokens--
		}
		failed, hangs, z := random.Float64() < s.failed, random.Float64() < s.hangs, random.NormFloat64()
		if free.Before(now) {
			free = now
		}
		if s.capacity > 0 {
			free = free.Add(time.Duration(float64(time.Second) / s.capacity))
		}
		wait := free.Sub(now)
		mu.Unlock()
		tenths := now.Sub(began).Seconds() / pairSeconds * 10
		out := tenths >= 2 && tenths < 2+s.outage
		time.Sleep(s.network)
		if throttled {
			if s.retryAfter > 0 {
				w.Header().Set("Retry-After", fmt.Sprint(s.retryAfter))
			}
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		if out && s.refuses {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		takes := 20e6 * math.Exp(0.4*z)
		if tenths >= 5 && s.slower > 0 {
			takes *= s.slower
		}
		if hangs {
			takes = 2.5e9
		}
		time.Sleep(wait + time.Duration(takes))
		if failed || out {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
}

// judge fits what was logged, and holds what it predicts against what happened,
// if it says that it is to be trusted. It returns which goals are missed by more
// than chance explains: what nine seeds differ by, one caller, and how far a
// quantile of so few calls is from that of many.
func (p pair) judge(t *testing.T, made prediction) (trusted bool, missed []string) {
	var known traffic.Known
	if !p.untold {
		known.Timeout = p.timeout
	}
	log, err := traffic.Read(t.Context(), bytes.NewReader(made.was.log), traffic.Options{Known: known})
	if err != nil {
		t.Fatal(err)
	}
	f, err := log.Fit(0)
	if err != nil {
		t.Fatal(err)
	}
	next := kit.Must[scenario.Setting](t)(scenario.ParseSetting(p.next))
	s := f.Scenario
	s.Settings = []scenario.Setting{s.Settings[0], next}
	var present []simulate.Outcome
	var is []figures // with other random numbers each
	unended := 0.0
	for s.Seed = 1; s.Seed <= 9; s.Seed++ {
		result, err := simulate.Run(t.Context(), s, simulate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		present, is = append(present, result.Outcomes[0]), append(is, simulated(result.Outcomes[1]))
		unended = max(unended, result.Outcomes[1].UnfinishedShare())
	}
	off, was := f.Off(present[:5]...), simulated(present[0])
	recorded, happened := made.was.figures(), made.is.figures()
	t.Logf("%s: recorded  %v\n%s: simulated %v\n%s: predicted %v\n%s: happened  %v", p.present, recorded, p.present, was, p.next, is[0], p.next, happened)
	if len(off) > 0 {
		t.Logf("the simulation does not reproduce the log: %q", off)
		return false, nil
	}
	miss := func(format string, args ...any) { missed = append(missed, fmt.Sprintf(format, args...)) }
	if change := happened.failed - recorded.failed; math.Abs(change) > 0.05 && change*(is[0].failed-was.failed) <= 0 {
		miss("the failed share changes by %.1f points, which is predicted as %.1f", 100*change, 100*(is[0].failed-was.failed))
	}
	between := func(what string, low, high float64, of func(figures) float64, points, share float64) {
		least, most := math.Inf(1), 0.0
		for _, f := range is {
			least, most = min(least, of(f)), max(most, of(f))
		}
		if high < least*(1-share)-points || low > most*(1+share)+points {
			miss("%s: %.4g happened, %.4g to %.4g were predicted", what, of(happened), least, most)
		}
	}
	within := func(what string, of func(figures) float64, points, share float64) {
		between(what, of(happened), of(happened), of, points, share)
	}
	quantile := func(what string, q float64, of func(figures) float64) {
		chance := 2 * math.Sqrt(q*(1-q)/float64(len(made.is.took)+1)) // two standard deviations of the rank
		between(what, made.is.quantile(q-chance), made.is.quantile(min(q+chance, 1)), of, 0, 0.25)
	}
	within("failed", func(f figures) float64 { return f.failed }, 0.03, 0)
	if p.callers > 0 {
		within("attempts", func(f figures) float64 { return f.attempts }, 0, 0.05+1/float64(p.callers))
	} else { // how many arrive is chance
		within("attempts of each call", func(f figures) float64 { return f.attempts / f.calls }, 0, 0.05)
	}
	quantile("p50", 0.5, func(f figures) float64 { return f.p50 })
	quantile("p99", 0.99, func(f figures) float64 { return f.p99 })
	if len(missed) > 0 && unended > 0.5 {
		t.Logf("%.0f %% of the calls had not ended, as a warning says: %q", 100*unended, missed)
		return false, nil
	}
	return true, missed
}

// figures are what is predicted. The times are of good calls, in seconds.
type figures struct{ calls, attempts, failed, p50, p99 float64 }

func (f figures) String() string {
	return fmt.Sprintf("%5.1f %% of %6.0f calls fail, %6.0f attempts, p50 %5.3fs, p99 %5.3fs", 100*f.failed, f.calls, f.attempts, f.p50, f.p99)
}

func simulated(o simulate.Outcome) figures {
	seconds := func(s simulate.Span) float64 { return time.Duration(s).Seconds() }
	return figures{float64(o.Calls), float64(o.Attempts), o.FailedShare, seconds(o.P50), seconds(o.P99)}
}

func (r real) figures() figures {
	failed := float64(r.bad) / float64(max(r.good+r.bad, 1))
	return figures{float64(r.calls), float64(r.attempts), failed, r.quantile(.5), r.quantile(.99)}
}
