package retrylog_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/retrylog"
	"github.com/google/go-cmp/cmp"
)

func all(logger *slog.Logger) func(awsretry.Attempt) {
	return retrylog.Config{Logger: logger, All: true}.Observer()
}

// With All, what LogTo logs is logged, and the rest at level debug. The attempts of
// a call have its attribute call in common.
func TestAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := httpfake.Log(&out, "time", "method", "url", "partition", "elapsed_ms", "max_attempts")
		for _, tr := range []*awsretry.Transport{
			{Base: httpfake.Statuses(503, 200)},
			{Base: httpfake.Statuses(404)},
			{Base: httpfake.Statuses(500), MaxAttempts: 1},
		} {
			tr.Observe, tr.Backoff = all(log), awsretry.Exponential{Jitter: awsretry.NoJitter}
			resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), "GET", nil))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
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

// What responses announce is logged, as text without anything that a server
// could forge.
func TestLimits(t *testing.T) {
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
		all(httpfake.Log(&out))(awsretry.Attempt{Response: httpfake.Response(nil, 503, http.NoBody, tt.headers...)})
		if _, got, _ := strings.Cut(strings.TrimSpace(out.String()), " limits="); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.headers, got, tt.want)
		}
	}
}

// A call whose lines are not logged costs nothing more.
func TestBelowTheLevel(t *testing.T) {
	observe := all(slog.New(slog.NewTextHandler(io.Discard, nil)))
	a := awsretry.Attempt{Number: 1, Request: httpfake.Request(t, t.Context(), "GET", nil), Stop: awsretry.StopSuccess}
	if n := testing.AllocsPerRun(100, func() { observe(a) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// With EachSecond, a partition has one warning a second, and none is lost.
func TestEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		c := retrylog.Config{EachSecond: true, Logger: slog.New(slog.NewTextHandler(&out, nil))}
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
		for range 3 { // the last second's failures have their own line when none follows
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
func TestOmitPaths(t *testing.T) {
	broken := &url.Error{Op: "Post", URL: "https://api.example/bot123:SECRET/send", Err: io.EOF}
	req := httpfake.Request(t, t.Context(), "POST", nil)
	req.URL, _ = url.Parse(broken.URL)
	req.Header.Set("X-Stainless-Retry-Count", "2")
	resp := httpfake.Response(req, 429, http.NoBody, "X-Request-Id", "r-1\n2")
	var out bytes.Buffer
	observe := retrylog.Config{OmitPaths: true, Logger: slog.New(slog.NewJSONHandler(&out, nil))}.Observer()
	observe(awsretry.Attempt{Request: req, Number: 3, MaxAttempts: 3, Class: awsretry.Throttled, Response: resp,
		Asked: 90 * time.Second, Stop: awsretry.StopRetryAfter, Partition: "api.example"})
	observe(awsretry.Attempt{Request: req, Number: 3, Class: awsretry.Transient, Err: broken, Stop: awsretry.StopMaxAttempts})
	observe(awsretry.Attempt{Request: req, Number: 1, Class: awsretry.Transient, Response: resp, BodyErr: broken, Stop: awsretry.StopBody})
	long := errors.New("\u202e" + strings.Repeat("x", 1<<20))
	observe(awsretry.Attempt{Request: req, Number: 1, Class: awsretry.Transient, Err: long, Stop: awsretry.StopMaxAttempts})
	for _, part := range []string{`"url":"https://api.example"`, `"partition":"api.example"`, `"request_id":"r-1`,
		`"outer_retry":"2","attempt":3,"max_attempts":3`, `"retry_after_ms":90000`, `"error":"Post \"https://api.example\": EOF`,
		`"body_error":"Post \"https://api.example\": EOF"`} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("without %s:\n%s", part, &out)
		}
	}
	if strings.Contains(out.String(), "SECRET") || strings.Contains(out.String(), "\u202e") ||
		strings.Count(out.String(), "\n") != 4 || out.Len() > 6<<10 {
		t.Error(out.String())
	}
}
