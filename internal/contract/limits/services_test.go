package limits_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/retrier"
)

// A service accepts a request if every quota has room for it, and announces what
// is left.
type service struct {
	latency  time.Duration
	quotas   []quota
	announce func(*answer)
	status   func(*answer) int // nil: 200
	charge   bool              // at the end of the response
	jitter   bool              // of the latency

	mu              sync.Mutex // guards the fields below, and the quotas
	sent, throttled int
	served          map[string]int // accepted requests of each process
}

// A quota is a limit of a service.
type quota interface {
	left(now time.Time) float64
	take(now time.Time, units float64)
	reset(now time.Time) time.Duration // after a call of left
	size() float64
}

// An answer is one response of a service, while it is made.
type answer struct {
	*service
	header    http.Header
	now       time.Time
	throttled bool
	req       *http.Request
}

// RoundTrip serves a request half way through the latency. A request costs one
// unit of the first quota, and of others what its header says.
func (s *service) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := trip(req, s.latency, s.jitter, s.serve)
	if err != nil {
		return nil, err
	}
	if s.charge && resp.StatusCode < 400 {
		time.AfterFunc(20*time.Second, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.quotas[1].left(time.Now())
			s.quotas[1].take(time.Now(), units(req, 1))
		})
	}
	return resp, nil
}

func (s *service) serve(req *http.Request) *http.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := answer{s, make(http.Header), time.Now(), false, req}
	for i, q := range s.quotas {
		need := units(req, i)
		if s.charge && i == 1 {
			need = 1
		}
		a.throttled = a.throttled || q.left(a.now) < need && s.counts(req, i)
	}
	status := http.StatusTooManyRequests
	if s.sent++; a.throttled {
		s.throttled++
	} else {
		status = http.StatusOK
		if s.status != nil {
			status = s.status(&a)
		}
		s.served[req.Header.Get("Process")]++
		for i, q := range s.quotas {
			if status == 200 && s.counts(req, i) && !(s.charge && i == 1) {
				q.take(a.now, units(req, i))
			}
		}
	}
	s.announce(&a)
	resp := httpfake.Response(req, status, http.NoBody)
	resp.Header = a.header
	return resp
}

// counts reports whether a request is of that quota.
func (s *service) counts(req *http.Request, quota int) bool {
	switch req.URL.Path {
	case "/orgs/a/repos":
		return quota == 0
	case "/orgs/a/audit-log":
		return quota == 1
	}
	return true
}

// takeOne takes a unit of the first quota for a stranger.
func (s *service) takeOne() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.quotas[0].left(now) >= 1 {
		s.quotas[0].take(now, 1)
	}
}

// figures returns the share of throttled requests, how many were accepted, and
// Jain's index of the processes.
func (s *service) figures() (throttled, accepted, fairness float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	squares := 0.0
	for _, n := range s.served {
		accepted += float64(n)
		squares += float64(n) * float64(n)
	}
	return float64(s.throttled) / float64(s.sent), accepted, accepted * accepted / squares / float64(len(s.served))
}

// units returns what a request costs of the quota with that number.
func units(req *http.Request, quota int) float64 {
	if quota == 0 {
		return 1
	}
	n, err := strconv.ParseFloat(req.Header.Get("Tokens"), 64)
	if err != nil {
		return 1
	}
	return n
}

type tripsKey struct{}

// withTrips returns a context for the calls of one caller, who makes one at a time.
// Their trips are drawn from the seed and the caller's number.
func withTrips(ctx context.Context, seed, caller uint64) context.Context {
	return context.WithValue(ctx, tripsKey{}, rand.New(rand.NewPCG(seed, caller|1<<32)))
}

// trip serves a request half way through the latency. No two requests come at one
// instant, so that a run has the same outcome each time.
func trip(req *http.Request, latency time.Duration, jitter bool, serve func(*http.Request) *http.Response) (*http.Response, error) {
	random := req.Context().Value(tripsKey{}).(*rand.Rand)
	half := func() error {
		d := float64(latency / 2)
		if jitter {
			d *= random.ExpFloat64()
		}
		return sleep(req.Context(), time.Duration(d)+time.Duration(random.Int64N(int64(time.Millisecond))))
	}
	if err := half(); err != nil {
		return nil, err
	}
	resp := serve(req)
	if err := half(); err != nil {
		return nil, err
	}
	return resp, nil
}

