package interop

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"github.com/hashicorp/go-retryablehttp"
)

// retryablehttpOf returns a wrapper with the RoundTripper of go-retryablehttp.
func retryablehttpOf(set ...func(*retryablehttp.Client)) wrapper {
	return func(b http.RoundTripper, _ *played) http.RoundTripper {
		client := retryablehttp.NewClient()
		client.HTTPClient = &http.Client{Transport: b}
		client.Logger = nil
		for _, s := range set {
			s(client)
		}
		return &retryablehttp.RoundTripper{Client: client}
	}
}

func retryablehttpPeer() peer {
	const readme, doc = "README", "package doc"
	large := httpfake.Text(3 << 20)
	untrusted := &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
	return peer{"go-retryablehttp", "github.com/hashicorp/go-retryablehttp", retryablehttpOf(), []promise{{
		says: "A connection error is retried", where: readme,
		scene: scene{service: afterError(errConnReset), tell: countOnly},
		it:    "2 attempts → 200",
	}, {
		says: "Responses of the 500 range are retried", where: readme,
		scene: scene{service: statuses(500, 502, 503, 504, 200), tell: countOnly},
		with:  settings{fiveAttempts},
		it:    "5 attempts → 200",
	}, {
		says: "… except 501", where: readme,
		scene: scene{service: statuses(501, 200)},
		it:    "1 attempt → 501",
	}, {
		says: "… and 505 is among them", where: readme,
		scene: scene{service: statuses(505, 200), tell: countOnly},
		it:    "2 attempts → 200", we: "1 attempt → 505",
		why: "The same request gets the same response. 506, 507, 508, 510 and 511 are not retried either",
	}, {
		says: "The caller interprets any other response", where: readme,
		scene: scene{service: []step{{status: 404, content: "no such thing"}}},
		it:    `1 attempt → 404 "no such thing"`,
	}, {
		says: "A 429 is retried after the seconds in its Retry-After", where: "DefaultBackoff",
		scene: scene{service: retryAfter(429, "7")},
		with:  settings{unspread},
		it:    "2 attempts at 0s, 7s → 200",
	}, {
		says: "Only on 429 and 503 Retry-After is obeyed; here a 500 has it", where: "DefaultBackoff",
		scene: scene{service: retryAfter(500, "7")},
		with:  settings{unspread},
		it:    "2 attempts at 0s, 1s → 200", we: "2 attempts at 0s, 7s → 200",
		why: "The service means it, whatever the status",
	}, {
		says: "Retry-After is obeyed, even for a day", where: "DefaultBackoff",
		scene: scene{service: retryAfter(429, "86400")},
		it:    "2 attempts at 0s, 24h0m0s → 200", we: "1 attempt → 429",
		why: overMaxRetryAfter,
	}, {
		says: "A Retry-After in the past means no delay", where: "DefaultBackoff",
		scene: scene{service: retryAfter(429, "Fri, 31 Dec 1999 00:00:00 GMT")},
		with:  settings{unjittered},
		it:    "2 attempts at 0s, 0s → 200", we: "2 attempts at 0s, 1s → 200",
		why: "A header never shortens a delay: a wrong clock would make all clients retry at once",
	}, {
		says: "Delays begin at 1 s and double, up to 30 s", where: "DefaultBackoff",
		scene: scene{service: statuses(500), tell: (*played).attempts},
		with:  settings{fiveAttempts, unjittered},
		it:    "5 attempts at 0s, 1s, 3s, 7s, 15s",
	}, {
		says: "4 retries by default", where: "NewClient",
		scene: scene{service: statuses(500), tell: number},
		it:    "5 attempts", we: "3 attempts",
		why: "The default of the AWS SDKs, and less load on a failing service",
	}, {
		says: "After the last attempt, the response is closed and an error returned", where: "ErrorHandler",
		scene: scene{service: outage, tell: countOnly},
		with:  settings{fiveAttempts},
		it:    "5 attempts → error: giving up after 5 attempt(s)", we: `5 attempts → 503 "down until noon"`,
		why: "A response is not an error: the caller gets the last one, whole. Outcome says why it was not retried",
	}, {
		says: "… unless PassthroughErrorHandler is set, which returns the response", where: "PassthroughErrorHandler",
		scene: scene{service: outage, tell: countOnly},
		theirs: retryablehttpOf(
			func(c *retryablehttp.Client) { c.ErrorHandler = retryablehttp.PassthroughErrorHandler },
		),
		with: settings{fiveAttempts},
		it:   `5 attempts → 503 "down until noon"`,
	}, {
		says: "Each attempt sends the whole body", where: readme,
		scene: scene{service: statuses(503, 200), body: inMemory("the body"), tell: whole("the body")},
		it:    "2 attempts, 2 with the whole body → 200",
	}, {
		says: "… even if it is a long stream", where: doc,
		scene: scene{service: statuses(503, 200), body: aStream(large), tell: whole(large)},
		it:    "2 attempts, 2 with the whole body → 200", we: "1 attempt, 1 with the whole body → 503",
		why: "3 MiB are above MaxBodyBuffer (1 MiB). A file, or a body with GetBody, needs no buffer",
	}, {
		says: "… which is read before the first request is sent", where: doc,
		scene: scene{service: statuses(200), body: slowly("written while it is sent"), tell: sentAfter},
		it:    "sent after 5s → 200", we: "sent after 0s → 200",
		why: writtenWhileSent,
	}, {
		says: "The context ends a delay, and its error is returned", where: "NewRequestWithContext",
		scene: scene{
			service: []step{{err: errConnReset}}, context: cancelAfter(300 * time.Millisecond),
			tell: endedIn(context.Canceled, syscall.ECONNRESET),
		},
		with: settings{unjittered},
		it:   "1 attempt in 300ms → an error that is context canceled",
		we:   "1 attempt in 300ms → an error that is context canceled and connection reset by peer",
		why:  "The error matches the failure before the delay, too",
	}, {
		says: "… and so does a deadline", where: "NewRequestWithContext",
		scene: scene{
			service: []step{{status: 503, content: "down"}}, context: deadlineIn(500 * time.Millisecond),
			tell: endedIn(context.DeadlineExceeded),
		},
		with: settings{unjittered},
		it:   "1 attempt in 500ms → an error that is context deadline exceeded", we: `1 attempt in 0s → 503 "down"`,
		why: "A delay that would end after the deadline is not begun: the response is returned at once",
	}, {
		says: "CheckRetry decides what is retried", where: "CheckRetry",
		scene: scene{service: statuses(404, 200), tell: countOnly},
		theirs: retryablehttpOf(func(c *retryablehttp.Client) {
			c.CheckRetry = func(_ context.Context, resp *http.Response, err error) (bool, error) {
				return err == nil && resp.StatusCode == 404, nil
			}
		}),
		with: settings{retryStatus(404)},
		it:   "2 attempts → 200",
	}, {
		says: "The caller can choose the function for delays", where: "LinearJitterBackoff",
		scene: scene{service: statuses(500), tell: (*played).attempts},
		theirs: retryablehttpOf(func(c *retryablehttp.Client) {
			c.Backoff, c.RetryWaitMin, c.RetryWaitMax = retryablehttp.LinearJitterBackoff, time.Second, time.Second
		}),
		with: settings{fiveAttempts, backoff("BackoffFunc",
			awsretry.BackoffFunc(func(n int, _ awsretry.Class, _ time.Duration) time.Duration {
				return time.Duration(n+1) * time.Second
			}))},
		it: "5 attempts at 0s, 1s, 3s, 6s, 10s",
	}, {
		says: "PrepareRetry can sign each retry", where: "PrepareRetry",
		scene: scene{service: statuses(500, 500, 200), tell: func(p *played) string {
			return fmt.Sprintf("signatures %q", p.signed)
		}},
		theirs: func(b http.RoundTripper, p *played) http.RoundTripper {
			n := 1
			return retryablehttpOf(func(c *retryablehttp.Client) {
				c.PrepareRetry = func(req *http.Request) error { n++; req.Header.Set("X-Signature", fmt.Sprint(n)); return nil }
			})(b, p)
		},
		ours: awsretryOf(func(tr *awsretry.Transport) {
			tr.Prepare = func(req *http.Request, n int) error { req.Header.Set("X-Signature", fmt.Sprint(n)); return nil }
		}), by: "Prepare",
		it: `signatures ["" "2" "3"]`, we: `signatures ["1" "2" "3"]`,
		why: "Prepare is called before the first attempt, too. It changes a copy, not the caller's request",
	}, {
		says: "A request to an untrusted server is not retried", where: "DefaultRetryPolicy",
		scene: scene{service: []step{{err: untrusted}}, tell: func(p *played) string {
			var unknown x509.UnknownAuthorityError
			return fmt.Sprintf("%s → x509.UnknownAuthorityError: %t", number(p), errors.As(p.err, &unknown))
		}},
		it: "1 attempt → x509.UnknownAuthorityError: true",
	}, {
		says: "If a response handler fails, the request is repeated", where: "SetResponseHandler",
		scene: scene{
			service: []step{{status: 200, content: "half"}, {status: 200, content: "half and half"}},
			tell:    number,
		},
		theirs: func(b http.RoundTripper, p *played) http.RoundTripper {
			transport := retryablehttpOf()(b, p).(*retryablehttp.RoundTripper)
			return httpfake.Base(func(req *http.Request) (*http.Response, error) {
				wrapped, err := retryablehttp.FromRequest(req)
				if err != nil {
					return nil, err
				}
				wrapped.SetResponseHandler(func(resp *http.Response) error {
					if content, _ := io.ReadAll(resp.Body); string(content) == "half" {
						return io.ErrUnexpectedEOF
					}
					return nil
				})
				return transport.Client.Do(wrapped)
			})
		},
		it: "2 attempts", we: "1 attempt",
		why: "A RoundTripper must not interpret the response. awsretry only searches bodies for AWS error codes",
	}, {
		says: "A hook sees each request and each response", where: "RequestLogHook, ResponseLogHook",
		scene: scene{service: statuses(500, 200), tell: allNotes},
		theirs: func(b http.RoundTripper, p *played) http.RoundTripper {
			return retryablehttpOf(func(c *retryablehttp.Client) {
				n := 0
				c.RequestLogHook = func(_ retryablehttp.Logger, _ *http.Request, retry int) { n = retry + 1 }
				c.ResponseLogHook = func(_ retryablehttp.Logger, resp *http.Response) {
					p.note("attempt %d: %d", n, resp.StatusCode)
				}
			})(b, p)
		},
		ours: observing(func(p *played, a awsretry.Attempt) {
			p.note("attempt %d: %d", a.Number, a.Response.StatusCode)
		}), by: "Observe",
		it: "attempt 1: 500, attempt 2: 200",
	}}}
}
