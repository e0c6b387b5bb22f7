package interop

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"example.com/awsretry"
	"github.com/PuerkitoBio/rehttp"
)

// rehttpOf makes rehttp's Transport: what it retries, twice at most, and the pause of a second.
func rehttpOf(retry rehttp.RetryFn, set ...func(*rehttp.Transport)) wrapper {
	return rehttpWith(retry, rehttp.ConstDelay(time.Second), set...)
}

func rehttpWith(retry rehttp.RetryFn, delay rehttp.DelayFn, set ...func(*rehttp.Transport)) wrapper {
	return func(b http.RoundTripper, _ *played) http.RoundTripper {
		t := rehttp.NewTransport(b, rehttp.RetryAll(rehttp.RetryMaxRetries(2), retry), delay)
		for _, s := range set {
			s(t)
		}
		return t
	}
}

// everySecond is what rehttp calls ConstDelay(time.Second).
func everySecond(t *awsretry.Transport) {
	t.Backoff = awsretry.Exponential{Max: time.Second, Jitter: awsretry.NoJitter}
}

// A timeoutError is a net.Error.
type timeoutError struct{}

func (timeoutError) Error() string   { return "no answer in time" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

func rehttpPeer() peer {
	const doc = "package doc"
	on503 := rehttp.RetryStatuses(503)
	keepsBody := func(p *played) string {
		return fmt.Sprintf("%s, and the request's Body is the caller's own: %t", count(len(p.at)), p.request.Body == p.body)
	}
	return peer{"rehttp", "github.com/PuerkitoBio/rehttp", []promise{{
		says: "RetryMaxRetries(2) allows two retries", where: "RetryMaxRetries",
		scene:  scene{service: statuses(503)},
		theirs: rehttpOf(on503), ours: awsretryOf(everySecond), by: "Exponential{Max: 1 s, Jitter: NoJitter}",
		it: "3 attempts at 0s, 1s, 2s → 503",
	}, {
		says: "The last answer goes back as it is", where: "Transport.RoundTrip",
		scene:  scene{service: []step{{status: 503, content: "down until noon"}}, tell: countOnly},
		theirs: rehttpOf(on503), ours: awsretryOf(),
		it: `3 attempts → 503 "down until noon"`,
	}, {
		says: "An answer that is retried is closed", where: "Transport.RoundTrip",
		scene:  scene{service: statuses(503, 503, 200), tell: func(p *played) string { return fmt.Sprintf("%d answers, %d closed", len(p.at), p.closed) }},
		theirs: rehttpOf(on503), ours: awsretryOf(),
		it: "3 answers, 3 closed",
	}, {
		says: "The delay is between 0 and base*2^n, at most max; here its longest", where: "ExpJitterDelay",
		scene:  scene{service: statuses(503), tell: (*played).attempts},
		theirs: rehttpWith(on503, rehttp.ExpJitterDelayWithRand(time.Second, 1500*time.Millisecond, func(n int64) int64 { return n - 1 })),
		ours: awsretryOf(func(t *awsretry.Transport) {
			t.Backoff = awsretry.Exponential{Max: 1500 * time.Millisecond, Jitter: awsretry.NoJitter} // FullJitter's longest
		}), by: "Exponential{Max: 1.5 s, Jitter: NoJitter}",
		it: "3 attempts at 0s, 1s, 2.5s",
	}, {
		says: "RetryStatuses and RetryStatusInterval choose the statuses", where: "RetryStatuses",
		scene:  scene{service: statuses(425, 200), tell: countOnly},
		theirs: rehttpOf(rehttp.RetryStatuses(425)),
		ours: awsretryOf(func(t *awsretry.Transport) {
			t.Policy = func(a *awsretry.Attempt) awsretry.Class {
				if a.Response != nil && a.Response.StatusCode == 425 {
					return awsretry.Transient
				}
				return awsretry.DefaultPolicy(a)
			}
		}), by: "Policy",
		it: "2 attempts → 200",
	}, {
		says: "The decision is asked about successes as well", where: "Transport.retry",
		scene:  scene{service: statuses(202, 202, 200), tell: countOnly},
		theirs: rehttpOf(rehttp.RetryStatuses(202)),
		ours: awsretryOf(func(t *awsretry.Transport) {
			t.Policy = func(a *awsretry.Attempt) awsretry.Class {
				if a.Response != nil && a.Response.StatusCode == 202 {
					return awsretry.Transient
				}
				return awsretry.DefaultPolicy(a)
			}
		}), by: "Policy",
		it: "3 attempts → 200",
	}, {
		says: "RetryHTTPMethods keeps a POST from being made twice", where: "RetryHTTPMethods",
		scene:  scene{service: []step{{err: errConnReset}}, method: "POST", body: bytesOf("an order"), tell: countOnly},
		theirs: rehttpOf(rehttp.RetryAll(rehttp.RetryHTTPMethods("GET", "PUT"), rehttp.RetryIsErr(func(err error) bool { return err != nil }))),
		ours:   awsretryOf(func(t *awsretry.Transport) { t.Policy = awsretry.IdempotentOnly(nil) }), by: "IdempotentOnly",
		it:  "1 attempt → error: read tcp: connection reset by peer",
		we:  "1 attempt → error: awsretry: gave up after 1 attempt (permanent): read tcp: connection reset by peer",
		why: "The error says how many attempts were made and why there were no more; errors.Is and As find the same in it",
	}, {
		says: "RetryTimeoutErr retries time-outs", where: "RetryTimeoutErr",
		scene:  scene{service: []step{{err: timeoutError{}}, {status: 200}}, tell: countOnly},
		theirs: rehttpOf(rehttp.RetryTimeoutErr()), ours: awsretryOf(),
		it: "2 attempts → 200",
	}, {
		says: "… and no other error", where: "RetryTimeoutErr",
		scene:  scene{service: []step{{err: errConnReset}, {status: 200}}, tell: func(p *played) string { return count(len(p.at)) }},
		theirs: rehttpOf(rehttp.RetryTimeoutErr()),
		ours: awsretryOf(func(t *awsretry.Transport) {
			t.Policy = func(a *awsretry.Attempt) awsretry.Class {
				if class := awsretry.DefaultPolicy(a); a.Err == nil || class == awsretry.Timeout {
					return class
				}
				return awsretry.Permanent
			}
		}), by: "Policy",
		it: "1 attempt",
	}, {
		says: "A body is held in memory, and sent again whole", where: doc,
		scene:  scene{service: statuses(503, 200), body: streamOf("the body"), tell: wholeBodies("the body")},
		theirs: rehttpOf(on503), ours: awsretryOf(),
		it: "2 attempts, 2 with the whole body → 200",
	}, {
		says: "… before the first attempt", where: doc,
		scene:  scene{service: statuses(200), body: slowly("written while it is sent"), tell: func(p *played) string { return "sent after " + p.at[0].String() + " → " + p.result() }},
		theirs: rehttpOf(on503), ours: awsretryOf(),
		it: "sent after 5s → 200", we: "sent after 0s → 200",
		why: "A body that is written while the answer is read has to work; what is kept is kept as it is sent, MaxBodyBuffer of it at most",
	}, {
		says: "PreventRetryWithBody sends a body once, and holds nothing of it", where: "PreventRetryWithBody",
		scene:  scene{service: statuses(503, 200), body: streamOf("the body"), tell: wholeBodies("the body")},
		theirs: rehttpOf(on503, func(t *rehttp.Transport) { t.PreventRetryWithBody = true }),
		ours:   awsretryOf(func(t *awsretry.Transport) { t.MaxBodyBuffer = -1 }), by: "MaxBodyBuffer: -1",
		it: "1 attempt, 1 with the whole body → 503",
	}, {
		says: "… one that costs no memory too", where: "PreventRetryWithBody",
		scene:  scene{service: statuses(503, 200), body: bytesOf("the body"), tell: wholeBodies("the body")},
		theirs: rehttpOf(on503, func(t *rehttp.Transport) { t.PreventRetryWithBody = true }),
		ours:   awsretryOf(func(t *awsretry.Transport) { t.MaxBodyBuffer = -1 }), by: "MaxBodyBuffer: -1",
		it: "1 attempt, 1 with the whole body → 503", we: "2 attempts, 2 with the whole body → 200",
		why: "With GetBody, or a file, nothing has to be held. WithoutRetry sends a request once",
	}, {
		says: "A RoundTripper does not modify the request", where: "Transport.RoundTrip (a comment on Go's rule)",
		scene:  scene{service: statuses(503, 200), body: bytesOf("the body"), tell: keepsBody},
		theirs: rehttpOf(on503), ours: awsretryOf(),
		it:  "2 attempts, and the request's Body is the caller's own: false",
		we:  "2 attempts, and the request's Body is the caller's own: true",
		why: "What differs between attempts is set in a request of their own",
	}, {
		says: "PerAttemptTimeout ends an attempt, and it is retried", where: "PerAttemptTimeout",
		scene:  scene{service: []step{{status: 200, takes: time.Hour}, {status: 200}}},
		theirs: rehttpOf(rehttp.RetryIsErr(func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }), func(t *rehttp.Transport) { t.PerAttemptTimeout = 2 * time.Second }),
		ours:   awsretryOf(everySecond, func(t *awsretry.Transport) { t.AttemptTimeout = 2 * time.Second }), by: "AttemptTimeout: 2 s, Exponential{Max: 1 s, Jitter: NoJitter}",
		it: "2 attempts at 0s, 3s → 200",
	}, {
		says: "… and looks like context.DeadlineExceeded", where: "PerAttemptTimeout",
		scene: scene{service: []step{{status: 200, takes: time.Hour}}, tell: func(p *played) string {
			var timeout interface{ Timeout() bool }
			return fmt.Sprintf("%s; says Timeout: %t", p.is(context.DeadlineExceeded), errors.As(p.err, &timeout) && timeout.Timeout())
		}},
		theirs: rehttpOf(on503, func(t *rehttp.Transport) { t.PerAttemptTimeout = 2 * time.Second }),
		ours:   awsretryOf(func(t *awsretry.Transport) { t.AttemptTimeout = 2 * time.Second }), by: "AttemptTimeout: 2 s",
		it:  "an error that is context deadline exceeded; says Timeout: true",
		we:  "an error that is none of them; says Timeout: true",
		why: "context.DeadlineExceeded is the caller's own deadline alone, so that the two can be told apart",
	}, {
		says: "An overall deadline goes before it", where: "PerAttemptTimeout",
		scene: scene{service: []step{{status: 200, takes: time.Hour}}, context: deadlineIn(500 * time.Millisecond), tell: func(p *played) string {
			return fmt.Sprintf("%s in %v → %s", count(len(p.at)), p.took, p.is(context.DeadlineExceeded))
		}},
		theirs: rehttpOf(on503, func(t *rehttp.Transport) { t.PerAttemptTimeout = 2 * time.Second }),
		ours:   awsretryOf(func(t *awsretry.Transport) { t.AttemptTimeout = 2 * time.Second }), by: "AttemptTimeout: 2 s",
		it: "1 attempt in 500ms → an error that is context deadline exceeded",
	}, {
		says: "A caller who goes away ends the pause", where: doc,
		scene: scene{service: []step{{status: 503}}, context: cancelAfter(300 * time.Millisecond), tell: func(p *played) string {
			return fmt.Sprintf("%s in %v → %s", count(len(p.at)), p.took, p.is(context.Canceled))
		}},
		theirs: rehttpOf(on503), ours: awsretryOf(everySecond), by: "Exponential{Max: 1 s, Jitter: NoJitter}",
		it: "1 attempt in 300ms → an error that is none of them", we: "1 attempt in 300ms → an error that is context canceled",
		why: "errors.Is finds the context's error and its cause",
	}, {
		says: "RetryAll and RetryAny combine conditions", where: "RetryAll, RetryAny",
		scene:  scene{service: []step{{status: 503}, {err: timeoutError{}}, {status: 200}}, tell: countOnly},
		theirs: rehttpOf(rehttp.RetryAny(on503, rehttp.RetryTimeoutErr())),
		ours: awsretryOf(func(t *awsretry.Transport) {
			t.Policy = func(a *awsretry.Attempt) awsretry.Class {
				if class := awsretry.DefaultPolicy(a); class == awsretry.Timeout || a.Response != nil && a.Response.StatusCode == 503 {
					return class
				}
				return awsretry.Success
			}
		}), by: "Policy",
		it: "3 attempts → 200",
	}, {
		says: "… without RetryMaxRetries there is no end to it", where: doc,
		scene: scene{service: append(statuses(many503(300)...), step{status: 200}), tell: countOnly},
		theirs: func(b http.RoundTripper, _ *played) http.RoundTripper {
			return rehttp.NewTransport(b, on503, rehttp.ConstDelay(time.Second))
		},
		ours: awsretryOf(everySecond, func(t *awsretry.Transport) { t.MaxAttempts = 1000 }), by: "MaxAttempts: 1000, Exponential{Max: 1 s, Jitter: NoJitter}",
		it: "301 attempts → 200", we: "101 attempts → 503",
		why: "The retry token bucket (500 tokens, 5 a retry) ends it; QuotaConfig{Capacity: -1} takes the bucket away",
	}}}
}

func many503(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = 503
	}
	return all
}
