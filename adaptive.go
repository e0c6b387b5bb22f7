package awsretry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// ErrRateLimited is returned by [RateLimiter.Wait] when there is no send token and RateLimitConfig.FailFast is set, and
// wrapped by its error when the wait for one would be longer than RateLimitConfig.MaxWait or the context's deadline allow.
// RoundTrip's error wraps it too where a Retry-After that is shared ends after the deadline.
var ErrRateLimited = errors.New("awsretry: send rate limited")

// The defaults of AWS SDK for Kotlin, "Retries", for the adaptive strategy's rate limiter.
const (
	defaultBeta            = 0.7
	defaultScaleConstant   = 0.4
	defaultSmoothing       = 0.8
	defaultMinFillRate     = 0.5
	defaultMinCapacity     = 1.0
	defaultMeasureInterval = 500 * time.Millisecond
)

// RateLimitConfig describes the send rate limiter of adaptive mode (AWS SDKs and Tools Reference Guide, "Retry behavior").
// The zero value is that of the AWS SDKs; the defaults are those of AWS SDK for Kotlin, "Retries".
type RateLimitConfig struct {
	// Beta is the part of the send rate that is left after a throttling answer, in (0, 1]. 0 means 0.7.
	Beta float64

	// ScaleConstant says how steeply the rate grows again: requests per second, for each cubed second. 0 means 0.4.
	ScaleConstant float64

	// Smoothing is the weight of the newest measurement in the measured rate, in (0, 1]. 0 means 0.8.
	Smoothing float64

	// MinFillRate is the rate that is always left, in requests per second. 0 means 0.5.
	MinFillRate float64

	// MinCapacity is the least number of tokens that a full bucket holds, and so of requests that may leave at once after a
	// pause. It must be 1 or more, for below that there would never be a whole token. 0 means 1.
	MinCapacity float64

	// MeasureInterval is the width of the intervals in which answers are counted. 0 means 0.5 s.
	MeasureInterval time.Duration

	// FailFast makes Wait return [ErrRateLimited] instead of waiting for a token.
	FailFast bool

	// MaxWait makes Wait return an error that wraps [ErrRateLimited], instead of waiting, when the token is expected to come
	// later than that. 0 means that only the context's deadline limits the wait. FailFast goes before it.
	MaxWait time.Duration
}

// validate returns an error that names the first field that makes no sense. The caller adds the package's prefix.
func (c RateLimitConfig) validate() error {
	part := func(x float64) bool { return x >= 0 && x <= 1 } // 0 is the default
	amount := func(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }
	const positive = "it must be a finite number above 0, or 0 for"
	switch {
	case !part(c.Beta):
		return fmt.Errorf("RateLimit.Beta is %v; it must be in (0, 1], or 0 for %v", c.Beta, defaultBeta)
	case !amount(c.ScaleConstant):
		return fmt.Errorf("RateLimit.ScaleConstant is %v; %s %v", c.ScaleConstant, positive, defaultScaleConstant)
	case !part(c.Smoothing):
		return fmt.Errorf("RateLimit.Smoothing is %v; it must be in (0, 1], or 0 for %v", c.Smoothing, defaultSmoothing)
	case !amount(c.MinFillRate) || c.MinFillRate > 0 && c.MinFillRate < minRate:
		return fmt.Errorf("RateLimit.MinFillRate is %v; it must be a finite number, %.2g (one in 146 years) or more, or 0 for %v",
			c.MinFillRate, minRate, defaultMinFillRate)
	case !amount(c.MinCapacity) || c.MinCapacity > 0 && c.MinCapacity < 1:
		return fmt.Errorf("RateLimit.MinCapacity is %v; it must be a finite number of tokens, 1 or more, or 0 for %v",
			c.MinCapacity, defaultMinCapacity)
	case c.MeasureInterval < 0:
		return fmt.Errorf("RateLimit.MeasureInterval is %v; it must be above 0, or 0 for %v", c.MeasureInterval, defaultMeasureInterval)
	case c.MaxWait < 0:
		return fmt.Errorf("RateLimit.MaxWait is %v; it must be above 0, or 0 for as long as the context lasts", c.MaxWait)
	}
	return nil
}

