// Package retrytest is for tests of code that sends requests through an
// awsretry.Transport. A [Base] takes the place of the service: it follows a
// script and records what was sent. [NoWait] removes the delays.
//
//	base := retrytest.Statuses(503, 503, 200)
//	client := &http.Client{Transport: retrytest.NoWait(&awsretry.Transport{Base: base})}
//
// In a bubble of testing/synctest the delays may stay: they pass in virtual
// time, and a test can measure them.
package retrytest

import (
	"time"

	"example.com/awsretry"
)

// NoWait changes t so that it does not wait before a retry, and returns it. It
// replaces Backoff with delays of 0, and makes t ignore Retry-After, even one of
// more than MaxRetryAfter. The attempts, their classes and the tokens do not change.
// The rate limiter of Adaptive mode and Quota.Wait still wait; test them in virtual
// time. Call NoWait before the first request.
func NoWait(t *awsretry.Transport) *awsretry.Transport {
	t.Backoff = awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return 0 })
	t.MaxRetryAfter = -1
	return t
}
