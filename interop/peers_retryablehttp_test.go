package interop

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"example.com/awsretry"
	"github.com/hashicorp/go-retryablehttp"
)

var errConnReset = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}

// retryablehttpOf makes go-retryablehttp's RoundTripper, which logs nothing.
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

// awsretryOf makes a Transport with what is set.
func awsretryOf(set ...func(*awsretry.Transport)) wrapper {
	return func(b http.RoundTripper, _ *played) http.RoundTripper {
		t := &awsretry.Transport{Base: b}
		for _, s := range set {
			s(t)
		}
		return t
	}
}

func unjittered(t *awsretry.Transport)   { t.Backoff = awsretry.Exponential{Jitter: awsretry.NoJitter} }
func unspread(t *awsretry.Transport)     { t.RetryAfterSpread = -1 }
func fiveAttempts(t *awsretry.Transport) { t.MaxAttempts = 5 }

const byNoSpread = "RetryAfterSpread: -1"

const byNoJitter = "Exponential{Jitter: NoJitter}"

// countOnly leaves the times out, which are random.
func countOnly(p *played) string { return count(len(p.at)) + " → " + p.result() }

// wholeBodies says how many of the attempts sent the whole body.
func wholeBodies(want string) func(*played) string {
	return func(p *played) string {
		whole := 0
		for _, b := range p.bodies {
			if b == want {
				whole++
			}
		}
		return fmt.Sprintf("%s, %d with the whole body → %s", count(len(p.at)), whole, p.result())
	}
}

// cancelAfter is the context of a caller who goes away.
func cancelAfter(d time.Duration) func() (context.Context, context.CancelFunc) {
	return func() (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(context.Background())
		timer := time.AfterFunc(d, cancel)
		return ctx, func() { timer.Stop(); cancel() }
	}
}

func deadlineIn(d time.Duration) func() (context.Context, context.CancelFunc) {
	return func() (context.Context, context.CancelFunc) { return context.WithTimeout(context.Background(), d) }
}

