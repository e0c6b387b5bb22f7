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
	"example.com/awsretry/internal/pacing"
)

// ErrRateLimited is returned by [RateLimiter.Wait] when there is no send token
// and RateLimitConfig.FailFast is set. The error for a wait that would be longer
// than RateLimitConfig.MaxWait or the context's deadline allows wraps it, as does
// RoundTrip's error if a shared Retry-After ends after the deadline.
var ErrRateLimited = errors.New("awsretry: send rate limited")

// errTooLate is wrapped by the error of a wait that would end after the context's
// deadline.
var errTooLate = errors.New("would not end before the context's deadline")

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

// defaultScaledBeta is the default Beta of ScaledPacing.
const defaultScaledBeta = 0.9

// Pacing is how a [RateLimiter] finds the send rate.
type Pacing int

const (
	// CubicPacing is the arithmetic of the AWS SDKs (AWS SDKs and Tools
	// Reference Guide, "Retry behavior"). It is the zero value.
	CubicPacing Pacing = iota

	// ScaledPacing is the library's own. Its steps are relative to the rate, so
	// it fits services of one request per second as well as of thousands, and
	// slow ones. It cuts the rate once for all requests that were sent before
	// the cut, and it recognizes throttling that does not depend on the rate.
	ScaledPacing
)

// String returns the lower-case name that the command line uses, such as
// scaled.
func (p Pacing) String() string {
	switch p {
	case CubicPacing:
		return "cubic"
	case ScaledPacing:
		return "scaled"
	}
	return fmt.Sprintf("Pacing(%d)", int(p))
}