// A RateLimiter holds back the requests to a service that throttles: it sends as fast as the service last allowed, slows
// down with every throttling answer, and otherwise speeds up again along a cubic curve (CUBIC, the congestion control of
// TCP). Until the first throttling answer it holds nothing back. [NewRateLimiter] makes one; the zero RateLimiter never
// limits. It is safe for concurrent use.
//
// Call [RateLimiter.Wait] before each attempt and [RateLimiter.Update] after each answer. Whoever must wait is served first
// come first served.
type RateLimiter struct {
	err      error           // why the configuration makes no sense
	config   RateLimitConfig // with the defaults filled in; not written after NewRateLimiter
	limiting atomic.Bool     // from the first throttling answer on; written under bucket.mu

	bucket bucket // of send tokens; its mutex guards the fields below too
	meter  meter
	curve  curve
}

// NewRateLimiter returns a limiter that does not limit yet. With a configuration that makes no sense, every
// [RateLimiter.Wait] returns an error that says which field and what is allowed.
func NewRateLimiter(c RateLimitConfig) *RateLimiter {
	if err := c.validate(); err != nil {
		return &RateLimiter{err: fmt.Errorf("awsretry: %w", err)}
	}
	c.Beta = orDefault(c.Beta, defaultBeta)
	c.ScaleConstant = orDefault(c.ScaleConstant, defaultScaleConstant)
	c.Smoothing = orDefault(c.Smoothing, defaultSmoothing)
	c.MinFillRate = orDefault(c.MinFillRate, defaultMinFillRate)
	c.MinCapacity = orDefault(c.MinCapacity, defaultMinCapacity)
	c.MeasureInterval = orDefault(c.MeasureInterval, defaultMeasureInterval)
	c.MaxWait = orDefault(c.MaxWait, math.MaxInt64)
	start := time.Now()
	return &RateLimiter{
		config: c,
		bucket: bucket{start: start},
		meter:  newMeter(start, c.MeasureInterval, c.Smoothing),
		curve:  curve{beta: c.Beta, scale: c.ScaleConstant},
	}
}

// Wait takes the token that one attempt needs, and waits in line for it. Before the first throttling answer it takes nothing and
// returns nil. When ctx has ended, or ends while Wait waits, nothing is taken and the context's cause is returned.
//
// With FailFast, Wait returns [ErrRateLimited] at once when no token is there. Otherwise it returns at once an error that wraps
// ErrRateLimited when the token is expected, at the present send rate, to come later than MaxWait or not before ctx's deadline.
func (l *RateLimiter) Wait(ctx context.Context) error {
	_, err := l.wait(ctx)
	return err
}

