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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"github.com/google/go-cmp/cmp"
)

// debugLog returns a logger of all levels that leaves out the named attributes.
func debugLog(out io.Writer, omit ...string) *slog.Logger {
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if slices.Contains(omit, a.Key) {
				return slog.Attr{}
			}
			return a
		},
	}))
}

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
	broken := &url.Error{Op: "Post", URL: "http://service.example/path?sig=secret", Err: io.EOF}
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
		{"an error", &transport{Base: failing(broken), MaxAttempts: 1}, nil, []string{
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
				tt.tr.Observe, tt.tr.Backoff = awsretry.LogTo(debugLog(&out, "time", "call")), noJitter
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

// LogAllTo logs what LogTo logs, and the rest at level debug. The attempts of a
// call have its attribute call in common.
func TestLogAllTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := debugLog(&out, "time", "method", "url", "partition", "elapsed_ms", "max_attempts", "setting")
		for _, tr := range []*transport{
			{Base: httpfake.Statuses(503, 200)},
			{Base: httpfake.Statuses(404)},
			{Base: httpfake.Statuses(500), MaxAttempts: 1},
		} {
			tr.Observe, tr.Backoff = awsretry.LogAllTo(log), noJitter
			get(t, tr)
		}
		var lines, calls []string
		for line := range strings.Lines(out.String()) {
			level, rest, _ := strings.Cut(line, " call=")
			call, rest, _ := strings.Cut(rest, " ")
			lines, calls = append(lines, level+" "+rest), append(calls, call)
		}
		want := []string{
			"level=DEBUG msg=retrying attempt=1 class=transient status=503 maybe_executed=true delay_ms=1000\n",
			"level=DEBUG msg=succeeded attempt=2 class=success status=200 maybe_executed=true stop=success\n",
			"level=DEBUG msg=failed attempt=1 class=permanent status=404 stop=permanent\n",
			"level=WARN msg=\"gave up\" attempt=1 class=transient status=500 maybe_executed=true stop=max_attempts\n",
		}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if len(calls) != 4 || calls[0] == "" || calls[0] != calls[1] || calls[1] == calls[2] || calls[2] == calls[3] {
			t.Errorf("the calls are %q", calls)
		}
	})
}

// LogAllTo says how long a line waited for the send token of the next attempt.
func TestLogAllToLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, late := range []time.Duration{0, 5 * time.Second} {
			var out bytes.Buffer
			a := awsretry.Attempt{Number: 1, Start: time.Now(), Elapsed: time.Second}
			time.Sleep(a.Elapsed + late)
			awsretry.LogAllTo(debugLog(&out))(a)
			if got := strings.Contains(out.String(), " late_ms=5000"); got != (late > 0) {
				t.Errorf("%v late: %s", late, out.String())
			}
		}
	})
}

// LogAllTo logs what responses announce, as text without anything that a server
// could forge.
func TestLogAllToLimits(t *testing.T) {
	for _, tt := range []struct {
		headers []string
		want    string
	}{
		{nil, ""},
		{[]string{"X-Ratelimit-Limit", "60", "X-Ratelimit-Remaining", "59", "X-Ratelimit-Reset", "30"}, `"59/60 30s"`},
		{[]string{"X-Ratelimit-Remaining-Requests", "59", "X-Ratelimit-Limit-Tokens", "2000000",
			"X-Ratelimit-Remaining-Tokens", "149984.5", "X-Ratelimit-Reset-Tokens", "6ms"},
			`"requests 59 refills, tokens 149984.5/2000000 6ms refills"`},
		{[]string{"Ratelimit", `"hourly, 9/9";r=5;t=60`}, `"hourly__9/9 5 1m0s"`},
		{[]string{"X-Ratelimit-Remaining-" + strings.Repeat("n", 70), "1e300"},
			`"` + strings.Repeat("n", 50) + ` 1e+300 refills"`},
		{[]string{"X-Ratelimit-Remaining-A\x1b[31mb", "5"}, `"a�[31mb 5 refills"`},
	} {
		var out bytes.Buffer
		awsretry.LogAllTo(debugLog(&out))(awsretry.Attempt{Response: httpfake.Response(nil, 503, http.NoBody, tt.headers...)})
		if _, got, _ := strings.Cut(strings.TrimSpace(out.String()), " limits="); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.headers, got, tt.want)
		}
	}
}

