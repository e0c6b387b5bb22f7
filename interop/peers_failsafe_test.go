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
	at := time.Date(2000, 1, 1, 0, 0, 7, 0, time.UTC) // seven seconds after a synctest bubble begins
	return peer{"failsafe-go", "github.com/failsafe-go/failsafe-go", failsafeOf(), []promise{
		{says: "429 and 5xx are retried, twice", scene: scene{service: statuses(429, 500, 200), tell: countOnly}},
		{says: "… and 501 is not", scene: scene{service: statuses(501, 200)}},
		{says: "A connection error is retried", scene: scene{service: afterError(errConnReset), tell: countOnly}},
		{says: "After the last attempt, an ExceededError is returned",
			scene: scene{service: outage, tell: func(p *played) string {
				return count(len(p.at)) + " → " + p.is(retrypolicy.ErrExceeded)
			}}},
		{says: "… unless ReturnLastFailure is set", scene: scene{service: outage, tell: countOnly},
			theirs: failsafeOf(lastFailure)},
		{says: "No delay between attempts by default", scene: scene{service: statuses(503, 503, 200)},
			with: settings{unjittered}},
		{says: "WithBackoff doubles the delay up to a maximum",
			scene:  scene{service: statuses(503), tell: (*played).attempts},
			theirs: failsafeOf(func(b retryBuilder) { b.WithBackoff(time.Second, 5*time.Second).WithMaxRetries(4) }),
			with: settings{fiveAttempts, backoff("Exponential{Max: 5 s, Jitter: NoJitter}",
				awsretry.Exponential{Max: 5 * time.Second, Jitter: awsretry.NoJitter})}},
		{says: "WithRandomDelay(1 s, 2 s)",
			scene:  scene{service: statuses(503, 200), tell: delayed(time.Second, 2*time.Second)},
			theirs: failsafeOf(func(b retryBuilder) { b.WithRandomDelay(time.Second, 2*time.Second) }),
			with: settings{backoff("Exponential{Initial: 2 s, Jitter: EqualJitter}",
				awsretry.Exponential{Initial: 2 * time.Second, Jitter: awsretry.EqualJitter})}},
		{says: "WithJitterFactor(.1) makes a delay of 1 s longer or shorter; here only shorter",
			scene:  scene{service: statuses(503, 200), tell: delayed(900*time.Millisecond, 1100*time.Millisecond)},
			theirs: failsafeOf(func(b retryBuilder) { b.WithDelay(time.Second).WithJitterFactor(.1) }),
			with: settings{backoff("Exponential{Jitter: PartialJitter(.1)}",
				awsretry.Exponential{Jitter: awsretry.PartialJitter(.1)})}},
		{says: "Retry-After delays the retry", scene: scene{service: retryAfter(429, "7")}, with: settings{unspread}},
		{says: "… given as a date", scene: scene{service: retryAfter(503, at.Format(http.TimeFormat))},
			with: settings{unspread}},
		{says: "… of a day", scene: scene{service: retryAfter(429, "86400")}},
		{says: "WithMaxAttempts(-1) retries without end",
			scene:  scene{service: append(statuses(many503(300)...), success), tell: countOnly},
			theirs: failsafeOf(func(b retryBuilder) { b.WithMaxAttempts(-1).WithDelay(time.Second) }),
			with:   settings{manyAttempts, everySecond}},
		{says: "WithBudget limits the retries of a service that is down; here without it",
			scene: scene{service: statuses(503), calls: 200, tell: inCalls}},
		{says: "WithMaxDuration (2.5 s) ends retries after a time; here a context's deadline (3 s)",
			scene: scene{
				service: []step{{status: 503, takes: 100 * time.Millisecond}},
				context: deadlineIn(3 * time.Second), tell: duration,
			},
			theirs: failsafeOf(lastFailure, func(b retryBuilder) {
				b.WithDelay(time.Second).WithMaxAttempts(-1).WithMaxDuration(2500 * time.Millisecond)
			}), with: settings{manyAttempts, everySecond}},
		{says: "A cancel ends the delay, and is not retried",
			scene: scene{
				service: statuses(503),
				context: cancelAfter(300 * time.Millisecond),
				tell:    endedIn(context.Canceled),
			}, theirs: failsafeOf(oneSecond), with: settings{everySecond}},
		{says: "A Timeout inside the retries ends an attempt, which is retried",
			scene: scene{service: afterDelay(time.Hour)},
			theirs: func(b http.RoundTripper, _ *played) http.RoundTripper {
				return failsafehttp.NewRoundTripper(b, failsafeRetry(oneSecond), timeout.New[*http.Response](2*time.Second))
			}, with: settings{twoSeconds, everySecond}},
		{says: "A circuit breaker can be outside the retries",
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
			}, by: "failsafehttp.NewRoundTripper(&Transport{}, breaker)"},
		{says: "A hedge sends a second request if the first is slow",
			scene: scene{service: afterDelay(5 * time.Second), tell: duration},
			theirs: func(b http.RoundTripper, _ *played) http.RoundTripper {
				return failsafehttp.NewRoundTripper(b, hedgepolicy.NewWithDelay[*http.Response](time.Second))
			}},
		{says: "Listeners see a retry that is scheduled, and the end of retries",
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
			}, everySecond.set), by: "Observe, " + everySecond.by},
	}}
}

// breaker opens after two failures, for an hour.
func breaker() responsePolicy {
	return circuitbreaker.NewBuilder[*http.Response]().
		HandleIf(func(resp *http.Response, err error) bool { return err != nil || resp.StatusCode >= 500 }).
		WithFailureThreshold(2).WithDelay(time.Hour).Build()
}
