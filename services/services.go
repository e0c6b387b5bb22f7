// Package services knows what well-known services say in their own way: which
// failures are throttling, how long to wait, what their limits count, and what
// makes a write safe to repeat.
//
//	t := &awsretry.Transport{}
//	services.GitHub.Apply(t)
//	client := &http.Client{Transport: t}
//
// Each is what its service's documentation said at the date beside it. A service
// that is not here is a [Service] of your own.
package services

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"example.com/awsretry"
)

// A Service is what a service says in its own way, as fields of a Transport. The
// zero value says nothing.
type Service struct {
	Policy         awsretry.Policy
	RetryAfter     func(resp *http.Response, body []byte) (time.Duration, bool)
	MaxRetryAfter  time.Duration
	Limits         func(*http.Response) []awsretry.Limit // in Adaptive mode
	Partition      func(*http.Request) string
	IdempotencyKey func(*http.Request) string

	// Peek is also what lets Policy see the bodies of errors.
	Peek func(resp *http.Response, body []byte) (more bool)
}

// Apply sets what t leaves unset. A Policy of t's own may call the Service's.
// Apply must be called before t is used.
func (s Service) Apply(t *awsretry.Transport) {
	if t.Policy == nil {
		t.Policy = s.Policy
	}
	if t.RetryAfter == nil {
		t.RetryAfter = s.RetryAfter
	}
	if t.MaxRetryAfter == 0 {
		t.MaxRetryAfter = s.MaxRetryAfter
	}
	if t.RateLimit.Limits == nil && t.Mode == awsretry.Adaptive {
		t.RateLimit.Limits = s.Limits
	}
	if t.Partition == nil {
		t.Partition = s.Partition
	}
	if t.IdempotencyKey == nil {
		t.IdempotencyKey = s.IdempotencyKey
	}
	if t.Peek == nil {
		t.Peek = s.Peek
	}
}

// errorsOnly is a Peek for policies that need the bodies of errors alone.
func errorsOnly(*http.Response, []byte) (more bool) { return false }

// decode decodes a body into v, which is left as it is if the body is cut.
func decode(body []byte, v any) { _ = json.Unmarshal(body, v) }

// untilReset returns how long the limits that the response announces forbid
// another request.
func untilReset(resp *http.Response) (wait time.Duration, ok bool) {
	for _, l := range awsretry.ReadLimits(resp) {
		if l.Remaining < 1 && l.Reset >= 0 {
			wait, ok = max(wait, l.Reset), true
		}
	}
	return wait, ok
}

// milliseconds returns a header that is a number of milliseconds.
func milliseconds(h http.Header, names ...string) (time.Duration, bool) {
	for _, name := range names {
		ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get(name)), 64)
		if err == nil && ms >= 0 && ms < float64(math.MaxInt64/time.Millisecond) {
			return time.Duration(ms * float64(time.Millisecond)), true
		}
	}
	return 0, false
}

// obeying returns a policy for services that say in a header whether a failure is
// to be retried. Where they do not, a 409, a lock that was not free, is transient,
// and policy has the rest.
func obeying(header string, policy awsretry.Policy) awsretry.Policy {
	return func(a *awsretry.Attempt) awsretry.Class {
		class := policy(a)
		if a.Response == nil || a.Response.StatusCode < 400 {
			return class
		}
		switch a.Response.Header.Get(header) {
		case "true":
			if !class.Retryable() {
				return awsretry.Transient
			}
		case "false":
			return awsretry.Permanent
		default:
			if a.Response.StatusCode == http.StatusConflict {
				return awsretry.Transient
			}
		}
		return class
	}
}

// path returns the path that a response is the answer to.
func path(resp *http.Response) string {
	if resp.Request == nil {
		return ""
	}
	return resp.Request.URL.Path
}

// host returns the host of a request as the default partition has it.
func host(req *http.Request) string { return strings.ToLower(req.URL.Host) }
