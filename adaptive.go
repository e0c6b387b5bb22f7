package awsretry

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"example.com/awsretry/internal/announced"
	"example.com/awsretry/internal/invalid"
	"example.com/awsretry/internal/limitheaders"
	"example.com/awsretry/internal/pacer"
)

// ErrRateLimited is returned by [RateLimiter.Wait] when there is no send token
// and RateLimitConfig.FailFast is set. The error for a wait that would be longer
// than RateLimitConfig.MaxWait or the context's deadline allows wraps it, as does
// RoundTrip's error if a shared Retry-After ends after the deadline.
var ErrRateLimited = pacer.ErrRateLimited

// A RateLimiter limits the rate at which requests are sent to a service that throttles,
// from the first throttling response on. Throttling responses lower the rate; other
// outcomes raise it, as the [Pacing] says. Call [RateLimiter.Wait] before each attempt and
// [RateLimiter.UpdateSent] or [RateLimiter.Update] after each outcome. Callers who must
// wait are served first come first served. [NewRateLimiter] makes one; the zero
// RateLimiter never limits. It is safe for concurrent use.
type RateLimiter struct {
	err   error        // of an invalid configuration
	pacer *pacer.Pacer // nil if err is set, and in the zero RateLimiter
}

// NewRateLimiter returns a limiter that does not limit yet. If c is invalid,
// every [RateLimiter.Wait] returns an error that names the field and what is
// allowed.
func NewRateLimiter(c RateLimitConfig) *RateLimiter {
	if err := c.validate(); err != nil {
		return &RateLimiter{err: fmt.Errorf("awsretry: %w", err)}
	}
	return &RateLimiter{pacer: pacer.New(c.forPacer())}
}

// inCommon names the pacing, and the fields that are not the usual ones of it, for
// those who share a rate. Each process may have its own FailFast and MaxWait.
func (c RateLimitConfig) inCommon() string {
	is, usual := c.forPacer().WithDefaults(), RateLimitConfig{Pacing: c.Pacing}.forPacer().WithDefaults()
	return c.Pacing.String() + unusual("Beta", is.Beta, usual.Beta) +
		unusual("ScaleConstant", is.ScaleConstant, usual.ScaleConstant) + unusual("Smoothing", is.Smoothing, usual.Smoothing) +
		unusual("MinFillRate", is.MinFillRate, usual.MinFillRate) + unusual("MinCapacity", is.MinCapacity, usual.MinCapacity) +
		unusual("MeasureInterval", is.MeasureInterval, usual.MeasureInterval) + unusual("Reserve", is.Reserve, 0)
}

// forPacer returns c as package pacer has it.
func (c RateLimitConfig) forPacer() pacer.Config {
	return pacer.Config{
		Scaled: c.Pacing == ScaledPacing, Beta: c.Beta, ScaleConstant: c.ScaleConstant, Smoothing: c.Smoothing,
		MinFillRate: c.MinFillRate, MinCapacity: c.MinCapacity, MeasureInterval: c.MeasureInterval,
		Limits: c.Limits != nil, Reserve: c.Reserve, Cost: c.Cost, FailFast: c.FailFast, MaxWait: c.MaxWait,
	}
}

// Wait takes the token that one attempt needs, and waits in line for it. Before the
// first throttling response it takes nothing and returns nil. If ctx has ended, or ends
// during the wait, it takes nothing and returns the context's cause. It returns
// [ErrRateLimited] at once if there is no token and FailFast is set, and an error that
// wraps it if the token, at the current send rate, is expected after more than MaxWait
// or not before ctx's deadline.
func (l *RateLimiter) Wait(ctx context.Context) error {
	switch {
	case l.err != nil:
		return l.err
	case l.pacer == nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case l.pacer == nil:
		return nil
	}
	_, _, err := l.pacer.Wait(ctx, announced.Request{})
	return err
}

// Update counts the outcome of an attempt that was sent just now. throttled is
// true for a throttling response, and false for any other response and for a
// transport error.
func (l *RateLimiter) Update(throttled bool) {
	if l.pacer != nil {
		l.pacer.UpdateNow(throttled)
	}
}

// UpdateSent is Update for an attempt that was sent at the given time. With
// [ScaledPacing], requests that were sent before the last cut of the rate do not
// cut it again. A zero time means before that cut.
func (l *RateLimiter) UpdateSent(sent time.Time, throttled bool) {
	if l.pacer != nil {
		l.pacer.UpdateSent(sent, throttled)
	}
}

