package awsretry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"example.com/awsretry/internal/bucket"
)

// ErrRateLimited is returned by [RateLimiter.Wait] when there is no send token
// and RateLimitConfig.FailFast is set. The error of a wait that would be longer
// than RateLimitConfig.MaxWait or the context's deadline allow wraps it. So
// does RoundTrip's error where a shared Retry-After ends after the deadline.
var ErrRateLimited = errors.New("awsretry: send rate limited")

// The defaults for the adaptive strategy's rate limiter (AWS SDK for Kotlin,
// "Retries").
const (
	defaultBeta            = 0.7
	defaultScaleConstant   = 0.4
	defaultSmoothing       = 0.8
	defaultMinFillRate     = 0.5
	defaultMinCapacity     = 1.0
	defaultMeasureInterval = 500 * time.Millisecond
)

// A RateLimitConfig configures the send rate limiter of adaptive mode (AWS SDKs
// and Tools Reference Guide, "Retry behavior"). The zero value is the limiter
// of the AWS SDKs, with the defaults of the AWS SDK for Kotlin, "Retries".
type RateLimitConfig struct {
	// Beta is the fraction of the send rate that is left after a throttling
	// response, in (0, 1]. 0 means 0.7.
	Beta float64

	// ScaleConstant is how steeply the rate grows again, in requests per second
	// per second cubed. 0 means 0.4.
	ScaleConstant float64

	// Smoothing is the weight of the newest measurement in the measured rate,
	// in (0, 1]. 0 means 0.8.
	Smoothing float64

	// MinFillRate is the lowest send rate, in requests per second. 0 means 0.5.
	MinFillRate float64

	// MinCapacity is the lowest number of tokens in a full bucket, and so of
	// requests that may be sent at once after a quiet time. It must be 1 or
	// more: a smaller bucket would never hold a whole token. 0 means 1.
	MinCapacity float64

	// MeasureInterval is the width of the intervals in which outcomes are
	// counted. 0 means 0.5 s.
	MeasureInterval time.Duration

	// FailFast makes Wait return [ErrRateLimited] instead of
	// waiting for a token.
	FailFast bool

	// MaxWait makes Wait return an error that wraps [ErrRateLimited] at once,
	// instead of waiting, when the token is expected after a longer time. 0
	// means that only the context's deadline limits the wait. FailFast
	// overrides it.
	MaxWait time.Duration
}

// validate returns an error that names the first invalid field. The caller adds
// the package's prefix.
func (c RateLimitConfig) validate() error {
	fraction := func(x float64) bool { return x >= 0 && x <= 1 } // 0 is the default
	amount := func(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }
	const positive = "it must be a finite number above 0, or 0 for"
	switch {
	case !fraction(c.Beta):
		return fmt.Errorf("RateLimit.Beta is %v; it must be in (0, 1], or 0 for %v", c.Beta, defaultBeta)
	case !amount(c.ScaleConstant):
		return fmt.Errorf("RateLimit.ScaleConstant is %v; %s %v", c.ScaleConstant, positive, defaultScaleConstant)
	case !fraction(c.Smoothing):
		return fmt.Errorf("RateLimit.Smoothing is %v; it must be in (0, 1], or 0 for %v", c.Smoothing, defaultSmoothing)
	case !amount(c.MinFillRate) || c.MinFillRate > 0 && c.MinFillRate < bucket.MinRate:
		return fmt.Errorf(
			"RateLimit.MinFillRate is %v; it must be a finite number, %.2g (one in 146 years) or more, or 0 for %v",
			c.MinFillRate, bucket.MinRate, defaultMinFillRate)
	case !amount(c.MinCapacity) || c.MinCapacity > 0 && c.MinCapacity < 1:
		return fmt.Errorf("RateLimit.MinCapacity is %v; it must be a finite number of tokens, 1 or more, or 0 for %v",
			c.MinCapacity, defaultMinCapacity)
	case c.MeasureInterval < 0:
		return fmt.Errorf("RateLimit.MeasureInterval is %v; it must be above 0, or 0 for %v",
			c.MeasureInterval, defaultMeasureInterval)
	case c.MaxWait < 0:
		return fmt.Errorf("RateLimit.MaxWait is %v; it must be above 0, or 0 for as long as the context lasts",
			c.MaxWait)
	}
	return nil
}

