package contract_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/replay"
	"github.com/google/go-cmp/cmp"
)

// SDKHeaders number the attempts and name the call.
func TestSDKHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts, ids []string
		tr := &transport{SDKHeaders: true, Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
			attempts = append(attempts, req.Header.Get("amz-sdk-request"))
			ids = append(ids, req.Header.Get("amz-sdk-invocation-id"))
			return httpfake.Response(req, 503, http.NoBody), nil
		})}
		for range 2 {
			req := httpfake.Request(t, t.Context(), "GET", nil)
			if send(tr, req).wantBody(t, ""); len(req.Header) != 0 {
				t.Errorf("the caller's header was changed: %v", req.Header)
			}
		}
		one := []string{"attempt=1; max=3", "attempt=2; max=3", "attempt=3; max=3"}
		if !slices.Equal(attempts, append(one, one...)) {
			t.Errorf("sent %q", attempts)
		}
		if ids[0] != ids[1] || ids[0] == ids[3] || len(ids[0]) != 36 {
			t.Errorf("invocation ids %q", ids)
		}
	})
}

// A header that an AWS signature covers is not changed, unless Prepare signs
// the request again.
func TestSDKHeadersLeaveASignatureAlone(t *testing.T) {
	const signed = "AWS4-HMAC-SHA256 Credential=AKID/20260101/us-east-1/dynamodb/aws4_request, " +
		"SignedHeaders=amz-sdk-invocation-id;amz-sdk-request;host, Signature=0"
	for _, tt := range []struct {
		name, authorization, query string
		prepare                    func(*http.Request, int) error
		want                       string
	}{
		{"signed", signed, "", nil, "attempt=1; max=1"},
		{"signed in the query", "", "X-Amz-SignedHeaders=amz-sdk-request%3Bhost", nil, "attempt=1; max=1"},
		{"signed again", signed, "", func(*http.Request, int) error { return nil }, "attempt=1; max=3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got string
			tr := retrying(func(req *http.Request) (*http.Response, error) {
				got = req.Header.Get("Amz-Sdk-Request")
				return ok(req, http.NoBody)
			})
			tr.SDKHeaders, tr.Prepare = true, tt.prepare
			req := httpfake.Request(t, t.Context(), "POST", nil)
			req.Header = http.Header{"Amz-Sdk-Request": {"attempt=1; max=1"}, "Authorization": {tt.authorization}}
			req.URL.RawQuery = tt.query
			if send(tr, req).wantBody(t, ""); got != tt.want {
				t.Errorf("sent %q, want %q", got, tt.want)
			}
		})
	}
}

// Whatever hooks and Base do with their requests, the caller's stays as it was.
func TestCallersRequestIsNotChanged(t *testing.T) {
	for kind, newBody := range bodyKinds {
		t.Run(kind, func(t *testing.T) {
			req := httpfake.Request(t, t.Context(), "PUT", nil)
			newBody(t, "the body").attachTo(req)
			req.Header = http.Header{"X-Own": {"1", "2"}, "Amz-Sdk-Request": {"attempt=1; max=1"}}
			req.Trailer = http.Header{"X-Sum": nil}
			req.TransferEncoding = []string{"chunked"}
			req.Cancel = make(chan struct{})
			before, deep := *req, req.Clone(t.Context())
			tr := retrying(func(out *http.Request) (*http.Response, error) {
				if out == req || out.URL == req.URL || out.Cancel != req.Cancel {
					t.Error("Base gets what is the caller's, or another Cancel")
				}
				if out.Header.Get("X-Own") != "changed" || out.Trailer == nil {
					t.Errorf("Base gets %+v", out)
				}
				httpfake.Receive(out)
				return httpfake.Response(out, 503, http.NoBody), nil
			})
			tr.SDKHeaders, tr.AttemptTimeout = true, time.Hour
			tr.Prepare = func(out *http.Request, n int) error {
				out.Header.Set("X-Own", "changed")
				out.Header.Set("Date", "now")
				out.URL.Host, out.URL.RawQuery, out.Host, out.Method = "elsewhere", "", "elsewhere", "GET"
				return nil
			}
			send(tr, req).wantBody(t, "")
			wantSame(t, before, req)
			content := func(r *http.Request) []any {
				return []any{r.Method, r.URL, r.Header, r.Trailer, r.TransferEncoding, r.Host, r.ContentLength}
			}
			if d := cmp.Diff(content(deep), content(req)); d != "" {
				t.Errorf("the request is changed: %s", d)
			}
		})
	}
}

