package awsretry

import (
	"fmt"
	"math"
	"net/http"
	"time"

	"example.com/awsretry/internal/announced"
	"example.com/awsretry/internal/bucket"
)

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
	// the cut. It finds out, in half a minute or more, that a share of the
	// requests is throttled whatever the rate is, and keeps the rate then.
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

	// Limits returns what a response announces of the limits of the service.
	// An attempt waits until every limit of its partition has room for it. nil
	// means that responses are not read; [ReadLimits] knows the usual headers.
	// It must not read the body.
	Limits func(*http.Response) []Limit

	// Cost returns what a request takes of the limit of that name, in its units.
	// If Cost is nil, or returns a number that is not above 0, the cost is
	// learned from what remains; at first it is 1.
	Cost func(req *http.Request, limit string) float64

	// Reserve is the part of each quota that is left to others, in [0, 1).
	Reserve float64
}

func (c RateLimitConfig) defaultBeta() float64 {
	if c.Pacing == ScaledPacing {
		return defaultScaledBeta
	}
	return defaultBeta
}

// zero reports whether no number is set.
func (c RateLimitConfig) zero() bool {
	return c.Beta == 0 && c.ScaleConstant == 0 && c.Smoothing == 0 && c.MinFillRate == 0 && c.MinCapacity == 0 &&
		c.MeasureInterval == 0 && !c.FailFast && c.MaxWait == 0 && c.Reserve == 0
}

// validate returns an error that names the first invalid field. The caller adds
// the package's prefix.
func (c RateLimitConfig) validate() error {
	fraction := func(x float64) bool { return x >= 0 && x <= 1 } // 0 is the default
	amount := func(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }
	beta := c.defaultBeta()
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
	case !(c.Reserve >= 0 && c.Reserve < 1):
		return fmt.Errorf("RateLimit.Reserve is %v; it must be in [0, 1)", c.Reserve)
	case c.MaxWait < 0:
		return fmt.Errorf("RateLimit.MaxWait is %v; it must be above 0, or 0 for as long as the context lasts",
			c.MaxWait)
	}
	return nil
}

// A Limit is one of the limits of a service, as one of its responses announces
// it.
type Limit struct {
	Name             string        // such as requests, tokens, or the name of a policy; "" if there is one limit
	Quota, Remaining float64       // in units; Quota 0 means that it is not announced
	Reset            time.Duration // until the quota is whole again; negative means that it is not announced

	// Refills says that units come back steadily, so that Reset is when all have
	// come back. Otherwise the whole quota comes back at once, at the end of a
	// window.
	Refills bool
}

// ReadLimits returns the limits that a response announces in its headers, for
// RateLimitConfig.Limits. It returns nil if there are none, and for a response
// that a cache gave: one with an Age above 0, or with a hit in X-Cache or
// Cache-Status.
//
// It knows RateLimit and RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers,
// drafts 7 to 11); RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset
// (drafts up to 6, and Heroku's alone, and Docker Hub's with a window);
// X-RateLimit-… and X-Rate-Limit-…, as GitHub, Okta and many others send them;
// the same by kind, as OpenAI, Linear, LaunchDarkly and RapidAPI send them, and
// by second, minute, hour and day; Anthropic-RateLimit-…; and those of Shopify,
// HubSpot, Strava and Azure Resource Manager. What cannot be parsed or makes no
// sense is left out, and so are limits of how much may be under way at once.
//
// A limit's name is what the headers name of the resource, the policy or kind,
// the unit if it is not requests, and the partition key. Of two limits of one
// name, the stricter counts. A response has at most eight.
func ReadLimits(resp *http.Response) []Limit {
	if resp == nil {
		return nil
	}
	var known [announced.MostRead]announced.Limit
	read := announced.Append(known[:0], resp.Header, time.Now)
	if len(read) == 0 || announced.FromCache(resp.Header) {
		return nil
	}
	limits := make([]Limit, len(read))
	for i, l := range read {
		limits[i] = Limit(l)
	}
	return limits
}
