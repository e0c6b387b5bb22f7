package interop

import (
	"context"
	"fmt"
	"net/http"
	"syscall"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/peers"
	"github.com/hashicorp/go-retryablehttp"
)

func retryablehttpPeer() peer {
	large := httpfake.Text(3 << 20)
	return peer{"go-retryablehttp", "github.com/hashicorp/go-retryablehttp", peers.Retryablehttp(), []promise{
		{says: "Responses of the 500 range are retried",
			scene: scene{service: statuses(500, 502, 503, 504, 200), tell: countOnly}, with: settings{fiveAttempts}},
		{says: "… and 505 is among them", scene: scene{service: statuses(505, 200), tell: countOnly}},
		{says: "A 429 is retried after the seconds in its Retry-After", scene: scene{service: retryAfter(429, "7")},
			with: settings{unspread}},
		{says: "Only on 429 and 503 Retry-After is obeyed; here a 500 has it",
			scene: scene{service: retryAfter(500, "7")}, with: settings{unspread}},
		{says: "Retry-After is obeyed, even for a day", scene: scene{service: retryAfter(429, "86400")}},
		{says: "A Retry-After in the past means no delay",
			scene: scene{service: retryAfter(429, "Fri, 31 Dec 1999 00:00:00 GMT")}, with: settings{unjittered}},
		{says: "Delays begin at 1 s and double, up to 30 s",
			scene: scene{service: statuses(500), tell: (*played).attempts}, with: settings{fiveAttempts, unjittered}},
		{says: "4 retries by default", scene: scene{service: statuses(500), tell: number}},
		{says: "After the last attempt, the response is closed and an error returned",
			scene: scene{service: outage, tell: countOnly}, with: settings{fiveAttempts}},
		{says: "… unless PassthroughErrorHandler is set, which returns the response",
			scene: scene{service: outage, tell: countOnly},
			theirs: peers.Retryablehttp(
				func(c *retryablehttp.Client) { c.ErrorHandler = retryablehttp.PassthroughErrorHandler },
			), with: settings{fiveAttempts}},
		{says: "Each attempt sends the whole body, even of a long stream",
			scene: scene{service: statuses(503, 200), body: aStream(large), tell: whole(large)}},
		{says: "… which is read before the first request is sent",
			scene: scene{service: statuses(200), body: slowly("written while it is sent"), tell: sentAfter}},
		{says: "The context ends a delay, and its error is returned",
			scene: scene{
				service: []step{{err: errConnReset}}, context: cancelAfter(300 * time.Millisecond),
				tell: endedIn(context.Canceled, syscall.ECONNRESET),
			}, with: settings{unjittered}},
		{says: "CheckRetry decides what is retried", scene: scene{service: statuses(404, 200), tell: countOnly},
			theirs: peers.Retryablehttp(func(c *retryablehttp.Client) {
				c.CheckRetry = func(_ context.Context, resp *http.Response, err error) (bool, error) {
					return err == nil && resp.StatusCode == 404, nil
				}
			}), with: settings{retryStatus(404)}},
		{says: "The caller can choose the function for delays",
			scene: scene{service: statuses(500), tell: (*played).attempts},
			theirs: peers.Retryablehttp(func(c *retryablehttp.Client) {
				c.Backoff, c.RetryWaitMin, c.RetryWaitMax = retryablehttp.LinearJitterBackoff, time.Second, time.Second
			}),
			with: settings{fiveAttempts, backoff("BackoffFunc",
				awsretry.BackoffFunc(func(n int, _ awsretry.Class, _ time.Duration) time.Duration {
					return time.Duration(n+1) * time.Second
				}))}},
		{says: "PrepareRetry can sign each retry",
			scene: scene{service: statuses(500, 500, 200), tell: func(p *played) string {
				return fmt.Sprintf("signatures %q", p.signed)
			}},
			theirs: func(b http.RoundTripper) http.RoundTripper {
				n := 1
				return peers.Retryablehttp(func(c *retryablehttp.Client) {
					c.PrepareRetry = func(req *http.Request) error { n++; req.Header.Set("X-Signature", fmt.Sprint(n)); return nil }
				})(b)
			},
			ours: peers.Awsretry(func(tr *awsretry.Transport) {
				tr.Prepare = func(req *http.Request, n int) error { req.Header.Set("X-Signature", fmt.Sprint(n)); return nil }
			}), by: "Prepare"},
	}}
}
