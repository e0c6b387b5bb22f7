package contract_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
)

// Where no retry can follow, the response is returned at once and unread, so
// only its status and header count for the class. Elsewhere this body would be
// waited for until it ends.
func TestNoRetryCanFollow(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*transport, *http.Request) *http.Request
		body   string // one-shot; "" if there is none
		stop   awsretry.Stop
	}{
		{
			"MaxAttempts 1", func(tr *transport, req *http.Request) *http.Request {
				tr.MaxAttempts = 1
				return req
			}, "", awsretry.StopMaxAttempts,
		},
		{
			"WithMaxAttempts", func(_ *transport, req *http.Request) *http.Request {
				return req.WithContext(awsretry.WithMaxAttempts(req.Context(), 1))
			}, "", awsretry.StopMaxAttempts,
		},
		{
			"WithoutRetry", func(_ *transport, req *http.Request) *http.Request {
				return req.WithContext(awsretry.WithoutRetry(req.Context()))
			}, "", awsretry.StopDisabled,
		},
		{
			"outer loop", func(_ *transport, req *http.Request) *http.Request {
				req.Header.Set("Amz-Sdk-Request", "attempt=1; max=3")
				return req
			}, "", awsretry.StopOuterRetry,
		},
		{
			"body that was not kept", func(tr *transport, req *http.Request) *http.Request {
				tr.MaxBodyBuffer = 10
				return req
			}, "longer than ten bytes", awsretry.StopBody,
		},
	} {
		for _, status := range []int{400, 429, 503} {
			t.Run(fmt.Sprintf("%s, %d", tt.name, status), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					var body *httpfake.Body
					tr := retrying(func(req *http.Request) (*http.Response, error) {
						if _, err := httpfake.Receive(req); err != nil {
							return nil, err
						}
						body = httpfake.NewBody(io.MultiReader(strings.NewReader(throttledJSON),
							failAfter(ctx)))
						return httpfake.Response(req, status, body), nil
					})
					var source io.Reader
					if tt.body != "" {
						source = struct{ io.Reader }{strings.NewReader(tt.body)}
					}
					req := tt.change(tr, httpfake.Request(t, ctx, "PUT", source))
					start := time.Now()
					resp, err := tr.RoundTrip(req)
					if took := time.Since(start); err != nil || took != 0 || body.Reads() != 0 {
						t.Fatalf("%v, %v after %v and %d Reads", resp, err, took, body.Reads())
					}
					class := map[int]awsretry.Class{
						400: awsretry.Permanent, 429: awsretry.Throttled, 503: awsretry.Transient,
					}[status]
					stop := tt.stop
					if status == 400 {
						stop = awsretry.StopPermanent
					}
					if last, ok := awsretry.Outcome(resp); !ok || last.Code != "" || last.Class != class || last.Stop != stop {
						t.Errorf("%+v, %v", last, ok)
					}
					got := make([]byte, len(throttledJSON))
					if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != throttledJSON {
						t.Errorf("read %q, %v", got, err)
					}
					resp.Body.Close()
				})
			})
		}
	}
}

