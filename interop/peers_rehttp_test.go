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

// rehttpOf returns a wrapper with the Transport of rehttp, which retries twice
// at most, with delays of a second.
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

func rehttpPeer() peer {
	const doc = "package doc"
	on503 := rehttp.RetryStatuses(503)
	onError := rehttp.RetryIsErr(func(err error) bool { return err != nil })
	onDeadline := rehttp.RetryIsErr(func(err error) bool { return errors.Is(err, context.DeadlineExceeded) })
	longest := func(n int64) int64 { return n - 1 }
	twoSecondsEach := func(tr *rehttp.Transport) { tr.PerAttemptTimeout = 2 * time.Second }
	preventRetry := func(tr *rehttp.Transport) { tr.PreventRetryWithBody = true }
	closed := func(p *played) string {
		n := 0
		for _, body := range p.bodies {
			n += min(body.Closes(), 1)
		}
		return fmt.Sprintf("%d responses, %d closed", len(p.at), n)
	}
	keepsBody := func(p *played) string {
		return fmt.Sprintf("%s, and the request's Body is the caller's own: %t",
			count(len(p.at)), p.request.Body == p.body)
	}
	return peer{"rehttp", "github.com/PuerkitoBio/rehttp", rehttpOf(on503), []promise{{
		says: "RetryMaxRetries(2) allows two retries", where: "RetryMaxRetries",
		scene: scene{service: statuses(503)},
		with:  settings{everySecond},
		it:    "3 attempts at 0s, 1s, 2s → 503",
	}, {
		says: "The last response is returned as it is", where: "Transport.RoundTrip",
		scene: scene{service: outage, tell: countOnly},
		it:    `3 attempts → 503 "down until noon"`,
	}, {
		says: "A response that is retried is closed", where: "Transport.RoundTrip",
		scene: scene{service: statuses(503, 503, 200), tell: closed},
		it:    "3 responses, 3 closed",
	}, {
		says: "The delay is between 0 and base*2^n, at most max; here its longest", where: "ExpJitterDelay",
		scene:  scene{service: statuses(503), tell: (*played).attempts},
		theirs: rehttpWith(on503, rehttp.ExpJitterDelayWithRand(time.Second, 1500*time.Millisecond, longest)),
		with: settings{backoff("Exponential{Max: 1.5 s, Jitter: NoJitter}",
			awsretry.Exponential{Max: 1500 * time.Millisecond, Jitter: awsretry.NoJitter})}, // FullJitter's longest
		it: "3 attempts at 0s, 1s, 2.5s",
	}, {
		says: "RetryStatuses and RetryStatusInterval choose the statuses", where: "RetryStatuses",
		scene:  scene{service: statuses(425, 200), tell: countOnly},
		theirs: rehttpOf(rehttp.RetryStatuses(425)),
		with:   settings{retryStatus(425)},
		it:     "2 attempts → 200",
	}, {
		says: "The function that decides sees successes, too", where: "Transport.retry",
		scene:  scene{service: statuses(202, 202, 200), tell: countOnly},
		theirs: rehttpOf(rehttp.RetryStatuses(202)),
		with:   settings{retryStatus(202)},
		it:     "3 attempts → 200",
	}, {
		says: "RetryHTTPMethods excludes POST", where: "RetryHTTPMethods",
		scene: scene{
			service: []step{{err: errConnReset}},
			method:  "POST",
			body:    inMemory("an order"),
			tell:    countOnly,
		},
		theirs: rehttpOf(rehttp.RetryAll(rehttp.RetryHTTPMethods("GET", "PUT"), onError)),
		with:   settings{idempotentOnly},
		it:     "1 attempt → error: read tcp: connection reset by peer",
		we:     "1 attempt → error: awsretry: gave up after 1 attempt (permanent): read tcp: connection reset by peer",
		why:    "The error says how many attempts were made and why there are no more. errors.Is and As see through it",
	}, {
		says: "RetryTimeoutErr retries time-outs", where: "RetryTimeoutErr",
		scene:  scene{service: afterError(timeoutError{}), tell: countOnly},
		theirs: rehttpOf(rehttp.RetryTimeoutErr()),
		it:     "2 attempts → 200",
	}, {
		says: "… and no other error", where: "RetryTimeoutErr",
		scene:  scene{service: afterError(errConnReset), tell: number},
		theirs: rehttpOf(rehttp.RetryTimeoutErr()),
		with: settings{withPolicy(func(a *awsretry.Attempt) awsretry.Class {
			if class := awsretry.DefaultPolicy(a); a.Err == nil || class == awsretry.Timeout {
				return class
			}
			return awsretry.Permanent
		})},
		it: "1 attempt",
	}, {
		says: "A body is buffered, and each attempt sends the whole body", where: doc,
		scene: scene{service: statuses(503, 200), body: aStream("the body"), tell: whole("the body")},
		it:    "2 attempts, 2 with the whole body → 200",
	}, {
		says: "… before the first attempt", where: doc,
		scene: scene{service: statuses(200), body: slowly("written while it is sent"), tell: sentAfter},
		it:    "sent after 5s → 200", we: "sent after 0s → 200",
		why: writtenWhileSent,
	}, {
		says: "PreventRetryWithBody sends a body once, without a buffer", where: "PreventRetryWithBody",
		scene:  scene{service: statuses(503, 200), body: aStream("the body"), tell: whole("the body")},
		theirs: rehttpOf(on503, preventRetry),
		with:   settings{unbuffered},
		it:     "1 attempt, 1 with the whole body → 503",
	}, {
		says: "… even if it needs no buffer", where: "PreventRetryWithBody",
		scene:  scene{service: statuses(503, 200), body: inMemory("the body"), tell: whole("the body")},
		theirs: rehttpOf(on503, preventRetry),
		with:   settings{unbuffered},
		it:     "1 attempt, 1 with the whole body → 503", we: "2 attempts, 2 with the whole body → 200",
		why: "With GetBody, or a file, nothing is buffered. WithoutRetry sends a request once",
	}, {
		says: "A RoundTripper does not modify the request", where: "Transport.RoundTrip (a comment on Go's rule)",
		scene: scene{service: statuses(503, 200), body: inMemory("the body"), tell: keepsBody},
		it:    "2 attempts, and the request's Body is the caller's own: false",
		we:    "2 attempts, and the request's Body is the caller's own: true",
		why:   "Each attempt that differs has a request of its own",
	}, {
		says: "PerAttemptTimeout ends an attempt, which is retried", where: "PerAttemptTimeout",
		scene:  scene{service: afterDelay(time.Hour)},
		theirs: rehttpOf(onDeadline, twoSecondsEach),
		with:   settings{twoSeconds, everySecond},
		it:     "2 attempts at 0s, 3s → 200",
	}, {
		says: "… and its error is context.DeadlineExceeded", where: "PerAttemptTimeout",
		scene: scene{service: []step{{status: 200, takes: time.Hour}}, tell: func(p *played) string {
			return fmt.Sprintf("%s; says Timeout: %t", p.is(context.DeadlineExceeded), isTimeout(p.err))
		}},
		theirs: rehttpOf(on503, twoSecondsEach),
		with:   settings{twoSeconds},
		it:     "an error that is context deadline exceeded; says Timeout: true",
		we:     "an error that is none of them; says Timeout: true",
		why:    "Only the caller's own deadline is context.DeadlineExceeded",
	}, {
		says: "An overall deadline ends the call earlier", where: "PerAttemptTimeout",
		scene: scene{
			service: afterDelay(time.Hour),
			context: deadlineIn(500 * time.Millisecond), tell: endedIn(context.DeadlineExceeded),
		},
		theirs: rehttpOf(on503, twoSecondsEach),
		with:   settings{twoSeconds},
		it:     "1 attempt in 500ms → an error that is context deadline exceeded",
	}, {
		says: "A cancel ends the delay", where: doc,
		scene: scene{
			service: statuses(503),
			context: cancelAfter(300 * time.Millisecond),
			tell:    endedIn(context.Canceled),
		},
		with: settings{everySecond},
		it:   "1 attempt in 300ms → an error that is none of them",
		we:   "1 attempt in 300ms → an error that is context canceled",
		why:  "errors.Is finds the context's error and its cause",
	}, {
		says: "RetryAll and RetryAny combine conditions", where: "RetryAll, RetryAny",
		scene:  scene{service: append(statuses(503), afterError(timeoutError{})...), tell: countOnly},
		theirs: rehttpOf(rehttp.RetryAny(on503, rehttp.RetryTimeoutErr())),
		with: settings{withPolicy(func(a *awsretry.Attempt) awsretry.Class {
			class := awsretry.DefaultPolicy(a)
			if class == awsretry.Timeout || a.Response != nil && a.Response.StatusCode == 503 {
				return class
			}
			return awsretry.Success
		})},
		it: "3 attempts → 200",
	}, {
		says: "… and without RetryMaxRetries, retries do not end", where: doc,
		scene: scene{service: append(statuses(many503(300)...), success), tell: countOnly},
		theirs: func(b http.RoundTripper, _ *played) http.RoundTripper {
			return rehttp.NewTransport(b, on503, rehttp.ConstDelay(time.Second))
		},
		with: settings{manyAttempts, everySecond},
		it:   "301 attempts → 200", we: "101 attempts → 503",
		why: bucketEnds,
	}}}
}
