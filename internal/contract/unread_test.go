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
	"example.com/awsretry/internal/httpfake"
)

// Where no retry can follow, the response is returned at once and unread, so
// only its status and header count for the class. Elsewhere this body would be
// waited for until it ends.
func TestNoRetryCanFollow(t *testing.T) {
	type ctxFunc = func(context.Context) context.Context
	for _, tt := range []struct {
		name   string
		set    func(*transport)
		ctx    ctxFunc
		header http.Header
		body   string // one-shot; "" if there is none
		stop   awsretry.Stop
	}{
		{name: "MaxAttempts 1", set: func(tr *transport) { tr.MaxAttempts = 1 }, stop: awsretry.StopMaxAttempts},
		{name: "WithMaxAttempts", stop: awsretry.StopMaxAttempts,
			ctx: func(ctx context.Context) context.Context { return awsretry.WithMaxAttempts(ctx, 1) }},
		{name: "WithoutRetry", ctx: awsretry.WithoutRetry, stop: awsretry.StopDisabled},
		{name: "outer loop", header: http.Header{"Amz-Sdk-Request": {"attempt=1; max=3"}}, stop: awsretry.StopOuterRetry},
		{name: "body that was not kept", set: func(tr *transport) { tr.MaxBodyBuffer = 10 }, body: "longer than ten bytes",
			stop: awsretry.StopBody},
	} {
		for status, class := range map[int]awsretry.Class{
			400: awsretry.Permanent, 429: awsretry.Throttled, 503: awsretry.Transient,
		} {
			inBubble(t, fmt.Sprintf("%s, %d", tt.name, status), func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.ctx != nil {
					ctx = tt.ctx(ctx)
				}
				body := httpfake.NewBody(io.MultiReader(strings.NewReader(throttledJSON), failAfter(ctx)))
				tr := retrying(always(func(req *http.Request, _ io.ReadCloser) (*http.Response, error) {
					return httpfake.Response(req, status, body), nil
				}))
				if tt.set != nil {
					tt.set(tr)
				}
				req := httpfake.Request(t, ctx, "PUT", nil)
				if req.Header = tt.header; tt.body != "" {
					req.Body = io.NopCloser(struct{ io.Reader }{strings.NewReader(tt.body)})
				}
				stop := tt.stop
				if status == 400 {
					stop = awsretry.StopPermanent
				}
				r := send(tr, req)
				if r.want(t, status, stop, 0); body.Reads() != 0 {
					t.Errorf("%d Reads", body.Reads())
				}
				if last, ok := awsretry.Outcome(r.Response); !ok || last.Code != "" || last.Class != class {
					t.Errorf("%+v, %v", last, ok)
				}
				got := make([]byte, len(throttledJSON))
				if _, err := io.ReadFull(r.Body, got); err != nil || string(got) != throttledJSON {
					t.Errorf("read %q, %v", got, err)
				}
				r.Body.Close()
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
		inBubble(t, tt.name, func(t *testing.T) {
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
			r := send(tr, req)
			state, _ := tr.State("service.example")
			if read := body.Reads() > 0; read != tt.learned || state.Limited != tt.learned {
				t.Errorf("%v, read ahead: %v, %+v", r, read, state)
			}
			r.wantBody(t, throttledJSON)
		})
	}
}

// While the caller writes a one-shot body, the rest of the response may depend
// on what the caller writes when it has the response.
func TestDuplexFailureIsNotReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests, write := io.Pipe()
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
		r := send(tr, httpfake.Request(t, t.Context(), "POST", requests))
		if r.err != nil || r.took > 100*time.Millisecond {
			t.Fatalf("%v", r)
		}
		io.WriteString(write, "hello")
		write.Close()
		r.wantBody(t, "got hello")
	})
}

// A service whose error bodies hang takes a second of each attempt, to look for
// a code, and none of the last one. A last body is read if none hung before.
func TestLastAttemptAfterBodiesThatHang(t *testing.T) {
	for hung, tt := range map[bool]struct {
		took time.Duration // at most
		code string
		stop awsretry.Stop
	}{
		false: {0, "ThrottlingException", awsretry.StopMaxAttempts},
		true:  {2 * time.Second, "", awsretry.StopPermanent},
	} {
		inBubble(t, fmt.Sprintf("hung %v", hung), func(t *testing.T) {
			r := sendGet(t, retrying(func(req *http.Request) (*http.Response, error) {
				var body io.Reader = strings.NewReader(throttledJSON)
				if hung {
					body = io.MultiReader(body, failAfter(req.Context()))
				}
				return httpfake.Response(req, 400, httpfake.NewBody(body)), nil
			}))
			last, _ := awsretry.Outcome(r.Response)
			if r.took > tt.took || last.Number != 3 || last.Code != tt.code || r.stop != tt.stop {
				t.Errorf("%v, %+v", r, last)
			}
			r.Body.Close()
		})
	}
}
