package simulate

import (
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"sync"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// A service is the RoundTripper below every client: the modeled service and the
// network in front of it. The script is known and the queue serves in order, so
// a request's fate is known when it arrives, and a request costs one sleep.
type service struct {
	grid   grid
	script script
	record *recorder

	queue      float64
	queueFull  int // status
	refuseCost float64
	failsFast  bool
	network    time.Duration
	end        time.Duration // of the run; later events are not counted
	latency    scenario.Latency
	spread     float64 // of a lognormal latency: the standard deviation of its logarithm
	refusals   map[*scenario.Throttle]refusal
	bodies     *bodies // nil: responses have none

	// mu guards the fields below. In virtual time there is no contention,
	// because requests arrive at different instants.
	mu sync.Mutex
	at int // index of the current segment
	// passed is the work that the queue will have passed, in requests since the
	// run's start, when it is empty.
	passed  float64
	most    float64 // of backlog
	refused int     // requests that found the queue full
	buckets map[throttleOf]*throttleBucket
}

// A throttleOf names a bucket of a throttle.
type throttleOf struct {
	throttle *scenario.Throttle
	client   int // -1: all
}

// newService returns the service of s, which must be valid and have
// its defaults.
func newService(s scenario.Scenario, g grid, record *recorder) *service {
	v := &service{
		grid: g, script: newScript(s), record: record,
		queue:      float64(s.Service.Queue),
		queueFull:  s.Service.QueueFull,
		refuseCost: s.Service.RefuseCost,
		failsFast:  s.Service.ErrorsAtOnce,
		network:    time.Duration(s.Service.Network),
		end:        ends(s),
		latency:    s.Service.Latency,
		refusals:   map[*scenario.Throttle]refusal{},
		bodies:     newBodies(s.Service.Body),
		buckets:    map[throttleOf]*throttleBucket{},
	}
	if v.latency.Distribution == scenario.Lognormal {
		v.spread = v.latency.Deviation()
	}
	for _, segment := range v.script {
		if t := segment.throttle; t != nil {
			v.refusals[t] = newRefusal(t, g.start)
		}
	}
	return v
}

// A fate is the outcome of a request.
type fate struct {
	at     time.Duration // of the response; never: it has none
	status int           // 0: the connection breaks
	refusal
	limits http.Header // what is announced; nil: nothing
}

var errBroken = fmt.Errorf("simulate: the connection breaks: %w", io.ErrUnexpectedEOF)

// RoundTrip implements http.RoundTripper. It runs on the goroutine of the call.
func (v *service) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	c, err := callOf(req)
	if err != nil {
		return nil, err
	}
	now, ok := v.grid.align(ctx, c)
	if !ok {
		return nil, ctx.Err()
	}
	c.attempts++
	v.record.count(v.record.series.Attempts, now)
	f := v.arrive(now, c)
	if f.at != never {
		f.at = v.grid.near(c.owner, f.at)
	}
	if !v.grid.wait(ctx, c.owner, f.at) {
		v.record.count(v.record.series.Lost, v.grid.now())
		return nil, ctx.Err()
	}
	v.responded(f.at, f.status)
	if f.status == 0 {
		return nil, errBroken
	}
	var resp *http.Response
	if f.status == http.StatusOK && v.bodies != nil {
		resp = v.response(req, c, f.at)
	} else {
		resp = f.response(f.status, req)
	}
	if f.limits != nil {
		maps.Copy(f.limits, resp.Header)
		resp.Header = f.limits
	}
	return resp, nil
}

// responded counts a response that is a failure.
func (v *service) responded(t time.Duration, status int) {
	switch {
	case status == http.StatusTooManyRequests:
		v.record.count(v.record.series.Throttled, t)
	case status == 0 || status >= 400:
		v.record.count(v.record.series.Errors, t)
	}
}

// arrive decides the fate of a request that arrives now.
func (v *service) arrive(now time.Duration, c *call) fate {
	v.mu.Lock()
	defer v.mu.Unlock()
	f := v.decide(now, c)
	if t := v.script[v.at].throttle; t != nil && t.Announces != "" && f.status != 0 {
		f.limits = v.bucket(t, c).announce(t, now, v.grid.start)
	}
	return f
}