// A call whose lines are not logged costs nothing more.
func TestLogAllToBelowItsLevel(t *testing.T) {
	observe := awsretry.LogAllTo(slog.New(slog.NewTextHandler(io.Discard, nil)))
	a := awsretry.Attempt{Number: 1, Request: httpfake.Request(t, t.Context(), "GET", nil), Stop: awsretry.StopSuccess}
	if n := testing.AllocsPerRun(100, func() { observe(a) }); n > 0 {
		t.Errorf("%v allocations", n)
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
	slog.SetDefault(debugLog(&out))
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
		tr := &awsretry.Transport{Base: httpfake.Statuses(503, 200), Backoff: noJitter, Observe: note("transport")}
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

// With EachSecond, a partition has one warning a second, and none is lost.
func TestLogEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		c := awsretry.LogConfig{EachSecond: true, Logger: slog.New(slog.NewTextHandler(&out, nil))}
		observe, lines, failures := c.Observer(), 0, 0
		failed := awsretry.Attempt{Number: 3, Class: awsretry.Transient, Stop: awsretry.StopMaxAttempts}
		for range 10 {
			for range 1000 {
				for _, failed.Partition = range []string{"a", "b"} {
					observe(failed)
				}
			}
			time.Sleep(time.Second)
		}
		for range 3 { // the last second's failures have a line of their own when none follows
			observe(awsretry.Attempt{Number: 1, Class: awsretry.Success, Stop: awsretry.StopSuccess, Partition: "a"})
			time.Sleep(time.Second)
		}
		for _, line := range regexp.MustCompile(`partition=a .*failures=(\d+)`).FindAllStringSubmatch(out.String(), -1) {
			n, _ := strconv.Atoi(line[1])
			lines, failures = lines+1, failures+n
		}
		if lines != 11 || failures != 10_000 || !strings.Contains(out.String(), "partition=b") {
			t.Errorf("%d lines count %d failures:\n%s", lines, failures, &out)
		}
	})
}

// The lines say what the operator of the service asks for, and no path on
// request.
func TestLogOfARequest(t *testing.T) {
	broken := &url.Error{Op: "Post", URL: "https://api.example/bot123:SECRET/send", Err: io.EOF}
	req := httpfake.Request(t, t.Context(), "POST", nil)
	req.URL, _ = url.Parse(broken.URL)
	req.Header.Set("X-Stainless-Retry-Count", "2")
	resp := httpfake.Response(req, 429, http.NoBody, "X-Request-Id", "r-1\n2")
	var out bytes.Buffer
	observe := awsretry.LogConfig{OmitPaths: true, Logger: slog.New(slog.NewJSONHandler(&out, nil))}.Observer()
	observe(awsretry.Attempt{Request: req, Number: 3, MaxAttempts: 3, Class: awsretry.Throttled, Response: resp,
		Asked: 90 * time.Second, Stop: awsretry.StopRetryAfter, Partition: "api.example"})
	observe(awsretry.Attempt{Request: req, Number: 3, Class: awsretry.Transient, Err: broken, Stop: awsretry.StopMaxAttempts})
	for _, part := range []string{`"url":"https://api.example"`, `"partition":"api.example"`, `"request_id":"r-1`,
		`"outer_retries":"2","attempt":3,"max_attempts":3`, `"retry_after_ms":90000`, `Post \"https://api.example\": EOF`} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("without %s:\n%s", part, &out)
		}
	}
	if strings.Contains(out.String(), "SECRET") || strings.Count(out.String(), "\n") != 2 {
		t.Error(out.String())
	}
}