// Rates returns the measured rate of outcomes, or with ScaledPacing of those
// that were not throttled, and the rate at which send tokens come back, both
// per second. It also returns whether the limiter limits, which it does from
// the first throttling response on. The send rate is 0 until the first
// [RateLimiter.Update], and until the limiter limits with ScaledPacing.
func (l *RateLimiter) Rates() (measured, send float64, limited bool) {
	if l.pacer == nil {
		return 0, 0, false
	}
	return l.pacer.Rates()
}

// Announce passes on the limits that a response announced. sent is when its request
// was sent. From then on, Wait also waits until every limit has room for a request.
// If nothing remains of one of the limits, the request may have been refused. Call
// Announce before [RateLimiter.UpdateSent].
//
// Wait counts a request as in flight until Update or UpdateSent. A limit is
// forgotten if a response after its reset does not announce it.
func (l *RateLimiter) Announce(sent time.Time, limits []Limit) {
	if l.pacer == nil {
		return
	}
	var known [limitheaders.MostRead]limitheaders.Limit
	l.pacer.AnnounceSent(sent, asAnnounced(known[:0], limits))
}

// Pacing is how a [RateLimiter] finds the send rate.
type Pacing int

const (
	// CubicPacing is the arithmetic of the AWS SDKs (AWS SDKs and Tools
	// Reference Guide, "Retry behavior"). It is the zero value.
	CubicPacing Pacing = iota

	// ScaledPacing is the library's own. Its steps are relative to the rate, so
	// it fits services of one request per second as well as of thousands, and
	// slow ones. It cuts the rate once for all requests that were sent before
	// the cut. If a share of the requests is throttled at any rate, it detects
	// this in half a minute or more, and then keeps the rate.
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
	// [CubicPacing], the arithmetic of the AWS SDKs. In a Transport, ScaledPacing
	// needs Adaptive mode.
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
	// token. With CubicPacing and less than two calls per second, MinCapacity
	// should be 2, or up to a quarter of the calls is refused for good.
	FailFast bool

	// MaxWait makes Wait return an error that wraps [ErrRateLimited] at once,
	// instead of waiting, when the token is expected after a longer time. 0
	// means that only the context's deadline limits the wait. FailFast
	// overrides it.
	MaxWait time.Duration

	// Limits returns the limits of the service that a response announces. An
	// attempt waits until every limit of its partition has room for it. Nil means
	// that responses are not read; [ReadLimits] knows the usual headers. Limits
	// must not read the body.
	Limits func(*http.Response) []Limit

	// Cost returns how many units a request takes from the named limit.
	// If Cost is nil, or returns a number that is not above 0, the cost is
	// learned from what remains; at first it is 1.
	Cost func(req *http.Request, limit string) float64

	// Reserve is the fraction of each quota that is left to others, in [0, 1).
	Reserve float64
}

// validate returns an error that names the first invalid field. The caller adds
// the package's prefix.
func (c RateLimitConfig) validate() error {
	return cmp.Or(
		invalid.Check(c.Pacing == CubicPacing || c.Pacing == ScaledPacing,
			"RateLimit.Pacing", int(c.Pacing), "CubicPacing (0) or ScaledPacing (1)"),
		c.forPacer().Validate(),
	)
}

// A Limit is one of the limits of a service, as announced by one of its responses.
type Limit struct {
	Name             string        // such as requests, tokens, or the name of a policy; "" if the service names none
	Quota, Remaining float64       // in units; Quota 0 means that it is not announced
	Reset            time.Duration // until the quota is whole again; negative means that it is not announced

	// Refills reports that units come back steadily, and that all are back after
	// Reset. Otherwise the whole quota comes back at once, at the end of a window.
	Refills bool
}

// asAnnounced appends limits to known, as package limitheaders has them.
func asAnnounced(known []limitheaders.Limit, limits []Limit) []limitheaders.Limit {
	for _, limit := range limits {
		known = append(known, limitheaders.Limit(limit))
	}
	return known
}

// ReadLimits returns the limits that a response announces in its headers, at most
// eight, for RateLimitConfig.Limits. docs/LIMITS.md lists the headers that it knows.
// It ignores invalid values and concurrency limits, and returns nil for a response
// from a cache. A limit's name has the resource, the policy or kind with any prefix
// but X and Anthropic, the unit if it is not requests, and the partition key, as far as
// the headers name them. Of two limits with the same name, the stricter counts.
func ReadLimits(resp *http.Response) []Limit {
	if resp == nil {
		return nil
	}
	var known [limitheaders.MostRead]limitheaders.Limit
	read := limitheaders.Append(known[:0], resp.Header, time.Now)
	if len(read) == 0 {
		return nil
	}
	limits := make([]Limit, len(read))
	for i, l := range read {
		limits[i] = Limit(l)
	}
	return limits
}
