package interop

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/interop/internal/peers"
	"github.com/PuerkitoBio/rehttp"
)

func rehttpPeer() peer {
	rehttpOf := func(retry rehttp.RetryFn, set ...func(*rehttp.Transport)) peers.Wrap {
		return peers.Rehttp(2, retry, rehttp.ConstDelay(time.Second), set...)
	}
	on503 := rehttp.RetryStatuses(503)
	onError := rehttp.RetryIsErr(func(err error) bool { return err != nil })
	twoSecondsEach := func(tr *rehttp.Transport) { tr.PerAttemptTimeout = 2 * time.Second }
	preventRetry := func(tr *rehttp.Transport) { tr.PreventRetryWithBody = true }
	keepsBody := func(p *played) string {
		return fmt.Sprintf("%s, and the request's Body is the caller's own: %t",
			count(len(p.at)), p.request.Body == p.body)
	}
	return peer{"rehttp", "github.com/PuerkitoBio/rehttp", rehttpOf(on503), []promise{
		{says: "RetryHTTPMethods excludes POST",
			scene: scene{
				service: []step{{err: errConnReset}},
				method:  "POST",
				body:    inMemory("an order"),
				tell:    countOnly,
			}, theirs: rehttpOf(rehttp.RetryAll(rehttp.RetryHTTPMethods("GET", "PUT"), onError)),
			with: settings{idempotentOnly}},
		{says: "RetryTimeoutErr retries time-outs, and no other error", scene: scene{service: afterError(errConnReset), tell: number},
			theirs: rehttpOf(rehttp.RetryTimeoutErr()),
			with: settings{withPolicy(func(a *awsretry.Attempt) awsretry.Class {
				if class := awsretry.DefaultPolicy(a); a.Err == nil || class == awsretry.Timeout {
					return class
				}
				return awsretry.Permanent
			})}},
		{says: "PreventRetryWithBody sends a body once, without a buffer",
			scene:  scene{service: statuses(503, 200), body: aStream("the body"), tell: whole("the body")},
			theirs: rehttpOf(on503, preventRetry), with: settings{unbuffered}},
		{says: "… even if it needs no buffer",
			scene:  scene{service: statuses(503, 200), body: inMemory("the body"), tell: whole("the body")},
			theirs: rehttpOf(on503, preventRetry), with: settings{unbuffered}},
		{says: "A RoundTripper does not modify the request",
			scene: scene{service: statuses(503, 200), body: inMemory("the body"), tell: keepsBody}},
		{says: "PerAttemptTimeout ends with context.DeadlineExceeded",
			scene: scene{service: []step{{status: 200, takes: time.Hour}}, tell: func(p *played) string {
				return fmt.Sprintf("%s; says Timeout: %t", p.is(context.DeadlineExceeded), isTimeout(p.err))
			}}, theirs: rehttpOf(on503, twoSecondsEach), with: settings{twoSeconds}},
		{says: "A cancel ends the delay",
			scene: scene{
				service: statuses(503),
				context: cancelAfter(300 * time.Millisecond),
				tell:    endedIn(context.Canceled),
			}, with: settings{everySecond}},
		{says: "Without RetryMaxRetries, retries do not end",
			scene: scene{service: append(statuses(many503(300)...), success), tell: countOnly},
			theirs: func(b http.RoundTripper) http.RoundTripper {
				return rehttp.NewTransport(b, on503, rehttp.ConstDelay(time.Second))
			}, with: settings{manyAttempts, everySecond}},
	}}
}