// wantSame fails unless the fields of req that refer to something still refer
// to the same.
func wantSame(t *testing.T, before http.Request, req *http.Request) {
	t.Helper()
	was, is := reflect.ValueOf(before), reflect.ValueOf(req).Elem()
	for i := range was.NumField() {
		switch was.Field(i).Kind() {
		case reflect.Func, reflect.Map, reflect.Pointer, reflect.Chan:
			if was.Field(i).Pointer() != is.Field(i).Pointer() {
				t.Errorf("%s is another one", was.Type().Field(i).Name)
			}
		}
	}
	if req.Body != before.Body || req.Context() != before.Context() {
		t.Error("the body or the context is another one")
	}
}

// An error of Prepare ends the call, and an *Error chooses its Stop. Before a
// retry the error names the failure before it, and the tokens are put back.
func TestPrepareFails(t *testing.T) {
	cause := errors.New("no turn before the deadline")
	late := &awsretry.Error{Stop: awsretry.StopDeadline, Err: cause}
	for _, tt := range []struct {
		name string
		err  error
		stop awsretry.Stop
	}{
		{"a plain error", cause, awsretry.StopPermanent},
		{"an Error", late, awsretry.StopDeadline},
		{"a wrapped Error", fmt.Errorf("throttled: %w", late), awsretry.StopDeadline},
		{"an Error without a Stop", &awsretry.Error{Err: cause}, awsretry.StopPermanent},
	} {
		for on := 1; on <= 2; on++ {
			t.Run(fmt.Sprintf("%s, attempt %d", tt.name, on), func(t *testing.T) {
				tr := retrying(inTurn(busy, ok))
				prepares(on, func(*http.Request) error { return tt.err })(tr)
				_, err := get(t, tr)
				e := new(awsretry.Error)
				if !errors.As(err, &e) || e.Stop != tt.stop || e.Attempts != on-1 || !errors.Is(err, cause) ||
					strings.Contains(err.Error(), "503") != (on == 2) {
					t.Errorf("%v; want Stop %s after %d attempts, around %v", err, tt.stop, on-1, cause)
				}
				wantTokens(t, tr, 500)
			})
		}
	}
}

// Where Prepare fails, panics or chooses another body, nothing is sent. The
// body of the attempt is closed, and its context ends, so that the caller's,
// which may live for long, does not keep it.
func TestAttemptThatPrepareEnds(t *testing.T) {
	for name, prepare := range map[string]func(*http.Request) error{
		"panic": func(*http.Request) error { panic("prepare") },
		"another body": func(req *http.Request) error {
			req.Body = io.NopCloser(strings.NewReader("other"))
			return nil
		},
		"no body":        func(req *http.Request) error { req.Body = nil; return nil },
		"another length": func(req *http.Request) error { req.ContentLength = 3; return nil },
	} {
		for _, kind := range filledKinds {
			for on := 1; on <= 2; on++ {
				t.Run(fmt.Sprintf("%s, %s, attempt %d", name, kind, on), func(t *testing.T) {
					sent := bodyKinds[kind](t, "the body")
					var attempt context.Context
					tr := retrying(always(busy))
					prepares(on, func(req *http.Request) error {
						attempt = req.Context()
						return prepare(req)
					})(tr)
					tr.AttemptTimeout = time.Minute
					req := httpfake.Request(t, t.Context(), "PUT", nil)
					sent.attachTo(req)
					req.ContentLength = -1
					resp, err, panicked := tryRoundTrip(tr, req)
					switch {
					case resp != nil || panicked != (name == "panic"):
						t.Errorf("%v, %v, panicked: %v", resp, err, panicked)
					case !panicked && !strings.Contains(err.Error(), "Prepare"):
						t.Error(err)
					}
					if sent.wantClosed(t); attempt.Err() == nil {
						t.Error("the attempt's context has not ended")
					}
				})
			}
		}
	}
}