// A RateLimiter limits the rate at which requests are sent to a service that
// throttles. Each throttling response lowers the rate; other outcomes raise it
// along a cubic curve (CUBIC, a congestion control of TCP). Before the first
// throttling response it does not limit. [NewRateLimiter] makes one; the zero
// RateLimiter never limits. It is safe for concurrent use.
//
// Call [RateLimiter.Wait] before each attempt and [RateLimiter.Update] after
// each outcome. Callers who must wait are served first come first served.
type RateLimiter struct {
	err      error           // of an invalid configuration
	config   RateLimitConfig // with the defaults; written once
	limiting atomic.Bool     // true from the first throttling response on; written with mu held
	bucket   *bucket.Bucket  // of send tokens; nil where err is set, and in the zero RateLimiter

	mu             sync.Mutex    // guards the fields below; locked before the bucket's
	updated        time.Duration // when update was last called, on the bucket's clock
	meter          meter
	curve          curve
	rate, capacity float64 // of the bucket
}

// NewRateLimiter returns a limiter that does not limit yet. If c is invalid,
// every [RateLimiter.Wait] returns an error that names the field and what is
// allowed.
func NewRateLimiter(c RateLimitConfig) *RateLimiter {
	if err := c.validate(); err != nil {
		return &RateLimiter{err: fmt.Errorf("awsretry: %w", err)}
	}
	c.Beta = cmp.Or(c.Beta, defaultBeta)
	c.ScaleConstant = cmp.Or(c.ScaleConstant, defaultScaleConstant)
	c.Smoothing = cmp.Or(c.Smoothing, defaultSmoothing)
	c.MinFillRate = cmp.Or(c.MinFillRate, defaultMinFillRate)
	c.MinCapacity = cmp.Or(c.MinCapacity, defaultMinCapacity)
	c.MeasureInterval = cmp.Or(c.MeasureInterval, defaultMeasureInterval)
	return &RateLimiter{
		config: c,
		bucket: bucket.New(0, 0),
		meter:  newMeter(time.Now(), c.MeasureInterval, c.Smoothing),
		curve:  curve{beta: c.Beta, scale: c.ScaleConstant},
	}
}

// Wait takes the token that one attempt needs, and waits in line for it. Before
// the first throttling response it takes nothing and returns nil. If ctx has
// ended, or ends during the wait, it takes nothing and returns the context's
// cause.
//
// With FailFast, Wait returns [ErrRateLimited] at once when there is no token.
// Otherwise it returns an error that wraps ErrRateLimited at once when the
// token, at the present send rate, is expected after more than MaxWait or not
// before ctx's deadline.
func (l *RateLimiter) Wait(ctx context.Context) error {
	_, err := l.wait(ctx)
	return err
}