// decide is arrive without what is announced. It requires that v.mu is locked.
func (v *service) decide(now time.Duration, c *call) fate {
	for v.at+1 < len(v.script) && v.script[v.at+1].from <= now {
		v.at++
		if v.script[v.at].how != "" {
			v.passed = 0 // an outage empties the queue
		}
	}
	g := v.script[v.at]
	refused := now + v.network
	fails := g.share > 0 && unit(random(c.id, uint64(c.attempts), forError)) < g.share
	switch {
	case g.how != "":
		return failure(g.how, refused)
	case g.throttle != nil && !v.admits(g, c, now):
		v.work(now, g, v.refuseCost)
		return fate{at: refused, status: http.StatusTooManyRequests, refusal: v.refusals[g.throttle]}
	case math.Ceil(v.passed-g.workedAt(now)-workSlack) > v.queue: // one is served, the others wait
		v.work(now, g, v.refuseCost)
		if now < v.end {
			v.refused++
		}
		return fate{at: refused, status: v.queueFull, refusal: plain}
	}
	if fails && v.failsFast {
		v.work(now, g, v.refuseCost)
		return fate{at: refused, status: http.StatusInternalServerError, refusal: plain}
	}
	v.work(now, g, 1)
	done := v.script.passes(v.at, v.passed)
	if done != never {
		done += span(float64(v.sample(c)) * g.factor)
	}
	from, how := v.script.outageAfter(v.at)
	if g.throttle != nil && g.throttle.InFlight > 0 {
		v.bucket(g.throttle, c).occupy(min(done, from))
	}
	if done > from {
		return failure(how, from+v.network)
	}
	status := http.StatusOK
	if fails {
		status = http.StatusInternalServerError
	}
	return fate{at: done + v.network, status: status, refusal: plain}
}

// workSlack absorbs the rounding of sums of fractions: ten tenths of a request
// are a whole one.
const workSlack = 1e-9

// failure returns the fate of a request in an outage, at the given instant.
func failure(how string, at time.Duration) fate {
	switch how {
	case scenario.OutageHang:
		return fate{at: never}
	case scenario.OutageReset:
		return fate{at: at}
	}
	return fate{at: at, status: http.StatusServiceUnavailable, refusal: plain}
}

// work adds an amount of work to the queue, in requests. It requires that v.mu is
// locked.
func (v *service) work(now time.Duration, g segment, amount float64) {
	v.passed = max(v.passed, g.workedAt(now)) + amount
	if now < v.end {
		v.most = max(v.most, v.passed-g.workedAt(now))
	}
}

// backlog returns the remaining work of the service at an instant, in requests:
// those in the queue, the one in service, and the cost of refusing others.
func (v *service) backlog(now time.Duration) float64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	g := v.script.segmentAt(now)
	if g.how != "" {
		return 0
	}
	return max(v.passed-g.workedAt(now), 0)
}

// sample draws a latency for the call's attempt.
func (v *service) sample(c *call) time.Duration {
	attempt := uint64(c.attempts)
	median := time.Duration(v.latency.Median)
	switch v.latency.Distribution {
	case scenario.Exponential:
		return exponential(random(c.id, attempt, forLatency), float64(median)/math.Ln2)
	case scenario.Tabulated:
		return quantile(v.latency.Table, unit(random(c.id, attempt, forLatency)))
	case scenario.Lognormal:
		z := normal(random(c.id, attempt, forLatency), random(c.id, attempt, forSpread))
		return span(float64(median) * math.Exp(v.spread*z))
	}
	return median
}

// admits reports whether the segment's throttle admits the call's attempt, and
// takes the attempt's token. It requires that v.mu is locked.
func (v *service) admits(g segment, c *call, now time.Duration) bool {
	t, b := g.throttle, v.bucket(g.throttle, c)
	switch {
	case now < b.banned:
		return false
	case g.throttled > 0 && unit(random(c.id, uint64(c.attempts), forThrottle)) < g.throttled,
		t.InFlight > 0 && b.working(now) >= t.InFlight,
		t.Rate > 0 && !b.take(now):
		b.banned = now + time.Duration(t.Ban)
		return false
	}
	return true
}

// bucket returns the throttle's bucket for the call. It requires that v.mu is
// locked.
func (v *service) bucket(t *scenario.Throttle, c *call) *throttleBucket {
	key := throttleOf{t, -1}
	if t.PerClient {
		key.client = c.client
	}
	b := v.buckets[key]
	if b == nil {
		b = &throttleBucket{rate: t.Rate, burst: t.Burst, window: time.Duration(t.Window), tokens: t.Burst}
		v.buckets[key] = b
	}
	return b
}
