package interop

import (
	"net/http"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/interop/internal/peers"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"
)

func lastFailure(b peers.RetryBuilder) { b.ReturnLastFailure() }

func oneSecond(b peers.RetryBuilder) { b.WithDelay(time.Second) }

func failsafePeer() peer {
	at := time.Date(2000, 1, 1, 0, 0, 7, 0, time.UTC) // seven seconds after a synctest bubble begins
	return peer{"failsafe-go", "github.com/failsafe-go/failsafe-go", peers.Failsafe(), []promise{
		{says: "After the last attempt, an ExceededError is returned",
			scene: scene{service: outage, tell: func(p *played) string {
				return count(len(p.at)) + " → " + p.is(retrypolicy.ErrExceeded)
			}}},
		{says: "No delay between attempts by default", scene: scene{service: statuses(503, 503, 200)},
			with: settings{unjittered}},
		{says: "WithRandomDelay(1 s, 2 s)",
			scene:  scene{service: statuses(503, 200), tell: delayed(time.Second, 2*time.Second)},
			theirs: peers.Failsafe(func(b peers.RetryBuilder) { b.WithRandomDelay(time.Second, 2*time.Second) }),
			with: settings{backoff("Exponential{Initial: 2 s, Jitter: EqualJitter}",
				awsretry.Exponential{Initial: 2 * time.Second, Jitter: awsretry.EqualJitter})}},
		{says: "WithJitterFactor(.1) makes a delay of 1 s longer or shorter; here only shorter",
			scene:  scene{service: statuses(503, 200), tell: delayed(900*time.Millisecond, 1100*time.Millisecond)},
			theirs: peers.Failsafe(func(b peers.RetryBuilder) { b.WithDelay(time.Second).WithJitterFactor(.1) }),
			with: settings{backoff("Exponential{Jitter: PartialJitter(.1)}",
				awsretry.Exponential{Jitter: awsretry.PartialJitter(.1)})}},
		{says: "Retry-After delays the retry; here a date", scene: scene{service: retryAfter(503, at.Format(http.TimeFormat))},
			with: settings{unspread}},
		{says: "WithBudget limits the retries of a service that is down; here without it",
			scene: scene{service: statuses(503), calls: 200, tell: inCalls}},
		{says: "WithMaxDuration (2.5 s) ends retries after a time; here a context's deadline (3 s)",
			scene: scene{
				service: []step{{status: 503, takes: 100 * time.Millisecond}},
				context: deadlineIn(3 * time.Second), tell: duration,
			},
			theirs: peers.Failsafe(lastFailure, func(b peers.RetryBuilder) {
				b.WithDelay(time.Second).WithMaxAttempts(-1).WithMaxDuration(2500 * time.Millisecond)
			}), with: settings{manyAttempts, everySecond}},
		{says: "A Timeout inside the retries ends an attempt, which is retried",
			scene: scene{service: afterDelay(time.Hour)},
			theirs: func(b http.RoundTripper) http.RoundTripper {
				return failsafehttp.NewRoundTripper(b, peers.FailsafeRetry(oneSecond), timeout.New[*http.Response](2*time.Second))
			}, with: settings{twoSeconds, everySecond}},
		{says: "A circuit breaker can be outside the retries",
			scene: scene{
				service: statuses(503),
				calls:   5,
				tell:    func(p *played) string { return inCalls(p) + " → " + p.result() },
			},
			theirs: func(b http.RoundTripper) http.RoundTripper {
				return failsafehttp.NewRoundTripper(b, breaker(), peers.FailsafeRetry(lastFailure))
			},
			ours: func(b http.RoundTripper) http.RoundTripper {
				return failsafehttp.NewRoundTripper(&awsretry.Transport{Base: b}, breaker())
			}, by: "failsafehttp.NewRoundTripper(&Transport{}, breaker)"},
		{says: "A hedge sends a second request if the first is slow",
			scene: scene{service: afterDelay(5 * time.Second), tell: duration},
			theirs: func(b http.RoundTripper) http.RoundTripper {
				return failsafehttp.NewRoundTripper(b, hedgepolicy.NewWithDelay[*http.Response](time.Second))
			}},
		{says: "Listeners see a retry that is scheduled, and the end of retries",
			scene: scene{service: statuses(503), tell: allNotes},
			theirs: func(b http.RoundTripper) http.RoundTripper {
				p := b.(*played)
				return peers.Failsafe(func(b peers.RetryBuilder) {
					oneSecond(b)
					b.OnRetryScheduled(func(e failsafe.ExecutionScheduledEvent[*http.Response]) {
						p.note("retry in %v", e.Delay)
					})
					b.OnRetriesExceeded(func(failsafe.ExecutionEvent[*http.Response]) { p.note("no more") })
				})(b)
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
func breaker() peers.Policy {
	return circuitbreaker.NewBuilder[*http.Response]().
		HandleIf(func(resp *http.Response, err error) bool { return err != nil || resp.StatusCode >= 500 }).
		WithFailureThreshold(2).WithDelay(time.Hour).Build()
}
