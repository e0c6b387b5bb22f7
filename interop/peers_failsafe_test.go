package interop

import (
	"context"
	"net/http"
	"time"

	"example.com/awsretry"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"
)

type (
	retryBuilder   = retrypolicy.Builder[*http.Response]
	responsePolicy = failsafe.Policy[*http.Response]
)

// failsafeOf returns a wrapper with the RoundTripper of failsafe-go and its
// retry policy for HTTP.
func failsafeOf(set ...func(retryBuilder)) wrapper {
	return func(b http.RoundTripper, _ *played) http.RoundTripper {
		return failsafehttp.NewRoundTripper(b, failsafeRetry(set...))
	}
}

func failsafeRetry(set ...func(retryBuilder)) responsePolicy {
	builder := failsafehttp.NewRetryPolicyBuilder()
	for _, s := range set {
		s(builder)
	}
	return builder.Build()
}

func lastFailure(b retryBuilder) { b.ReturnLastFailure() }

func oneSecond(b retryBuilder) { b.WithDelay(time.Second) }

func failsafePeer() peer {
	const http1, retry = "failsafe-go.dev/http", "failsafe-go.dev/retry"
	at := time.Date(2000, 1, 1, 0, 0, 7, 0, time.UTC) // seven seconds after a synctest bubble begins
	return peer{"failsafe-go", "github.com/failsafe-go/failsafe-go", failsafeOf(), []promise{{
		says: "429 and 5xx are retried, twice", where: "NewRetryPolicyBuilder",
		scene: scene{service: statuses(429, 500, 200), tell: countOnly},
		it:    "3 attempts → 200",
	}, {
		says: "… and 501 is not", where: "NewRetryPolicyBuilder",
		scene: scene{service: statuses(501, 200)},
		it:    "1 attempt → 501",
	}, {
		says: "A connection error is retried", where: http1,
		scene: scene{service: afterError(errConnReset), tell: countOnly},
		it:    "2 attempts → 200",
	}, {
		says: "After the last attempt, an ExceededError is returned", where: retry,
		scene: scene{service: outage, tell: func(p *played) string {
			return count(len(p.at)) + " → " + p.is(retrypolicy.ErrExceeded)
		}},
		it: "3 attempts → an error that is retries exceeded", we: `3 attempts → 503 "down until noon"`,
		why: "A response is not an error: the caller gets the last one, whole",
	}, {
		says: "… unless ReturnLastFailure is set", where: retry,
		scene:  scene{service: outage, tell: countOnly},
		theirs: failsafeOf(lastFailure),
		it:     `3 attempts → 503 "down until noon"`,
	}, {
		says: "No delay between attempts by default", where: retry,
		scene: scene{service: statuses(503, 503, 200)},
		with:  settings{unjittered},
		it:    "3 attempts at 0s, 0s, 0s → 200", we: "3 attempts at 0s, 1s, 3s → 200",
		why: "Retries without a delay add load to a service that has too much",
	}, {
		says: "WithBackoff doubles the delay up to a maximum", where: retry,
		scene:  scene{service: statuses(503), tell: (*played).attempts},
		theirs: failsafeOf(func(b retryBuilder) { b.WithBackoff(time.Second, 5*time.Second).WithMaxRetries(4) }),
		with: settings{fiveAttempts, backoff("Exponential{Max: 5 s, Jitter: NoJitter}",
			awsretry.Exponential{Max: 5 * time.Second, Jitter: awsretry.NoJitter})},
		it: "5 attempts at 0s, 1s, 3s, 7s, 12s",
	}, {
		says: "WithRandomDelay(1 s, 2 s)", where: retry,
		scene:  scene{service: statuses(503, 200), tell: delayed(time.Second, 2*time.Second)},
		theirs: failsafeOf(func(b retryBuilder) { b.WithRandomDelay(time.Second, 2*time.Second) }),
		with: settings{backoff("Exponential{Initial: 2 s, Jitter: EqualJitter}",
			awsretry.Exponential{Initial: 2 * time.Second, Jitter: awsretry.EqualJitter})},
		it: "a delay of 1s to 2s",
	}, {
		says: "WithJitterFactor(.1) makes a delay of 1 s longer or shorter; here only shorter", where: retry,
		scene:  scene{service: statuses(503, 200), tell: delayed(900*time.Millisecond, 1100*time.Millisecond)},
		theirs: failsafeOf(func(b retryBuilder) { b.WithDelay(time.Second).WithJitterFactor(.1) }),
		with: settings{backoff("Exponential{Jitter: PartialJitter(.1)}",
			awsretry.Exponential{Jitter: awsretry.PartialJitter(.1)})},
		it: "a delay of 900ms to 1.1s",
	}, {
		says: "Retry-After delays the retry", where: http1,
		scene: scene{service: retryAfter(429, "7")},
		with:  settings{unspread},
		it:    "2 attempts at 0s, 7s → 200",
	}, {
		says: "… given as a date", where: http1 + ": any Retry-After",
		scene: scene{service: retryAfter(503, at.Format(http.TimeFormat))},
		with:  settings{unspread},
		it:    "2 attempts at 0s, 0s → 200", we: "2 attempts at 0s, 7s → 200",
		why: "RFC 9110 has both forms",
	}, {
		says: "… of a day", where: http1 + ": any Retry-After",
		scene: scene{service: retryAfter(429, "86400")},
		it:    "2 attempts at 0s, 24h0m0s → 200", we: "1 attempt → 429",
		why: overMaxRetryAfter,
	}, {
		says: "WithMaxAttempts(-1) retries without end", where: retry,
		scene:  scene{service: append(statuses(many503(300)...), success), tell: countOnly},
		theirs: failsafeOf(func(b retryBuilder) { b.WithMaxAttempts(-1).WithDelay(time.Second) }),
		with:   settings{manyAttempts, everySecond},
		it:     "301 attempts → 200", we: "101 attempts → 503",
		why: bucketEnds,
	}, {
		says: "WithBudget limits the retries of a service that is down; here without it", where: "WithBudget",
		scene: scene{service: statuses(503), calls: 200, tell: inCalls},
		it:    "600 attempts in 200 calls", we: "300 attempts in 200 calls",
		why: "A bucket for each host is the default. It counts retries, not requests under way",
	}, {
		says: "WithMaxDuration (2.5 s) ends retries after a time; here a context's deadline (3 s)", where: retry,
		scene: scene{
			service: []step{{status: 503, takes: 100 * time.Millisecond}},
			context: deadlineIn(3 * time.Second), tell: duration,
		},
		theirs: failsafeOf(lastFailure, func(b retryBuilder) {
			b.WithDelay(time.Second).WithMaxAttempts(-1).WithMaxDuration(2500 * time.Millisecond)
		}),
		with: settings{manyAttempts, everySecond},
		it:   "4 attempts at 0s, 1.1s, 2.2s, 2.5s → 503 after 2.6s",
		we:   "3 attempts at 0s, 1.1s, 2.2s → 503 after 2.3s",
		why:  "A delay is not shortened to fit: the response is returned if there is no time for another attempt",
	}, {
		says: "A cancel ends the delay, and is not retried", where: http1,
		scene: scene{
			service: statuses(503),
			context: cancelAfter(300 * time.Millisecond),
			tell:    endedIn(context.Canceled),
		},
		theirs: failsafeOf(oneSecond), with: settings{everySecond},
		it: "1 attempt in 300ms → an error that is context canceled",
	}, {
		says: "A Timeout inside the retries ends an attempt, which is retried", where: http1,
		scene: scene{service: afterDelay(time.Hour)},
		theirs: func(b http.RoundTripper, _ *played) http.RoundTripper {
			return failsafehttp.NewRoundTripper(b, failsafeRetry(oneSecond), timeout.New[*http.Response](2*time.Second))
		},
		with: settings{twoSeconds, everySecond},
		it:   "2 attempts at 0s, 3s → 200",
	}, {
		says: "A circuit breaker can be outside the retries", where: http1,
		scene: scene{
			service: statuses(503),
			calls:   5,
			tell:    func(p *played) string { return inCalls(p) + " → " + p.result() },
		},
		theirs: func(b http.RoundTripper, _ *played) http.RoundTripper {
			return failsafehttp.NewRoundTripper(b, breaker(), failsafeRetry(lastFailure))
		},
		ours: func(b http.RoundTripper, _ *played) http.RoundTripper {
			return failsafehttp.NewRoundTripper(&awsretry.Transport{Base: b}, breaker())
		}, by: "failsafehttp.NewRoundTripper(&Transport{}, breaker)",
		it: "6 attempts in 5 calls → error: circuit breaker open",
	}, {
		says: "A hedge sends a second request if the first is slow", where: "failsafe-go.dev/hedge",
		scene: scene{service: afterDelay(5 * time.Second), tell: duration},
		theirs: func(b http.RoundTripper, _ *played) http.RoundTripper {
			return failsafehttp.NewRoundTripper(b, hedgepolicy.NewWithDelay[*http.Response](time.Second))
		},
		it: "2 attempts at 0s, 1s → 200 after 1s", we: "1 attempt → 200 after 5s",
		why: "A slow service is often overloaded. A hedge of failsafe-go works over a Transport, or below it",
	}, {
		says: "Listeners see a retry that is scheduled, and the end of retries", where: retry,
		scene: scene{service: statuses(503), tell: allNotes},
		theirs: func(b http.RoundTripper, p *played) http.RoundTripper {
			return failsafeOf(func(b retryBuilder) {
				oneSecond(b)
				b.OnRetryScheduled(func(e failsafe.ExecutionScheduledEvent[*http.Response]) {
					p.note("retry in %v", e.Delay)
				})
				b.OnRetriesExceeded(func(failsafe.ExecutionEvent[*http.Response]) { p.note("no more") })
			})(b, p)
		},
		ours: observing(func(p *played, a awsretry.Attempt) {
			switch a.Stop {
			case "":
				p.note("retry in %v", a.Delay)
			case awsretry.StopMaxAttempts:
				p.note("no more")
			}
		}, everySecond.set), by: "Observe, " + everySecond.by,
		it: "retry in 1s, retry in 1s, no more",
	}}}
}

// breaker opens after two failures, for an hour.
func breaker() responsePolicy {
	return circuitbreaker.NewBuilder[*http.Response]().
		HandleIf(func(resp *http.Response, err error) bool { return err != nil || resp.StatusCode >= 500 }).
		WithFailureThreshold(2).WithDelay(time.Hour).Build()
}
