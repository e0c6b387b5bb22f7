package simulate

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// A service is the RoundTripper below every client's Transport: the modelled service and the network before it. All
// that a request will live through is known when it arrives, since the script is known and the queue serves in order;
// so a request costs one sleep.
type service struct {
	grid   grid
	script script
	record *recorder

	queue      float64
	queueFull  int // status
	refuseCost float64
	network    time.Duration
	latency    Latency
	spread     float64 // of a lognormal latency: the standard deviation of its logarithm
	retryAfter map[*Throttle]http.Header

	mu sync.Mutex // guards the fields below; never waited for, as requests arrive at instants of their own
	at int        // the segment that virtual time is in
	// passed is how much work the queue has passed when it has worked off what it holds, in requests, on the script's scale.
	passed  float64
	buckets map[throttleOf]*throttleBucket
}

// A throttleOf names a bucket: the throttle's, or one client's where it has one for each.
type throttleOf struct {
	throttle *Throttle
	client   int // -1: all
}

// newService returns the service of s, which must be valid and have its defaults.
func newService(s Scenario, g grid, record *recorder) *service {
	v := &service{
		grid: g, script: newScript(s), record: record,
		queue:      float64(s.Service.Queue),
		queueFull:  s.Service.QueueFull,
		refuseCost: s.Service.RefuseCost,
		network:    time.Duration(s.Service.Network),
		latency:    s.Service.Latency,
		retryAfter: map[*Throttle]http.Header{},
		buckets:    map[throttleOf]*throttleBucket{},
	}
	const ninetyNinth = 2.3263478740408408 // of the standard normal distribution
	if v.latency.Distribution == lognormally {
		v.spread = math.Log(float64(v.latency.P99)/float64(v.latency.Median)) / ninetyNinth
	}
	for _, g := range v.script {
		if t := g.throttle; t != nil && t.RetryAfter > 0 {
			seconds := strconv.Itoa(int(time.Duration(t.RetryAfter) / time.Second))
			v.retryAfter[t] = http.Header{"Retry-After": {seconds}}
		}
	}
	return v
}

// A fate is what becomes of a request.
type fate struct {
	at     time.Duration // when its answer is there; never: it has none
	status int           // 0: the connection breaks
	header http.Header
}

// RoundTrip implements http.RoundTripper. It runs on the goroutine of the call.
func (v *service) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	c := ctx.Value(callKey{}).(*call)
	now, ok := v.grid.align(ctx, c)
	if !ok {
		return nil, ctx.Err()
	}
	c.attempts++
	v.record.sent(now)
	f := v.arrive(now, c)
	if f.at != never {
		f.at = v.grid.next(c.owner, f.at)
	}
	if !v.grid.wait(ctx, c.owner, f.at) {
		v.record.abandoned(v.grid.now())
		return nil, ctx.Err()
	}
	v.record.answered(f.at, f.status)
	if f.status == 0 {
		return nil, errBroken
	}
	return &http.Response{
		Status: statusLines[f.status], StatusCode: f.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: f.header, Body: http.NoBody, Request: req,
	}, nil
}

// statusLines are the statuses that the service answers with, as net/http writes them.
var statusLines = map[int]string{200: "200 OK", 429: "429 Too Many Requests", 500: "500 Internal Server Error", 503: "503 Service Unavailable"}

var (
	errBroken = fmt.Errorf("simulate: connection reset: %w", syscall.ECONNRESET)
	noHeader  = http.Header{}
)

// arrive decides what becomes of a request that arrives now.
func (v *service) arrive(now time.Duration, c *call) fate {
	v.mu.Lock()
	defer v.mu.Unlock()
	for v.at+1 < len(v.script) && v.script[v.at+1].from <= now {
		v.at++
		if v.script[v.at].how != "" {
			v.passed = 0 // what waits in the queue when an outage begins is gone
		}
	}
	g := v.script[v.at]
	refused := now + v.network
	switch {
	case g.how != "":
		return failure(g.how, refused)
	case g.throttle != nil && !v.throttled(g.throttle, c).take(now):
		v.work(now, g, v.refuseCost)
		header := v.retryAfter[g.throttle]
		if header == nil {
			header = noHeader
		}
		return fate{refused, http.StatusTooManyRequests, header}
	case math.Ceil(v.passed-g.workedAt(now)-workSlack) > v.queue: // one is served, the others wait
		v.work(now, g, v.refuseCost)
		return fate{refused, v.queueFull, noHeader}
	}
	v.work(now, g, 1)
	done := v.script.passes(v.at, v.passed)
	if done != never {
		done += span(float64(v.sample(c)) * g.factor)
	}
	if from, how := v.script.outageAfter(v.at); done > from {
		return failure(how, from+v.network)
	}
	status := http.StatusOK
	if g.share > 0 && unit(random(c.id, uint64(c.attempts), forError)) < g.share {
		status = http.StatusInternalServerError
	}
	return fate{done + v.network, status, noHeader}
}

// Sums of fractions drift: ten tenths of a request are to be a whole one.
const workSlack = 1e-9

// failure is what an outage makes of a request, at the given instant.
func failure(how string, at time.Duration) fate {
	switch how {
	case outageHang:
		return fate{at: never}
	case outageReset:
		return fate{at: at}
	}
	return fate{at, http.StatusServiceUnavailable, noHeader}
}

// work puts work into the queue, in requests. v.mu must be held.
func (v *service) work(now time.Duration, g segment, amount float64) {
	v.passed = max(v.passed, g.workedAt(now)) + amount
}

// sample draws a latency for the call's attempt.
func (v *service) sample(c *call) time.Duration {
	attempt := uint64(c.attempts)
	median := time.Duration(v.latency.Median)
	switch v.latency.Distribution {
	case exponentially:
		return exponential(random(c.id, attempt, forLatency), float64(median)/math.Ln2)
	case lognormally:
		z := normal(random(c.id, attempt, forLatency), random(c.id, attempt, forSpread))
		return span(float64(median) * math.Exp(v.spread*z))
	}
	return median
}

// throttled returns the bucket that the call draws from. v.mu must be held.
func (v *service) throttled(t *Throttle, c *call) *throttleBucket {
	key := throttleOf{t, -1}
	if t.PerClient {
		key.client = c.client
	}
	b := v.buckets[key]
	if b == nil {
		b = &throttleBucket{rate: t.Rate, burst: t.Burst, tokens: t.Burst}
		v.buckets[key] = b
	}
	return b
}

// A throttleBucket is a token bucket, full at its first use.
type throttleBucket struct {
	rate, burst, tokens float64
	at                  time.Duration
}

func (b *throttleBucket) take(now time.Duration) bool {
	b.tokens = min(b.tokens+b.rate*(now-b.at).Seconds(), b.burst)
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