// In adaptive mode a body with an announced length is read nevertheless: the
// limiter has to learn of throttling that only the body names.
func TestLimiterLearnsWithoutRetry(t *testing.T) {
	const announced = int64(len(throttledJSON))
	whole := func(context.Context) io.Reader { return strings.NewReader("{}") }
	for _, tt := range []struct {
		name    string
		mode    awsretry.Mode
		length  int64
		upload  func(context.Context) io.Reader // one-shot; nil if there is none
		learned bool
	}{
		{"adaptive", awsretry.Adaptive, announced, nil, true},
		{"adaptive, one-shot request body", awsretry.Adaptive, announced, whole, true},
		{"adaptive, not announced", awsretry.Adaptive, -1, nil, false},
		{"adaptive, while the caller writes", awsretry.Adaptive, announced, failAfter, false},
		{"standard", awsretry.Standard, announced, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(awsretry.WithoutRetry(t.Context()))
				defer cancel()
				body := httpfake.NewBody(strings.NewReader(throttledJSON))
				tr := retrying(func(req *http.Request) (*http.Response, error) {
					if req.Body != nil {
						go io.Copy(io.Discard, req.Body)
						synctest.Wait()
					}
					resp := httpfake.Response(req, 400, body)
					resp.ContentLength = tt.length
					return resp, nil
				})
				tr.Mode = tt.mode
				req := httpfake.Request(t, ctx, "PUT", nil)
				if tt.upload != nil {
					req.Body = io.NopCloser(struct{ io.Reader }{tt.upload(ctx)})
				}
				resp, err := tr.RoundTrip(req)
				if read := body.Reads() > 0; err != nil || read != tt.learned {
					t.Fatalf("%v, %v, read ahead: %v", resp, err, read)
				}
				if state, _ := tr.State("service.example"); state.Limited != tt.learned {
					t.Errorf("%+v", state)
				}
				if got := httpfake.ReadAll(t, resp); got != throttledJSON {
					t.Errorf("read %q", got)
				}
			})
		})
	}
}

// The same holds for a 200 in which Amazon S3 may hide an error.
func TestHiddenErrorIsNotLookedForWithoutRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := httpfake.NewBody(strings.NewReader("<Error><Code>SlowDown</Code></Error>"))
		req := httpfake.Request(t, awsretry.WithoutRetry(t.Context()), "PUT", nil)
		req.Header.Set("X-Amz-Copy-Source", "bucket/key")
		resp, err := retrying(respondsWith(200, body)).RoundTrip(req)
		if err != nil || body.Reads() != 0 {
			t.Fatalf("%v, %v, %d Reads", resp, err, body.Reads())
		}
		if last, ok := awsretry.Outcome(resp); ok {
			t.Errorf("%+v", last)
		}
		resp.Body.Close()
	})
}

// While the caller writes a one-shot body, the rest of the response may depend
// on what the caller writes when it has the response.
func TestDuplexFailureIsNotReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests, send := io.Pipe()
		responses, respond := io.Pipe()
		tr := retrying(func(req *http.Request) (*http.Response, error) {
			go func() {
				got, _ := httpfake.Receive(req)
				io.WriteString(respond, "got "+got)
				respond.Close()
			}()
			synctest.Wait()
			return httpfake.Response(req, 400, responses), nil
		})
		start := time.Now()
		resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), "POST", requests))
		if took := time.Since(start); err != nil || took > 100*time.Millisecond {
			t.Fatalf("%v, %v after %v", resp, err, took)
		}
		io.WriteString(send, "hello")
		send.Close()
		if got := httpfake.ReadAll(t, resp); got != "got hello" {
			t.Errorf("read %q", got)
		}
	})
}

// A service whose error bodies hang takes a second of each attempt, to look for
// a code, and none of the last one. A last body is read if none hung before.
func TestLastAttemptAfterBodiesThatHang(t *testing.T) {
	for _, hung := range []bool{true, false} {
		t.Run(fmt.Sprintf("hung %v", hung), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := retrying(func(req *http.Request) (*http.Response, error) {
					var body io.Reader = strings.NewReader(throttledJSON)
					if hung {
						body = io.MultiReader(body, failAfter(req.Context()))
					}
					return httpfake.Response(req, 400, httpfake.NewBody(body)), nil
				})
				start := time.Now()
				resp, err := get(t, tr)
				took := time.Since(start)
				if hung && took > 2*time.Second || !hung && took != 0 || err != nil {
					t.Fatalf("%v, %v after %v", resp, err, took)
				}
				last, _ := awsretry.Outcome(resp)
				if found := last.Code == "ThrottlingException"; found == hung || last.Number != 3 {
					t.Errorf("%+v", last)
				}
				if stop := contract.StopOf(resp, nil); !hung && stop != awsretry.StopMaxAttempts {
					t.Errorf("stopped by %q", stop)
				}
				resp.Body.Close()
			})
		})
	}
}