// wait is Wait, and reports whether it took a token.
func (l *RateLimiter) wait(ctx context.Context) (taken bool, err error) {
	if l.err != nil {
		return false, l.err
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if !l.limits() {
		return false, nil
	}
	switch {
	case !l.config.FailFast:
		err = l.waitInLine(ctx)
	case !l.bucket.Take(1):
		err = ErrRateLimited
	}
	return err == nil, err
}

// waitInLine takes a token, and waits in line for it.
func (l *RateLimiter) waitInLine(ctx context.Context) error {
	maxWait, limited := l.maxWait()
	var err error
	if limited {
		err = l.bucket.WaitAtMost(ctx, 1, maxWait)
	} else {
		err = l.bucket.Wait(ctx, 1)
	}
	if err == nil {
		return nil
	}
	var tooLong *bucket.TooLongError
	switch {
	case !errors.As(err, &tooLong):
		return err
	case limited && tooLong.Expected > maxWait:
		return fmt.Errorf("%w: the expected wait of %v is longer than MaxWait, %v",
			ErrRateLimited, tooLong.Expected, maxWait)
	}
	return fmt.Errorf("%w: the expected wait of %v would not end before the context's deadline",
		ErrRateLimited, tooLong.Expected)
}

// maxWait returns the longest expected wait that is begun. ok is false where
// only the context limits it.
func (l *RateLimiter) maxWait() (d time.Duration, ok bool) {
	return l.config.MaxWait, l.config.MaxWait > 0
}

// putBack returns a token that nothing was sent with.
func (l *RateLimiter) putBack() { l.bucket.Put(1) }

// limits reports whether Wait takes tokens.
func (l *RateLimiter) limits() bool { return l.limiting.Load() }

// line returns how many wait for a send token, and how long another one would
// wait at the present send rate.
func (l *RateLimiter) line() (waiting int, expected time.Duration) {
	if !l.limits() {
		return 0, 0
	}
	return l.bucket.Line(1)
}

// expectedWait returns how long one who called Wait now would wait at the
// present send rate.
func (l *RateLimiter) expectedWait() time.Duration {
	_, expected := l.line()
	return expected
}

// soonest returns the least that one who called Wait now would wait if the send
// rate grew as fast as it can: each measurement at most doubles it.
func (l *RateLimiter) soonest() time.Duration {
	if !l.limits() {
		return 0
	}
	growth := math.Ln2 / float64(l.config.MeasureInterval) // of the rate's logarithm, per nanosecond
	return time.Duration(math.Log1p(float64(l.expectedWait())*growth) / growth)
}

// Update counts the outcome of an attempt. throttled is true for a throttling
// response, and false for any other response and for a transport error.
func (l *RateLimiter) Update(throttled bool) {
	if l.bucket == nil { // not from NewRateLimiter, or from an invalid configuration
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.update(l.bucket.Now(), throttled)
}

// update is Update at the time now. It requires that l.mu is held.
func (l *RateLimiter) update(now time.Duration, throttled bool) {
	now = max(now, l.updated) // so that no interval is negative
	l.updated = now
	l.meter.count(now)
	rate := l.cubicRate(now, throttled)
	l.setRate(now, max(rate, l.config.MinFillRate), max(rate, l.config.MinCapacity))
	if throttled {
		l.limiting.Store(true) // not before there is a rate to wait at
	}
}

// cubicRate returns the send rate after an outcome at now, by the arithmetic of
// the AWS SDKs. It requires that l.mu is held.
func (l *RateLimiter) cubicRate(now time.Duration, throttled bool) float64 {
	measured := l.meter.rate
	var rate float64
	switch {
	case throttled && l.limits():
		rate = l.curve.cut(now, min(measured, l.rate))
	case throttled:
		rate = l.curve.cut(now, measured)
	default:
		rate = l.curve.grow(now)
	}
	return min(rate, 2*measured) // a caller who sends little does not earn an ever higher rate
}

// setRate changes the bucket's rate and capacity. It does not lock the bucket
// where they stay, as they mostly do before the first throttling.
// It requires that l.mu is held.
func (l *RateLimiter) setRate(now time.Duration, rate, capacity float64) {
	if rate != l.rate || capacity != l.capacity {
		l.rate, l.capacity = rate, capacity
		l.bucket.SetRate(now, rate, capacity)
	}
}

// Rates returns the measured rate of outcomes and the rate at which send tokens
// come back, both per second, and whether the limiter limits, which it does
// from the first throttling response on. The send rate is 0 until the first
// [RateLimiter.Update].
func (l *RateLimiter) Rates() (measured, send float64, limited bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.meter.rate, l.rate, l.limits()
}

// A meter measures the rate of outcomes, in intervals that are aligned to the
// Unix epoch. Its times are on the bucket's clock.
type meter struct {
	interval  time.Duration
	smoothing float64
	phase     time.Duration // from the beginning of an interval to the clock's zero
	last      time.Duration // beginning of the interval in which the count began
	outcomes  int
	rate      float64 // smoothed, per second
}

// newMeter returns a meter for a clock whose zero is start. It counts from the
// whole second of start on.
func newMeter(start time.Time, interval time.Duration, smoothing float64) meter {
	phase := time.Duration(start.UnixNano()) % interval
	if phase < 0 {
		phase += interval
	}
	return meter{interval: interval, smoothing: smoothing, phase: phase, last: -time.Duration(start.Nanosecond())}
}

// count counts an outcome. The first one of an interval updates the rate.
func (m *meter) count(now time.Duration) {
	m.outcomes++
	// A sum of now and phase may exceed the greatest Duration, but not the
	// greatest uint64.
	interval := uint64(m.interval)
	begin := time.Duration(uint64(now+m.phase)/interval*interval) - m.phase
	if begin <= m.last {
		return
	}
	rate := float64(m.outcomes) / (begin - m.last).Seconds()
	m.rate = rate*m.smoothing + m.rate*(1-m.smoothing)
	m.outcomes, m.last = 0, begin
}

// A curve is the send rate as a cubic function of the time since the last
// throttling response. It rises fast, then hardly around the rate that was
// throttled, then ever faster.
type curve struct {
	beta, scale float64
	lastMax     float64       // rate that was throttled
	plateau     float64       // seconds from throttledAt until the rate is lastMax again
	throttledAt time.Duration // 0, the creation, before the first throttling
}

// cut starts the curve again below lastMax, the rate that was throttled at now,
// and returns the rate there.
func (c *curve) cut(now time.Duration, lastMax float64) float64 {
	c.throttledAt = now
	if c.lastMax != lastMax {
		c.lastMax = lastMax
		c.plateau = math.Cbrt(lastMax * (1 - c.beta) / c.scale)
	}
	return lastMax * c.beta
}

// grow returns the rate at now.
func (c *curve) grow(now time.Duration) float64 {
	x := (now - c.throttledAt).Seconds() - c.plateau
	return c.scale*x*x*x + c.lastMax
}