// newClient returns a Transport whose delays are drawn from a seed.
func newClient(base http.RoundTripper, limits awsretry.RateLimitConfig, seed uint64) *awsretry.Transport {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 10))
	client := &awsretry.Transport{
		Mode: awsretry.Adaptive, Base: base, MaxAttempts: 10, RateLimit: limits,
		Backoff: awsretry.Exponential{Jitter: func(d time.Duration) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(random.Int64N(int64(d) + 1))
		}},
	}
	client.StartSpread(retrier.Seal{}, seed|1)
	return client
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A window is a quota that is whole again at the end of each window.
type window struct {
	n      float64
	length time.Duration
	begun  time.Time
	used   float64
	halves time.Time // when the quota is halved; zero: never
}

// perWindow returns a quota whose first window began 23 s ago.
func perWindow(n float64, length time.Duration) func() quota {
	return func() quota { return &window{n: n, length: length, begun: time.Now().Add(-23 * time.Second)} }
}

// halved is perWindow, and from some time on half as much.
func halved(n float64, after time.Duration) func() quota {
	return func() quota {
		w := perWindow(n, time.Minute)().(*window)
		w.halves = time.Now().Add(after)
		return w
	}
}

func (w *window) left(now time.Time) float64 {
	if since := now.Sub(w.begun); since >= w.length {
		w.begun, w.used = now.Add(-(since % w.length)), 0
	}
	if !w.halves.IsZero() && !now.Before(w.halves) {
		w.n, w.halves = w.n/2, time.Time{}
	}
	return w.n - w.used
}
func (w *window) take(_ time.Time, units float64)   { w.used += units }
func (w *window) reset(now time.Time) time.Duration { return w.begun.Add(w.length).Sub(now) }
func (w *window) size() float64                     { return w.n }

// A bucket is a quota that refills steadily.
type bucket struct {
	n, rate, tokens float64
	at              time.Time
}

func refilling(n, rate float64) func() quota {
	return func() quota { return &bucket{n: n, rate: rate, tokens: n, at: time.Now()} }
}

func (b *bucket) left(now time.Time) float64 {
	b.tokens, b.at = min(b.n, b.tokens+now.Sub(b.at).Seconds()*b.rate), now
	return b.tokens
}
func (b *bucket) take(_ time.Time, units float64) { b.tokens -= units }
func (b *bucket) reset(time.Time) time.Duration   { return seconds((b.n - b.tokens) / b.rate) }
func (b *bucket) size() float64                   { return b.n }

// empty is refilling, and empty at first.
func empty(n, rate float64) func() quota {
	return func() quota { return &bucket{n: n, rate: rate, at: time.Now()} }
}

// A sliding quota is of the requests of the last minute, or another length.
type sliding struct {
	n        int
	length   time.Duration
	log      []time.Time
	constant bool // the reset that it announces is a minute
}

func inAnyMinute(n int, constant bool) func() quota {
	return inAny(n, time.Minute, constant)
}

func inAny(n int, length time.Duration, constant bool) func() quota {
	return func() quota { return &sliding{n: n, length: length, constant: constant} }
}

func (s *sliding) left(now time.Time) float64 {
	for len(s.log) > 0 && now.Sub(s.log[0]) >= s.length {
		s.log = s.log[1:]
	}
	return s.size() - float64(len(s.log))
}
func (s *sliding) take(now time.Time, _ float64) { s.log = append(s.log, now) }
func (s *sliding) reset(now time.Time) time.Duration {
	if s.constant || len(s.log) == 0 {
		return s.length
	}
	return s.log[0].Add(s.length).Sub(now)
}
func (s *sliding) size() float64 { return float64(s.n) }

// set sets a header field to an integer.
func (a *answer) set(field string, value float64) {
	a.header.Set(field, strconv.FormatFloat(value, 'f', 0, 64))
}

// gitHub returns what announces the first quota as GitHub does, on a clock that
// is ahead by so much, with a reset that is later by so much.
func gitHub(ahead, later time.Duration) func(*answer) {
	return func(a *answer) {
		q, clock := a.quotas[0], a.now.Add(ahead)
		a.set("X-RateLimit-Limit", q.size())
		a.set("X-RateLimit-Remaining", math.Floor(q.left(a.now)))
		a.set("X-RateLimit-Reset", float64(clock.Add(q.reset(a.now)+later).Unix()))
		a.header.Set("Date", clock.UTC().Format(http.TimeFormat))
	}
}

func draft6(a *answer) {
	q := a.quotas[0]
	fixed(q.size(), math.Floor(q.left(a.now)), math.Ceil(q.reset(a.now).Seconds()))(a)
}

// draft6Down is draft6 with a reset that is rounded down.
func draft6Down(a *answer) {
	q := a.quotas[0]
	fixed(q.size(), math.Floor(q.left(a.now)), math.Floor(q.reset(a.now).Seconds()))(a)
}