// The body of a call that makes attempts of its own, such as a delivery, which
// takes its body back after that, is closed too.
func TestLentBodyIsClosedWherePrepareEndsTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lender replay.Body
		req := httpfake.Request(t, t.Context(), "PUT", struct{ io.Reader }{strings.NewReader("hello")})
		lender.Own(req)
		lender.Plan(10, false)
		out := req.WithContext(t.Context())
		lender.Lend(out)
		tr := retrying(httpfake.Statuses(200))
		prepareFails(1)(tr)
		if _, err := tr.RoundTrip(out); err == nil || !lender.Idle() {
			t.Errorf("%v, idle: %v", err, lender.Idle())
		}
		lender.Release(true)
	})
}

// Prepare is called before each attempt, with headers that it may change. It sees
// the caller's deadline, and Base the earlier one of that and the timeout of the
// attempt, which begins after Prepare. What Prepare adds to the request's
// context, such as an httptrace.ClientTrace, Base sees too. Base's context does
// not end with Prepare.
func TestContextOfPrepare(t *testing.T) {
	type key struct{}
	for _, tt := range []struct {
		deadline, timeout time.Duration
		cancel            chan struct{} // Request.Cancel
	}{
		{0, 0, nil}, {0, time.Minute, nil}, {time.Second, time.Minute, nil}, {time.Hour, time.Minute, nil},
		{time.Hour, 0, make(chan struct{})},
	} {
		inBubble(t, fmt.Sprintf("deadline %v, timeout %v", tt.deadline, tt.timeout), func(t *testing.T) {
			ctx := within(t, tt.deadline)
			var seen []string
			tr := retrying(func(req *http.Request) (*http.Response, error) {
				ctx := req.Context()
				want := tt.timeout
				if 0 < tt.deadline && (tt.deadline < want || want == 0) {
					want = tt.deadline
				}
				if until, limited := ctx.Deadline(); limited != (want > 0) || limited && time.Until(until) != want {
					t.Errorf("Base's deadline is %v, %v", until, limited)
				}
				seen = append(seen, fmt.Sprint(ctx.Value(key{}), awsretry.AttemptNumber(ctx), context.Cause(ctx)))
				return busy(req, http.NoBody)
			})
			tr.AttemptTimeout, tr.MaxAttempts = tt.timeout, 2
			tr.Prepare = func(req *http.Request, n int) error {
				got, ok := req.Context().Deadline()
				if want, has := ctx.Deadline(); got != want || ok != has {
					t.Errorf("the deadline is %v, %v; want %v, %v", got, ok, want, has)
				}
				*req = *req.WithContext(context.WithValue(req.Context(), key{}, fmt.Sprint("value ", n)))
				req.Header.Set("Date", "now")
				go req.Context().Deadline() // of which the race detector judges
				return nil
			}
			req := httpfake.Request(t, ctx, "GET", nil)
			req.Cancel, req.Header = tt.cancel, nil
			if send(tr, req).wantBody(t, ""); req.Header != nil {
				t.Errorf("the caller's header is %v", req.Header)
			}
			if want := []string{fmt.Sprint("value 1", 1, nil), fmt.Sprint("value 2", 2, nil)}; !slices.Equal(seen, want) {
				t.Errorf("Base sees %q, want %q", seen, want)
			}
		})
	}
}

// If the caller cancels in Prepare, nothing is sent, whether it waits for that
// or not. The error is that of the context then, with its cause, and not one of
// Prepare.
func TestCancelInPrepare(t *testing.T) {
	for _, waits := range []time.Duration{0, time.Second} {
		for on := 1; on <= 2; on++ {
			inBubble(t, fmt.Sprintf("waits %v, attempt %d", waits, on), func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				sends := 0
				tr := retrying(func(req *http.Request) (*http.Response, error) { sends++; return busy(req, http.NoBody) })
				prepares(on, func(req *http.Request) error {
					if waits == 0 {
						cancel(errGone)
						return nil
					}
					time.AfterFunc(waits, func() { cancel(errGone) })
					<-req.Context().Done()
					return req.Context().Err()
				})(tr)
				r := send(tr, httpfake.Request(t, ctx, "GET", nil))
				r.want(t, 0, awsretry.StopCanceled, waits)
				r.wantIs(t, errGone, context.Canceled)
				if wantTokens(t, tr, 500); sends != on-1 {
					t.Errorf("%d attempts", sends)
				}
			})
		}
	}
}
