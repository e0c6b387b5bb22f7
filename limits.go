package awsretry

import (
	"net/http"
	"time"

	"example.com/awsretry/internal/announced"
)

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
// that a cache gave (one with Age, or a 304).
//
// It knows RateLimit and RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers,
// drafts 7 to 11); RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset
// (drafts up to 6, and Heroku's alone); X-RateLimit-… and X-Rate-Limit-…, as
// GitHub, Okta and many others send them; the same by kind, as OpenAI sends
// them, and by second, minute, hour and day; Anthropic-RateLimit-…; and
// X-Shopify-Shop-Api-Call-Limit. What cannot be parsed or makes no sense is
// left out.
func ReadLimits(resp *http.Response) []Limit {
	if resp == nil || resp.StatusCode == http.StatusNotModified || !announced.In(resp.Header) {
		return nil
	}
	var known [announced.MostRead]announced.Limit
	read := announced.Append(known[:0], resp.Header, time.Now())
	if len(read) == 0 {
		return nil
	}
	limits := make([]Limit, len(read))
	for i, l := range read {
		limits[i] = Limit(l)
	}
	return limits
}
