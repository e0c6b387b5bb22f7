package interop

import (
	"context"
	"fmt"
	"net/http"
	"strings"
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
	retryBuilder = retrypolicy.Builder[*http.Response]
	answerPolicy = failsafe.Policy[*http.Response]
)

// failsafeOf makes failsafe-go's RoundTripper with its retry policy for HTTP.
func failsafeOf(set ...func(retryBuilder)) wrapper {
	return func(b http.RoundTripper, _ *played) http.RoundTripper {
		return failsafehttp.NewRoundTripper(b, failsafeRetry(set...))
	}
}

func failsafeRetry(set ...func(retryBuilder)) answerPolicy {
	builder := failsafehttp.NewRetryPolicyBuilder()
	for _, s := range set {
		s(builder)
	}
	return builder.Build()
}

func lastFailure(b retryBuilder) { b.ReturnLastFailure() }

// within says that the second attempt came in time.
func within(lo, hi time.Duration) func(*played) string {
	return func(p *played) string {
		if len(p.at) == 2 && p.at[1] >= lo && p.at[1] <= hi {
			return fmt.Sprintf("a pause from %v to %v", lo, hi)
		}
		return p.attempts()
	}
}

func failsafePeer() peer {
	const http1, retry = "failsafe-go.dev/http", "failsafe-go.dev/retry"
	at := time.Date(2000, 1, 1, 0, 0, 7, 0, time.UTC) // seven seconds after the beginning of virtual time
	return peer{"failsafe-go", "github.com/failsafe-go/failsafe-go", []promise{{
		says: "429 and 5xx are retried, twice", where: "NewRetryPolicyBuilder",
		scene:  scene{service: statuses(429, 500, 200), tell: countOnly},
		theirs: failsafeOf(), ours: awsretryOf(),
		it: "3 attempts → 200",
	}, {
		says: "… and 501 is not", where: "NewRetryPolicyBuilder",
		scene:  scene{service: statuses(501, 200)},
		theirs: failsafeOf(), ours: awsretryOf(),
		it: "1 attempt → 501",
	}, {
		says: "A connection error is retried", where: http1,
		scene:  scene{service: []step{{err: errConnReset}, {status: 200}}, tell: countOnly},
		theirs: failsafeOf(), ours: awsretryOf(),
		it: "2 attempts → 200",
	}, {
		says: "When retries are used up, an ExceededError is returned", where: retry,
		scene: scene{service: []step{{status: 503, content: "down until noon"}}, tell: func(p *played) string {
			return count(len(p.at)) + " → " + p.is(retrypolicy.ErrExceeded)
		}},
		theirs: failsafeOf(), ours: awsretryOf(),
		it: "3 attempts → an error that is retries exceeded", we: `3 attempts → 503 "down until noon"`,
		why: "An answer is no transport error: the caller gets the last one, whole",
	}, {
		says: "… unless ReturnLastFailure is set", where: retry,
		scene:  scene{service: []step{{status: 503, content: "down until noon"}}, tell: countOnly},
		theirs: failsafeOf(lastFailure), ours: awsretryOf(),
		it: `3 attempts → 503 "down until noon"`,
	}, {
		says: "No delay between attempts unless told otherwise", where: retry,
		scene:  scene{service: statuses(503, 503, 200)},
		theirs: failsafeOf(), ours: awsretryOf(unjittered), by: byNoJitter,
		it: "3 attempts at 0s, 0s, 0s → 200", we: "3 attempts at 0s, 1s, 3s → 200",
		why: "Retries at once add load when there is too much of it already",
	}, {
		says: "WithBackoff doubles the delay up to a maximum", where: retry,
		scene:  scene{service: statuses(503), tell: (*played).attempts},
		theirs: failsafeOf(func(b retryBuilder) { b.WithBackoff(time.Second, 5*time.Second).WithMaxRetries(4) }),
		ours: awsretryOf(fiveAttempts, func(t *awsretry.Transport) {
			t.Backoff = awsretry.Exponential{Max: 5 * time.Second, Jitter: awsretry.NoJitter}
		}), by: "MaxAttempts: 5, Exponential{Max: 5 s, Jitter: NoJitter}",
		it: "5 attempts at 0s, 1s, 3s, 7s, 12s",
	}, {
		says: "WithRandomDelay(1 s, 2 s)", where: retry,
		scene:  scene{service: statuses(503, 200), tell: within(time.Second, 2*time.Second)},
		theirs: failsafeOf(func(b retryBuilder) { b.WithRandomDelay(time.Second, 2*time.Second) }),
		ours: awsretryOf(func(t *awsretry.Transport) {
			t.Backoff = awsretry.Exponential{Initial: 2 * time.Second, Jitter: awsretry.EqualJitter}
		}), by: "Exponential{Initial: 2 s, Jitter: EqualJitter}",
		it: "a pause from 1s to 2s",
	}, {
		says: "WithJitterFactor(.1) varies a delay of 1 s, to both sides; here to the shorter one", where: retry,
		scene:  scene{service: statuses(503, 200), tell: within(900*time.Millisecond, 1100*time.Millisecond)},
		theirs: failsafeOf(func(b retryBuilder) { b.WithDelay(time.Second).WithJitterFactor(.1) }),
		ours:   awsretryOf(func(t *awsretry.Transport) { t.Backoff = awsretry.Exponential{Jitter: awsretry.PartialJitter(.1)} }), by: "Exponential{Jitter: PartialJitter(.1)}",
		it: "a pause from 900ms to 1.1s",
	}, {
		says: "Retry-After delays the retry", where: http1,
		scene:  scene{service: []step{{status: 429, header: []string{"Retry-After", "7"}}, {status: 200}}},
		theirs: failsafeOf(), ours: awsretryOf(unspread), by: byNoSpread,
		it: "2 attempts at 0s, 7s → 200",
	}, {
		says: "… given as a date", where: http1 + ": any Retry-After",
		scene:  scene{service: []step{{status: 503, header: []string{"Retry-After", at.Format(http.TimeFormat)}}, {status: 200}}},
		theirs: failsafeOf(), ours: awsretryOf(unspread), by: byNoSpread,
		it: "2 attempts at 0s, 0s → 200", we: "2 attempts at 0s, 7s → 200",
		why: "RFC 9110 has both forms",
	}, {
		says: "… of a day", where: http1 + ": any Retry-After",
		scene:  scene{service: []step{{status: 429, header: []string{"Retry-After", "86400"}}, {status: 200}}},
		theirs: failsafeOf(), ours: awsretryOf(),
		it: "2 attempts at 0s, 24h0m0s → 200", we: "1 attempt → 429",
		why: "A pause above MaxRetryAfter (1 min) is the caller's decision: the answer goes back with its header",
	}, {
		says: "WithMaxAttempts(-1) retries without end", where: retry,
		scene:  scene{service: append(statuses(many503(300)...), step{status: 200}), tell: countOnly},
		theirs: failsafeOf(func(b retryBuilder) { b.WithMaxAttempts(-1).WithDelay(time.Second) }),
		ours:   awsretryOf(everySecond, func(t *awsretry.Transport) { t.MaxAttempts = 1000 }), by: "MaxAttempts: 1000, Exponential{Max: 1 s, Jitter: NoJitter}",
		it: "301 attempts → 200", we: "101 attempts → 503",
		why: "The retry token bucket (500 tokens, 5 a retry) ends it; QuotaConfig{Capacity: -1} takes the bucket away",
	}, {
		says: "Retries of a service that is down are limited by a budget, if one is set; here by default", where: "WithBudget",
		scene:  scene{service: statuses(503), calls: 200, tell: func(p *played) string { return fmt.Sprintf("%d attempts in 200 calls", len(p.at)) }},
		theirs: failsafeOf(), ours: awsretryOf(),
		it: "600 attempts in 200 calls", we: "300 attempts in 200 calls",
		why: "One bucket for each host is there from the start. It counts what was retried, not what is under way at a time",
	}, {
		says: "WithMaxDuration (2.5 s) ends retries after a time; here a context's deadline (3 s)", where: retry,
		scene: scene{service: []step{{status: 503, takes: 100 * time.Millisecond}}, context: deadlineIn(3 * time.Second), tell: func(p *played) string {
			return fmt.Sprintf("%s, ended after %v → %s", p.attempts(), p.took, p.result())
		}},
		theirs: failsafeOf(lastFailure, func(b retryBuilder) {
			b.WithDelay(time.Second).WithMaxAttempts(-1).WithMaxDuration(2500 * time.Millisecond)
		}),
		ours: awsretryOf(everySecond, func(t *awsretry.Transport) { t.MaxAttempts = 100 }), by: "MaxAttempts: 100, Exponential{Max: 1 s, Jitter: NoJitter}",
		it: "4 attempts at 0s, 1.1s, 2.2s, 2.5s, ended after 2.6s → 503", we: "3 attempts at 0s, 1.1s, 2.2s, ended after 2.3s → 503",
		why: "A pause is not cut short to fit; the answer goes back when there is no time for another attempt",
	}, {
		says: "A cancelled context ends the pause, and is not retried", where: http1,
		scene: scene{service: statuses(503), context: cancelAfter(300 * time.Millisecond), tell: func(p *played) string {
			return fmt.Sprintf("%s in %v → %s", count(len(p.at)), p.took, p.is(context.Canceled))
		}},
		theirs: failsafeOf(func(b retryBuilder) { b.WithDelay(time.Second) }), ours: awsretryOf(everySecond), by: "Exponential{Max: 1 s, Jitter: NoJitter}",
		it: "1 attempt in 300ms → an error that is context canceled",
	}, {
		says: "A Timeout inside ends an attempt, which is retried", where: http1,
		scene: scene{service: []step{{status: 200, takes: time.Hour}, {status: 200}}},
		theirs: func(b http.RoundTripper, _ *played) http.RoundTripper {
			return failsafehttp.NewRoundTripper(b, failsafeRetry(func(b retryBuilder) { b.WithDelay(time.Second) }), timeout.New[*http.Response](2*time.Second))
		},
		ours: awsretryOf(everySecond, func(t *awsretry.Transport) { t.AttemptTimeout = 2 * time.Second }), by: "AttemptTimeout: 2 s, Exponential{Max: 1 s, Jitter: NoJitter}",
		it: "2 attempts at 0s, 3s → 200",
	}, {
		says: "A circuit breaker goes around retries", where: http1,
		scene: scene{service: statuses(503), calls: 5, tell: func(p *played) string { return fmt.Sprintf("%d attempts in 5 calls → %s", len(p.at), p.result()) }},
		theirs: func(b http.RoundTripper, _ *played) http.RoundTripper {
			return failsafehttp.NewRoundTripper(b, breaker(), failsafeRetry(lastFailure))
		},
		ours: func(b http.RoundTripper, _ *played) http.RoundTripper {
			return failsafehttp.NewRoundTripper(&awsretry.Transport{Base: b}, breaker())
		}, by: "failsafehttp.NewRoundTripper(&Transport{}, breaker)",
		it: "6 attempts in 5 calls → error: circuit breaker open",
	}, {
		says: "A hedge sends a second request when the first is slow", where: "failsafe-go.dev/hedge",
		scene: scene{service: []step{{status: 200, takes: 5 * time.Second}, {status: 200}}, tell: func(p *played) string { return p.attempts() + " → " + p.result() + " after " + p.took.String() }},
		theirs: func(b http.RoundTripper, _ *played) http.RoundTripper {
			return failsafehttp.NewRoundTripper(b, hedgepolicy.NewWithDelay[*http.Response](time.Second))
		},
		ours: awsretryOf(),
		it:   "2 attempts at 0s, 1s → 200 after 1s", we: "1 attempt → 200 after 5s",
		why: "A slow service is often an overloaded one, and awsretry's aim is to send it less. failsafe-go's hedge works around a Transport, or under it",
	}, {
		says: "Listeners hear of a retry that is scheduled, and of the end of retries", where: retry,
		scene: scene{service: statuses(503), tell: func(p *played) string { return strings.Join(p.notes, ", ") }},
		theirs: func(b http.RoundTripper, p *played) http.RoundTripper {
			return failsafeOf(func(b retryBuilder) {
				b.WithDelay(time.Second).OnRetryScheduled(func(e failsafe.ExecutionScheduledEvent[*http.Response]) { p.note("retry in %v", e.Delay) })
				b.OnRetriesExceeded(func(failsafe.ExecutionEvent[*http.Response]) { p.note("no more") })
			})(b, p)
		},
		ours: func(b http.RoundTripper, p *played) http.RoundTripper {
			return awsretryOf(everySecond, func(t *awsretry.Transport) {
				t.Observe = func(a awsretry.Attempt) {
					switch a.Stop {
					case "":
						p.note("retry in %v", a.Delay)
					case awsretry.StopMaxAttempts:
						p.note("no more")
					}
				}
			})(b, p)
		}, by: "Observe, Exponential{Max: 1 s, Jitter: NoJitter}",
		it: "retry in 1s, retry in 1s, no more",
	}}}
}

// breaker opens after two failures, for an hour.
func breaker() answerPolicy {
	return circuitbreaker.NewBuilder[*http.Response]().
		HandleIf(func(resp *http.Response, err error) bool { return err != nil || resp.StatusCode >= 500 }).
		WithFailureThreshold(2).WithDelay(time.Hour).Build()
}