// fixed returns what announces these numbers.
func fixed(quota, remaining, reset float64) func(*answer) {
	return func(a *answer) {
		a.set("RateLimit-Limit", quota)
		a.set("RateLimit-Remaining", remaining)
		a.set("RateLimit-Reset", reset)
	}
}

func heroku(a *answer) { a.set("RateLimit-Remaining", math.Floor(a.quotas[0].left(a.now))) }

func openAI(a *answer) {
	for i, kind := range []string{"requests", "tokens"} {
		q := a.quotas[i]
		a.set("X-RateLimit-Limit-"+kind, q.size())
		a.set("X-RateLimit-Remaining-"+kind, math.Floor(q.left(a.now)))
		a.header.Set("X-RateLimit-Reset-"+kind, q.reset(a.now).Round(time.Millisecond).String())
	}
}

// policies returns what announces the quotas under these names.
func policies(names ...string) func(*answer) {
	return func(a *answer) {
		for i, q := range a.quotas {
			left, reset := math.Floor(q.left(a.now)), math.Ceil(q.reset(a.now).Seconds())
			a.header.Add("RateLimit", fmt.Sprintf("%q;r=%v;t=%v", names[i], left, reset))
			a.header.Add("RateLimit-Policy", fmt.Sprintf("%q;q=%v;w=60", names[i], q.size()))
		}
	}
}

func always(status int) func(*answer) int { return func(*answer) int { return status } }

// both returns what announces and sets a header, of throttled responses only if so asked.
func both(announce func(*answer), key, value string, throttled bool) func(*answer) {
	return func(a *answer) {
		announce(a)
		if a.throttled || !throttled {
			a.header.Set(key, value)
		}
	}
}

func cached(announce func(*answer)) func(*answer) {
	return both(announce, "Age", "30", false)
}

func iso8601(a *answer) {
	q := a.quotas[0]
	a.set("X-RateLimit-Limit", q.size())
	a.set("X-RateLimit-Remaining", math.Floor(q.left(a.now)))
	a.header.Set("X-RateLimit-Reset", a.now.Add(q.reset(a.now)).UTC().Format("2006-01-02T15:04:05.000000Z"))
	a.header.Set("Date", a.now.UTC().Format(http.TimeFormat))
}

func milliseconds(a *answer) {
	q := a.quotas[0]
	a.set("X-RateLimit-Limit", q.size())
	a.set("X-RateLimit-Remaining", math.Floor(q.left(a.now)))
	a.set("X-RateLimit-Reset", float64(q.reset(a.now).Milliseconds()))
}

// openAIZero says that nothing remains of the tokens.
func openAIZero(a *answer) {
	openAI(a)
	a.set("X-RateLimit-Remaining-tokens", 0)
	a.header.Set("X-RateLimit-Reset-tokens", "1m0s")
}

// resources announces the quota that the request is of, and its name.
func resources(a *answer) {
	name := "core"
	if !a.counts(a.req, 0) {
		name = "audit_log"
	}
	unnamed(a)
	a.header.Set("X-RateLimit-Resource", name)
}

// unnamed announces the quota that the request is of.
func unnamed(a *answer) {
	i := 0
	if !a.counts(a.req, 0) {
		i = 1
	}
	q := a.quotas[i]
	a.set("X-RateLimit-Limit", q.size())
	a.set("X-RateLimit-Remaining", math.Floor(q.left(a.now)))
	a.set("X-RateLimit-Reset", float64(a.now.Add(q.reset(a.now)).Unix()))
	a.header.Set("Date", a.now.UTC().Format(http.TimeFormat))
}

// ifThrottled returns what announces only in throttling responses.
func ifThrottled(announce func(*answer)) func(*answer) {
	return func(a *answer) {
		if a.throttled {
			announce(a)
		}
	}
}

// everyThird returns what announces one thing in every third response, and
// another in others.
func everyThird(third, others func(*answer)) func(*answer) {
	return func(a *answer) {
		if a.sent%3 == 0 {
			third(a)
		} else {
			others(a)
		}
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// anthropic announces the tokens, rounded to thousands, and when their bucket is full.
func anthropic(a *answer) {
	q := a.quotas[1]
	a.set("Anthropic-RateLimit-Output-Tokens-Limit", q.size())
	a.set("Anthropic-RateLimit-Output-Tokens-Remaining", 1000*math.Round(q.left(a.now)/1000))
	a.header.Set("Anthropic-RateLimit-Output-Tokens-Reset", a.now.Add(q.reset(a.now)).UTC().Format(time.RFC3339))
	a.header.Set("Date", a.now.UTC().Format(http.TimeFormat))
}
