package awsretry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"github.com/google/go-cmp/cmp"
)

// Each attempt is one line, which has no secret of the URL in it. A call that
// fails is one warning, and none if its caller canceled it.
func TestLogTo(t *testing.T) {
	throttled := httpfake.Base(func(req *http.Request) (*http.Response, error) {
		return httpfake.Response(req, 400, http.NoBody,
			"X-Amzn-ErrorType", "ThrottlingException", "Ratelimit-Remaining", "5"), nil
	})
	hangs := httpfake.Base(func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	})
	broken := httpfake.Base(func(*http.Request) (*http.Response, error) {
		return nil, &url.Error{Op: "Post", URL: "http://service.example/path?sig=secret", Err: io.EOF}
	})
	outOfTokens := func(*http.Request, int) error {
		return &awsretry.Error{Stop: awsretry.StopQuota, Err: errors.New("no token")}
	}
	noKeyForARetry := func(_ *http.Request, n int) error {
		if n > 1 {
			return errors.New("no key")
		}
		return nil
	}
	const first = "level=DEBUG msg=retrying REQUEST attempt=1 max_attempts=3 class=transient status=503" +
		" maybe_executed=true elapsed_ms=0 delay_ms=1000"
	for _, tt := range []struct {
		name  string
		tr    *transport
		cause error // of the end of the context after half a second; nil means none
		want  []string
	}{
		{"retries", &transport{Base: httpfake.Statuses(503, 500, 200)}, nil, []string{first,
			"level=DEBUG msg=retrying REQUEST attempt=2 max_attempts=3 class=transient status=500 maybe_executed=true" +
				" elapsed_ms=0 delay_ms=2000"}},
		{"giving up", &transport{Base: throttled, MaxAttempts: 1}, nil, []string{
			`level=WARN msg="gave up" REQUEST attempt=1 max_attempts=1 class=throttled status=400 code=ThrottlingException` +
				" elapsed_ms=0 stop=max_attempts"}},
		{"an error", &transport{Base: broken, MaxAttempts: 1}, nil, []string{
			`level=WARN msg="gave up" REQUEST attempt=1 max_attempts=1 class=transient` +
				` error="Post \"http://service.example/path?…\": EOF" maybe_executed=true elapsed_ms=0 stop=max_attempts`}},
		{"not found", &transport{Base: httpfake.Statuses(404)}, nil, []string{
			"level=DEBUG msg=failed REQUEST attempt=1 max_attempts=3 class=permanent status=404 elapsed_ms=0 stop=permanent"}},
		{"writes that are not repeated", &transport{Base: httpfake.Statuses(503), Policy: awsretry.IdempotentOnly(nil)}, nil,
			[]string{"level=WARN msg=failed REQUEST attempt=1 max_attempts=3 class=permanent status=503 maybe_executed=true" +
				" elapsed_ms=0 stop=permanent"}},
		{"refused before its first attempt", &transport{Prepare: outOfTokens}, nil, []string{
			"level=WARN msg=refused REQUEST attempt=0 max_attempts=3 class=throttled" +
				` error="error from Prepare: no token" stop=quota`}},
		{"refused in a retry", &transport{Base: httpfake.Statuses(503), Prepare: noKeyForARetry}, nil, []string{first,
			"level=WARN msg=refused REQUEST attempt=0 max_attempts=3 class=permanent" +
				` error="error from Prepare: no key; before that: the last response was 503 Service Unavailable"` +
				" maybe_executed=true stop=permanent"}},
		{"deadline", &transport{Base: hangs}, context.DeadlineExceeded, []string{
			"level=WARN msg=failed REQUEST attempt=1 max_attempts=3 class=permanent" +
				` error="context deadline exceeded" maybe_executed=true elapsed_ms=500 stop=deadline`}},
		{"canceled", &transport{Base: hangs}, context.Canceled, []string{""}},
		{"canceled after a failure", &transport{Base: httpfake.Statuses(503)}, context.Canceled, []string{first}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				switch tt.cause {
				case context.Canceled:
					time.AfterFunc(time.Second/2, cancel)
				case context.DeadlineExceeded:
					ctx, cancel = context.WithTimeout(ctx, time.Second/2)
				}
				defer cancel()
				var out bytes.Buffer
				tt.tr.Observe, tt.tr.Backoff = awsretry.LogTo(httpfake.Log(&out, "time", "call")), exponential{Jitter: awsretry.NoJitter}
				req := httpfake.Request(t, ctx, "POST", nil)
				req.URL.RawQuery, req.URL.User, req.URL.Fragment = "sig=secret", url.UserPassword("me", "secret"), "secret"
				tt.tr.RoundTrip(req)
				const request = "method=POST url=http://service.example/path partition=service.example"
				want := strings.ReplaceAll(strings.Join(tt.want, "\n"), "REQUEST", request)
				if diff := cmp.Diff(want, strings.TrimSuffix(out.String(), "\n")); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

// The log says why a body cannot be sent again, and the ID of the request.
func TestLogOfABody(t *testing.T) {
	var out bytes.Buffer
	tr := &transport{Observe: awsretry.LogTo(httpfake.Log(&out)), MaxBodyBuffer: 1}
	tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
		io.Copy(io.Discard, req.Body)
		return httpfake.Response(req, 503, http.NoBody, "X-GitHub-Request-Id", "id-1"), nil
	})
	req := httpfake.Request(t, t.Context(), "PUT", nil)
	req.Body = io.NopCloser(io.MultiReader(strings.NewReader("longer than the buffer")))
	if _, err := tr.RoundTrip(req); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"request_id=id-1", "body_error=", "stop=body", "MaxBodyBuffer"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("without %s:\n%s", want, &out)
		}
	}
}