// slowly takes five seconds for the first byte.
func slowly(content string) func() io.Reader {
	return func() io.Reader {
		body := strings.NewReader(content)
		first := true
		return readFunc(func(p []byte) (int, error) {
			if first {
				first = false
				time.Sleep(5 * time.Second)
			}
			return body.Read(p)
		})
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func streamOf(content string) func() io.Reader {
	return func() io.Reader { return struct{ io.Reader }{strings.NewReader(content)} }
}

func bytesOf(content string) func() io.Reader {
	return func() io.Reader { return bytes.NewReader([]byte(content)) }
}

func retryablehttpPeer() peer {
	const readme, doc = "README", "package doc"
	large := strings.Repeat("0123456789abcdef", 3<<16)
	return peer{"go-retryablehttp", "github.com/hashicorp/go-retryablehttp", []promise{{
		says: "A connection error is retried", where: readme,
		scene:  scene{service: []step{{err: errConnReset}, {status: 200}}, tell: countOnly},
		theirs: retryablehttpOf(), ours: awsretryOf(),
		it: "2 attempts → 200",
	}, {
		says: "Answers of the 500 range are retried", where: readme,
		scene:  scene{service: statuses(500, 502, 503, 504, 200), tell: countOnly},
		theirs: retryablehttpOf(), ours: awsretryOf(fiveAttempts), by: "MaxAttempts: 5",
		it: "5 attempts → 200",
	}, {
		says: "… but 501", where: readme,
		scene:  scene{service: statuses(501, 200)},
		theirs: retryablehttpOf(), ours: awsretryOf(),
		it: "1 attempt → 501",
	}, {
		says: "… and 505 with them", where: readme,
		scene:  scene{service: statuses(505, 200), tell: countOnly},
		theirs: retryablehttpOf(), ours: awsretryOf(),
		it: "2 attempts → 200", we: "1 attempt → 505",
		why: "The same request would be answered the same way; so with 506, 507, 508, 510 and 511",
	}, {
		says: "Any other answer is the caller's to interpret", where: readme,
		scene:  scene{service: []step{{status: 404, content: "no such thing"}}},
		theirs: retryablehttpOf(), ours: awsretryOf(),
		it: `1 attempt → 404 "no such thing"`,
	}, {
		says: "A 429 is retried after the seconds in its Retry-After", where: "DefaultBackoff",
		scene:  scene{service: []step{{status: 429, header: []string{"Retry-After", "7"}}, {status: 200}}},
		theirs: retryablehttpOf(), ours: awsretryOf(unspread), by: byNoSpread,
		it: "2 attempts at 0s, 7s → 200",
	}, {
		says: "Retry-After is looked at on 429 and 503; here it is on a 500", where: "DefaultBackoff",
		scene:  scene{service: []step{{status: 500, header: []string{"Retry-After", "7"}}, {status: 200}}},
		theirs: retryablehttpOf(), ours: awsretryOf(unspread), by: byNoSpread,
		it: "2 attempts at 0s, 1s → 200", we: "2 attempts at 0s, 7s → 200",
		why: "A service that says when it will be back means it, whatever the status",
	}, {
		says: "Retry-After is waited for, a day too", where: "DefaultBackoff",
		scene:  scene{service: []step{{status: 429, header: []string{"Retry-After", "86400"}}, {status: 200}}},
		theirs: retryablehttpOf(), ours: awsretryOf(),
		it: "2 attempts at 0s, 24h0m0s → 200", we: "1 attempt → 429",
		why: "A pause above MaxRetryAfter (1 min) is the caller's decision: the answer goes back with its header",
	}, {
		says: "A Retry-After in the past means no pause", where: "DefaultBackoff",
		scene:  scene{service: []step{{status: 429, header: []string{"Retry-After", "Fri, 31 Dec 1999 00:00:00 GMT"}}, {status: 200}}},
		theirs: retryablehttpOf(), ours: awsretryOf(unjittered), by: byNoJitter,
		it: "2 attempts at 0s, 0s → 200", we: "2 attempts at 0s, 1s → 200",
		why: "A header may lengthen a pause and never shortens one: a clock that is wrong would make all clients retry at once",
	}, {
		says: "Pauses grow from 1 s, doubled up to 30 s", where: "DefaultBackoff",
		scene:  scene{service: statuses(500), tell: (*played).attempts},
		theirs: retryablehttpOf(), ours: awsretryOf(fiveAttempts, unjittered), by: "MaxAttempts: 5, Exponential{Jitter: NoJitter}",
		it: "5 attempts at 0s, 1s, 3s, 7s, 15s",
	}, {
		says: "4 retries unless told otherwise", where: "NewClient",
		scene:  scene{service: statuses(500), tell: func(p *played) string { return count(len(p.at)) }},
		theirs: retryablehttpOf(), ours: awsretryOf(),
		it: "5 attempts", we: "3 attempts",
		why: "The AWS SDKs' default; a failing service gets less of the load that it cannot bear",
	}, {
		says: "When retries are used up, the answer is closed and an error returned", where: "ErrorHandler",
		scene:  scene{service: []step{{status: 503, content: "down until noon"}}, tell: countOnly},
		theirs: retryablehttpOf(), ours: awsretryOf(fiveAttempts), by: "MaxAttempts: 5",
		it: "5 attempts → error: giving up after 5 attempt(s)", we: `5 attempts → 503 "down until noon"`,
		why: "An answer is no transport error: the caller gets the last one, whole; Outcome says why it was not retried",
	}, {
		says: "… unless PassthroughErrorHandler is set, which gives it back", where: "PassthroughErrorHandler",
		scene:  scene{service: []step{{status: 503, content: "down until noon"}}, tell: countOnly},
		theirs: retryablehttpOf(func(c *retryablehttp.Client) { c.ErrorHandler = retryablehttp.PassthroughErrorHandler }),
		ours:   awsretryOf(fiveAttempts), by: "MaxAttempts: 5",
		it: `5 attempts → 503 "down until noon"`,
	}, {
		says: "A body is sent again whole", where: readme,
		scene:  scene{service: statuses(503, 200), body: bytesOf("the body"), tell: wholeBodies("the body")},
		theirs: retryablehttpOf(), ours: awsretryOf(),
		it: "2 attempts, 2 with the whole body → 200",
	}, {
		says: "… a stream too, however long", where: doc,
		scene:  scene{service: statuses(503, 200), body: streamOf(large), tell: wholeBodies(large)},
		theirs: retryablehttpOf(), ours: awsretryOf(),
		it: "2 attempts, 2 with the whole body → 200", we: "1 attempt, 1 with the whole body → 503",
		why: "3 MiB are above MaxBodyBuffer (1 MiB): memory is bounded. A file is read in place, and GetBody goes before both",
	}, {
		says: "… which is read before the first request is sent", where: doc,
		scene:  scene{service: statuses(200), body: slowly("written while it is sent"), tell: func(p *played) string { return "sent after " + p.at[0].String() + " → " + p.result() }},
		theirs: retryablehttpOf(), ours: awsretryOf(),
		it: "sent after 5s → 200", we: "sent after 0s → 200",
		why: "A body that is written while the answer is read has to work, and what is kept for a retry is kept as it is sent",
	}, {
		says: "The context ends a pause, and its error is returned", where: "NewRequestWithContext",
		scene: scene{service: []step{{err: errConnReset}}, context: cancelAfter(300 * time.Millisecond), tell: func(p *played) string {
			return fmt.Sprintf("%s in %v → %s", count(len(p.at)), p.took, p.is(context.Canceled, syscall.ECONNRESET))
		}},
		theirs: retryablehttpOf(), ours: awsretryOf(unjittered), by: byNoJitter,
		it:  "1 attempt in 300ms → an error that is context canceled",
		we:  "1 attempt in 300ms → an error that is context canceled and connection reset by peer",
		why: "What went wrong before is in the error's chain as well",
	}, {
		says: "… a deadline too", where: "NewRequestWithContext",
		scene: scene{service: []step{{status: 503, content: "down"}}, context: deadlineIn(500 * time.Millisecond), tell: func(p *played) string {
			return fmt.Sprintf("%s in %v → %s", count(len(p.at)), p.took, p.is(context.DeadlineExceeded))
		}},
		theirs: retryablehttpOf(), ours: awsretryOf(unjittered), by: byNoJitter,
		it: "1 attempt in 500ms → an error that is context deadline exceeded", we: `1 attempt in 0s → 503 "down"`,
		why: "A pause that would end after the deadline is not begun: the answer goes back while it is of use",
	}, {
		says: "CheckRetry decides what is retried", where: "CheckRetry",
		scene: scene{service: statuses(404, 200), tell: countOnly},
		theirs: retryablehttpOf(func(c *retryablehttp.Client) {
			c.CheckRetry = func(_ context.Context, resp *http.Response, err error) (bool, error) {
				return err == nil && resp.StatusCode == 404, nil
			}
		}),
		ours: awsretryOf(func(t *awsretry.Transport) {
			t.Policy = func(a *awsretry.Attempt) awsretry.Class {
				if a.Response != nil && a.Response.StatusCode == 404 {
					return awsretry.Transient
				}
				return awsretry.DefaultPolicy(a)
			}
		}), by: "Policy",
		it: "2 attempts → 200",
	}, {
		says: "Backoff is a function of the caller's", where: "LinearJitterBackoff",
		scene: scene{service: statuses(500), tell: (*played).attempts},
		theirs: retryablehttpOf(func(c *retryablehttp.Client) {
			c.Backoff, c.RetryWaitMin, c.RetryWaitMax = retryablehttp.LinearJitterBackoff, time.Second, time.Second
		}),
		ours: awsretryOf(fiveAttempts, func(t *awsretry.Transport) {
			t.Backoff = awsretry.BackoffFunc(func(n int, _ awsretry.Class, _ time.Duration) time.Duration { return time.Duration(n+1) * time.Second })
		}), by: "MaxAttempts: 5, BackoffFunc",
		it: "5 attempts at 0s, 1s, 3s, 6s, 10s",
	}, {
		says: "PrepareRetry signs each retry anew", where: "PrepareRetry",
		scene: scene{service: statuses(500, 500, 200), tell: func(p *played) string { return fmt.Sprintf("signatures %q", p.signed) }},
		theirs: func(b http.RoundTripper, p *played) http.RoundTripper {
			n := 1
			return retryablehttpOf(func(c *retryablehttp.Client) {
				c.PrepareRetry = func(req *http.Request) error { n++; req.Header.Set("X-Signature", fmt.Sprint(n)); return nil }
			})(b, p)
		},
		ours: awsretryOf(func(t *awsretry.Transport) {
			t.Prepare = func(req *http.Request, n int) error { req.Header.Set("X-Signature", fmt.Sprint(n)); return nil }
		}), by: "Prepare",
		it: `signatures ["" "2" "3"]`, we: `signatures ["1" "2" "3"]`,
		why: "Prepare is called before the first attempt too, so that one function signs all of them; and its changes are not made to the caller's request",
	}, {
		says: "A certificate that is not trusted is not retried", where: "DefaultRetryPolicy",
		scene: scene{service: []step{{err: &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}}}, tell: func(p *played) string {
			var unknown x509.UnknownAuthorityError
			return fmt.Sprintf("%s → an error that is x509.UnknownAuthorityError: %t", p.attempts(), errors.As(p.err, &unknown))
		}},
		theirs: retryablehttpOf(), ours: awsretryOf(),
		it: "1 attempt → an error that is x509.UnknownAuthorityError: true",
	}, {
		says: "A response handler's error repeats the request", where: "SetResponseHandler",
		scene: scene{service: []step{{status: 200, content: "half"}, {status: 200, content: "half and half"}}, tell: func(p *played) string { return count(len(p.at)) }},
		theirs: func(b http.RoundTripper, p *played) http.RoundTripper {
			transport := retryablehttpOf()(b, p).(*retryablehttp.RoundTripper)
			return serviceFunc(func(req *http.Request) (*http.Response, error) {
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
		ours: awsretryOf(),
		it:   "2 attempts", we: "1 attempt",
		why: "A RoundTripper must not interpret the answer. What is in a body is looked at for AWS error codes alone, and the body goes back whole",
	}, {
		says: "A hook sees each request and each answer", where: "RequestLogHook, ResponseLogHook",
		scene: scene{service: statuses(500, 200), tell: func(p *played) string { return strings.Join(p.notes, ", ") }},
		theirs: func(b http.RoundTripper, p *played) http.RoundTripper {
			return retryablehttpOf(func(c *retryablehttp.Client) {
				n := 0
				c.RequestLogHook = func(_ retryablehttp.Logger, _ *http.Request, retry int) { n = retry + 1 }
				c.ResponseLogHook = func(_ retryablehttp.Logger, resp *http.Response) { p.note("attempt %d: %d", n, resp.StatusCode) }
			})(b, p)
		},
		ours: func(b http.RoundTripper, p *played) http.RoundTripper {
			return awsretryOf(func(t *awsretry.Transport) {
				t.Observe = func(a awsretry.Attempt) { p.note("attempt %d: %d", a.Number, a.Response.StatusCode) }
			})(b, p)
		}, by: "Observe",
		it: "attempt 1: 500, attempt 2: 200",
	}}}
}