// wait is Wait, and reports whether a token was taken.
func (l *RateLimiter) wait(ctx context.Context) (taken bool, err error) {
	if l.err != nil {
		return false, l.err
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if !l.limiting.Load() {
		return false, nil
	}
	switch {
	case !l.config.FailFast:
		err = l.bucket.take(ctx, 1, l.config.MaxWait, ErrRateLimited)
	case !l.bucket.takeNow(1):
		err = ErrRateLimited
	}
	return err == nil, err
}

// expectedWait is how long one who called Wait now would wait, at the present send rate: 0 where the limiter does not limit, and
// clockEnd at most.
func (l *RateLimiter) expectedWait() time.Duration {
	_, expected := l.line()
	return expected
}

// soonest is the least that one who called Wait now would wait, if the send rate
// grew as fast as it can: it doubles in each measurement at most.
func (l *RateLimiter) soonest() time.Duration {
	if !l.limiting.Load() {
		return 0
	}
	l.bucket.mu.Lock()
	defer l.bucket.mu.Unlock()
	growth := math.Ln2 / float64(l.config.MeasureInterval) // of the rate's logarithm, per nanosecond
	rate := l.bucket.rate / float64(time.Second)
	wait := math.Log1p(l.bucket.missing(l.bucket.now(), 1)*growth/rate) / growth
	if !(wait < float64(clockEnd)) {
		return clockEnd
	}
	return time.Duration(wait)
}

// line returns how many wait for a send token, and how long another one would.
func (l *RateLimiter) line() (waiting int, expected time.Duration) {
	if !l.limiting.Load() {
		return 0, 0
	}
	l.bucket.mu.Lock()
	defer l.bucket.mu.Unlock()
	return l.bucket.waiting, l.bucket.expectedWait(l.bucket.now(), 1)
}

// putBack returns a token with which nothing was sent.
func (l *RateLimiter) putBack() {
	l.bucket.mu.Lock()
	defer l.bucket.mu.Unlock()
	l.bucket.put(l.bucket.now(), 1)
}

// Update tells the limiter that an attempt was answered, and whether by throttling. A failure without an answer counts as
// one that was not throttled.
func (l *RateLimiter) Update(throttled bool) {
	if l.config.MeasureInterval == 0 { // not from NewRateLimiter, or with a configuration that makes no sense
		return
	}
	l.bucket.mu.Lock()
	defer l.bucket.mu.Unlock()
	l.update(l.bucket.now(), throttled)
}

// update is Update at a given time. bucket.mu must be held.
func (l *RateLimiter) update(now time.Duration, throttled bool) {
	now = max(now, l.bucket.at) // at was now in the last update, so no interval below is negative
	l.meter.count(now)
	var rate float64
	if throttled {
		lastMax := l.meter.rate
		if l.limiting.Load() {
			lastMax = min(lastMax, l.bucket.rate)
		}
		rate = l.curve.cut(now, lastMax)
		l.limiting.Store(true)
	} else {
		rate = l.curve.grow(now)
	}
	// Twice what is really sent: an idle caller does not earn an ever higher rate.
	rate = min(rate, 2*l.meter.rate)
	l.bucket.setRate(now, max(rate, l.config.MinFillRate), max(rate, l.config.MinCapacity))
}

// Rates returns the measured rate of answers and the rate at which send tokens come back, both per second, and whether the
// limiter limits, which it does from the first throttling answer on. The send rate is 0 until the first [RateLimiter.Update].
func (l *RateLimiter) Rates() (measured, send float64, limited bool) {
	l.bucket.mu.Lock()
	defer l.bucket.mu.Unlock()
	return l.meter.rate, l.bucket.rate, l.limiting.Load()
}

// A meter measures the rate of answers, in intervals that are aligned to the Unix epoch. Times are on the bucket's clock.
type meter struct {
	interval  time.Duration
	smoothing float64
	phase     time.Duration // the clock's zero, counted from the beginning of its interval
	last      time.Duration // beginning of the interval in which the count was begun
	answers   int
	rate      float64 // smoothed, per second
}

// newMeter returns a meter that counts from the whole second of start, which is the clock's zero.
func newMeter(start time.Time, interval time.Duration, smoothing float64) meter {
	phase := time.Duration(start.UnixNano()) % interval
	if phase < 0 {
		phase += interval
	}
	return meter{interval: interval, smoothing: smoothing, phase: phase, last: -time.Duration(start.Nanosecond())}
}

// count counts an answer, and measures when it is the first in a new interval.
func (m *meter) count(now time.Duration) {
	m.answers++
	// Unsigned, because a very long interval's phase and the clock together can pass the greatest Duration; the difference cannot.
	interval := uint64(m.interval)
	begin := time.Duration(uint64(now+m.phase)/interval*interval) - m.phase
	if begin <= m.last {
		return
	}
	rate := float64(m.answers) / (begin - m.last).Seconds()
	m.rate = rate*m.smoothing + m.rate*(1-m.smoothing)
	m.answers, m.last = 0, begin
}

// A curve says how the send rate grows back after throttling: fast, then flat around the rate at which the service last
// throttled, then ever faster.
type curve struct {
	beta, scale float64
	lastMax     float64       // the rate that was throttled
	plateau     float64       // seconds from lastThrottle until lastMax is reached again
	throttledAt time.Duration // last throttling answer; the creation, 0, before there was one
}

// cut begins the curve anew below the rate lastMax that was throttled at now, and returns where it begins.
func (c *curve) cut(now time.Duration, lastMax float64) float64 {
	c.throttledAt = now
	if c.lastMax != lastMax {
		c.lastMax = lastMax
		c.plateau = math.Cbrt(lastMax * (1 - c.beta) / c.scale)
	}
	return lastMax * c.beta
}

// grow returns the curve at now.
func (c *curve) grow(now time.Duration) float64 {
	x := (now - c.throttledAt).Seconds() - c.plateau
	return c.scale*x*x*x + c.lastMax
}