// LogTo(nil) logs to what slog.Default returns when it logs.
func TestLogToNil(t *testing.T) {
	before, output, flags := slog.Default(), log.Writer(), log.Flags()
	defer func() {
		slog.SetDefault(before)
		log.SetOutput(output) // SetDefault has set it too
		log.SetFlags(flags)
	}()
	var out bytes.Buffer
	observe := awsretry.LogTo(nil)
	slog.SetDefault(httpfake.Log(&out))
	if observe(awsretry.Attempt{Class: awsretry.Transient}); !strings.Contains(out.String(), "retrying") {
		t.Errorf("logged: %q", out.String())
	}
}

// The observers of the context are called after the Transport's own, the outer
// one first.
func TestObserversInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		note := func(who string) func(awsretry.Attempt) {
			return func(a awsretry.Attempt) { got = append(got, fmt.Sprint(who, " ", a.Delay, a.Stop)) }
		}
		tr := &awsretry.Transport{Base: httpfake.Statuses(503, 200), Backoff: exponential{Jitter: awsretry.NoJitter}, Observe: note("transport")}
		ctx := awsretry.WithObserver(awsretry.WithObserver(t.Context(), note("outer")), note("inner"))
		ctx = awsretry.WithObserver(ctx, nil)
		if _, err := tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil)); err != nil {
			t.Fatal(err)
		}
		want := []string{"transport 1s", "outer 1s", "inner 1s", "transport 0ssuccess", "outer 0ssuccess", "inner 0ssuccess"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Nothing that a server sent reaches the log with control characters in it,
// whatever the handler escapes.
func TestLogOfAHostileServer(t *testing.T) {
	var out strings.Builder
	log := awsretry.LogTo(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	log(awsretry.Attempt{Number: 1, Code: "Slow\u009b2JDown\x7f\x1b", Class: awsretry.Throttled})
	log(awsretry.Attempt{Number: 2, Err: errors.New("malformed \u009b31m\x7f\xff response"), Class: awsretry.Transient})
	control := func(r rune) bool { return r != '\n' && unicode.IsControl(r) }
	if strings.Count(out.String(), "\n") != 2 || strings.ContainsFunc(out.String(), control) {
		t.Errorf("%q", out.String())
	}
}