// A RateLimitConfig configures the send rate limiter of adaptive mode (AWS SDKs
// and Tools Reference Guide, "Retry behavior"). The zero value is the limiter
// of the AWS SDKs, with the defaults of the AWS SDK for Kotlin, "Retries".
type RateLimitConfig struct {
	// Pacing is how the limiter finds the send rate. The zero value is
	// [CubicPacing], the arithmetic of the AWS SDKs.
	Pacing Pacing

	// Beta is the fraction of the send rate that is left after a throttling
	// response, in (0, 1]. 0 means 0.7. For ScaledPacing it must be below 1, and
	// 0 means 0.9.
	Beta float64

	// ScaleConstant is how steeply the rate grows again, in requests per second
	// per second cubed. 0 means 0.4. It is not for ScaledPacing, whose growth
	// is relative to the rate.
	ScaleConstant float64

	// Smoothing is the weight of the newest measurement in the measured rate,
	// in (0, 1]. 0 means 0.8.
	Smoothing float64

	// MinFillRate is the lowest send rate, in requests per second. 0 means 0.5.
	MinFillRate float64

	// MinCapacity is the lowest number of tokens in a full bucket, and so of
	// requests that may be sent at once after a quiet time. It must be 1 or
	// more: a smaller bucket would never hold a whole token. 0 means 1. The
	// bucket holds the tokens of one second, or of a tenth of a second with
	// ScaledPacing, if these are more.
	MinCapacity float64

	// MeasureInterval is the width of the intervals in which outcomes are
	// counted. 0 means 0.5 s. ScaledPacing notices changes late with more than
	// a second.
	MeasureInterval time.Duration

	// FailFast makes Wait return [ErrRateLimited] instead of waiting for a
	// token.
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
	beta := defaultBeta
	if c.Pacing == ScaledPacing {
		beta = defaultScaledBeta
	}
	const positive = "it must be a finite number above 0, or 0 for"
	switch {
	case c.Pacing != CubicPacing && c.Pacing != ScaledPacing:
		return fmt.Errorf("RateLimit.Pacing is %d; it must be CubicPacing (0) or ScaledPacing (1)", int(c.Pacing))
	case !fraction(c.Beta):
		return fmt.Errorf("RateLimit.Beta is %v; it must be in (0, 1], or 0 for %v", c.Beta, beta)
	case c.Pacing == ScaledPacing && c.Beta == 1:
		return fmt.Errorf("RateLimit.Beta is 1; with ScaledPacing it must be in (0, 1), or 0 for %v", beta)
	case c.Pacing == ScaledPacing && c.ScaleConstant != 0:
		return fmt.Errorf("RateLimit.ScaleConstant is %v; it must be 0 with ScaledPacing, which does not use it",
			c.ScaleConstant)
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
// throttles. Throttling responses lower the rate; other outcomes raise it, as
// the [Pacing] says. Before the first throttling response it does not limit.
// [NewRateLimiter] makes one; the zero RateLimiter never limits. It is safe for
// concurrent use.
//
// Call [RateLimiter.Wait] before each attempt and [RateLimiter.UpdateSent] or
// [RateLimiter.Update] after each outcome. Callers who must wait are served
// first come first served.
type RateLimiter struct {
	err      error           // of an invalid configuration
	config   RateLimitConfig // with the defaults; written once
	start    time.Time       // zero of the bucket's clock; written once
	limiting atomic.Bool     // true from the first throttling response on; written with mu held
	bucket   *bucket.Bucket  // of send tokens; nil if err is set, and in the zero RateLimiter

	mu             sync.Mutex    // guards the fields below; locked before the bucket's
	updated        time.Duration // when update was last called, on the bucket's clock
	law            pacing.Law
	leased         *pacing.Leased // the law if many processes share the limiter, or nil
	lapsing        *time.Timer    // calls lapse at the end of the lease; nil before the first one
	lapsed         func()         // see onLapsed; may be nil
	rate, capacity float64        // of the bucket
}

// NewRateLimiter returns a limiter that does not limit yet. If c is invalid,
// every [RateLimiter.Wait] returns an error that names the field and what is
// allowed.
func NewRateLimiter(c RateLimitConfig) *RateLimiter {
	if err := c.validate(); err != nil {
		return &RateLimiter{err: fmt.Errorf("awsretry: %w", err)}
	}
	c.ScaleConstant = cmp.Or(c.ScaleConstant, defaultScaleConstant)
	c.Smoothing = cmp.Or(c.Smoothing, defaultSmoothing)
	c.MinFillRate = cmp.Or(c.MinFillRate, defaultMinFillRate)
	c.MinCapacity = cmp.Or(c.MinCapacity, defaultMinCapacity)
	c.MeasureInterval = cmp.Or(c.MeasureInterval, defaultMeasureInterval)
	start := time.Now()
	return &RateLimiter{config: c, start: start, bucket: bucket.New(start, 0, 0), law: newLaw(c, start)}
}

// newLaw returns the law of a configuration that has its defaults, on a clock
// whose zero is start.
func newLaw(c RateLimitConfig, start time.Time) pacing.Adopter {
	limits := pacing.Limits{MinRate: c.MinFillRate, MinCapacity: c.MinCapacity}
	meter := pacing.NewMeter(start, c.MeasureInterval, c.Smoothing)
	if c.Pacing == ScaledPacing {
		return pacing.NewScaled(limits, meter, cmp.Or(c.Beta, defaultScaledBeta))
	}
	return pacing.NewCubic(limits, meter, cmp.Or(c.Beta, defaultBeta), c.ScaleConstant)
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

// take takes the token of one attempt if it is there. The limiter must limit. It
// returns the send time for the attempt, and reads the clock once.
func (l *RateLimiter) take() (sent time.Duration, ok bool) {
	now, ok := l.bucket.TakeNow(1)
	if !l.needsSendTime() {
		now = notLimited
	}
	return now, ok
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
	return fmt.Errorf("%w: the expected wait of %v %w", ErrRateLimited, tooLong.Expected, errTooLate)
}

// maxWait returns the longest wait that waitInLine begins. ok is false if only
// the context limits it.
func (l *RateLimiter) maxWait() (d time.Duration, ok bool) {
	return l.config.MaxWait, l.config.MaxWait > 0
}

// putBack returns a token that was not used.
func (l *RateLimiter) putBack() { l.bucket.Put(1) }

// limits reports whether Wait takes tokens.
func (l *RateLimiter) limits() bool { return l.limiting.Load() }

// line returns how many callers wait for a send token, and how long a new caller
// would wait at the present send rate.
func (l *RateLimiter) line() (waiting int, expected time.Duration) {
	if !l.limits() {
		return 0, 0
	}
	return l.bucket.Line(1)
}

// expectedWait returns how long a new caller of Wait would wait at the present
// send rate.
func (l *RateLimiter) expectedWait() time.Duration {
	_, expected := l.line()
	return expected
}

// Update counts the outcome of an attempt that was sent just now. throttled is
// true for a throttling response, and false for any other response and for a
// transport error.
func (l *RateLimiter) Update(throttled bool) {
	if l.bucket != nil {
		l.updateAt(l.sendTime(), throttled)
	}
}

// UpdateSent is Update for an attempt that was sent at the given time, which
// [ScaledPacing] makes use of: requests that were sent before the rate was last
// cut do not cut it again. A zero time means before that.
func (l *RateLimiter) UpdateSent(sent time.Time, throttled bool) {
	l.updateAt(sent.Sub(l.start), throttled)
}

// notLimited is the send time of an attempt that took no send token.
const notLimited time.Duration = 0

// sendTime returns the time on the bucket's clock if the limiter uses the send
// time of an attempt that took a token, or notLimited.
func (l *RateLimiter) sendTime() time.Duration {
	if !l.needsSendTime() {
		return notLimited
	}
	return l.bucket.Now()
}

// needsSendTime reports whether the outcome of an attempt depends on when it was
// sent.
func (l *RateLimiter) needsSendTime() bool { return l.config.Pacing != CubicPacing || l.leased != nil }

// updateAt counts the outcome of an attempt. sent is its send time on the
// bucket's clock.
func (l *RateLimiter) updateAt(sent time.Duration, throttled bool) {
	if l.bucket == nil { // not from NewRateLimiter, or from an invalid configuration
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.update(l.bucket.Now(), sent, throttled)
}

// update is updateAt at the time now. It requires that l.mu is held.
func (l *RateLimiter) update(now, sent time.Duration, throttled bool) {
	now = max(now, l.updated) // so that no interval is negative
	l.updated = now
	l.law.Update(now, min(sent, now), throttled)
	if l.lapsed != nil && !l.leased.InForce(now) {
		l.lapsed()
	}
	l.setRate(now)
	if throttled { // not before there is a rate to wait at
		l.limiting.Store(true)
	}
}

// setRate gives the bucket the law's rate. It does not lock the bucket if the
// rate is the same, as it mostly is before the first throttling response.
// It requires that l.mu is held.
func (l *RateLimiter) setRate(now time.Duration) {
	if rate, capacity := l.law.Pace(); rate != l.rate || capacity != l.capacity {
		l.rate, l.capacity = rate, capacity
		l.bucket.SetRate(now, rate, capacity)
	}
}

// Rates returns the measured rate of outcomes, or with ScaledPacing of those
// that were not throttled, and the rate at which send tokens come back, both
// per second. It also returns whether the limiter limits, which it does from
// the first throttling response on. The send rate is 0 until the first
// [RateLimiter.Update], and until the limiter limits with ScaledPacing.
func (l *RateLimiter) Rates() (measured, send float64, limited bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.law == nil {
		return 0, 0, false
	}
	return l.law.Measured(), l.rate, l.limits()
}
