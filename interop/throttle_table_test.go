package interop

import (
	"flag"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/awsretry"
	"github.com/PuerkitoBio/rehttp"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
)

var tablePuts = flag.Int("puts", 0, "how many PUTs TestThrottleTable sends for each row; 0 skips the test")

// putLibraries are the rows of the tables.
var putLibraries = []struct {
	name string
	busy bool // its calls hardly wait, so it needs the machine for itself
	lib  newPutter
}{
	{"no retries", true, puttingWith(awsretryOf(func(tr *awsretry.Transport) { tr.MaxAttempts = 1 }))},
	{"awsretry standard", true, puttingWith(awsretryOf())},
	{"awsretry standard, `Revision2026`", true, puttingWith(awsretryOf(revision2026))},
	{"awsretry standard, `Revision2026`, `LongPoll` always", false, puttingWith(awsretryOf(revision2026, longPoll))},
	{"awsretry legacy", false, puttingWith(awsretryOf(inMode(awsretry.Legacy)))},
	{"awsretry adaptive", false, puttingWith(awsretryOf(inMode(awsretry.Adaptive)))},
	{
		"awsretry adaptive, `ScaledPacing`", false,
		puttingWith(awsretryOf(inMode(awsretry.Adaptive), withPacing(awsretry.ScaledPacing))),
	},
	{
		"awsretry adaptive, `ShareRetryAfter`", false,
		puttingWith(awsretryOf(inMode(awsretry.Adaptive), shareRetryAfter)),
	},
	{"aws-sdk-go-v2 standard", false, puttingWithS3(func() aws.Retryer { return retry.NewStandard() })},
	{"aws-sdk-go-v2 adaptive", false, puttingWithS3(func() aws.Retryer { return retry.NewAdaptiveMode() })},
	{"go-retryablehttp", false, puttingWith(retryablehttpOf())},
	{"rehttp", false, puttingWith(rehttpOfFour)},
	{"failsafe-go", false, puttingWith(failsafeOf(func(b retryBuilder) {
		b.WithBackoff(time.Second, 30*time.Second).WithMaxRetries(3)
	}))},
}

// rehttpOfFour sets what bench sets: four attempts, after what the other
// libraries retry.
func rehttpOfFour(b http.RoundTripper, _ *played) http.RoundTripper {
	return rehttp.NewTransport(b,
		rehttp.RetryAll(rehttp.RetryMaxRetries(3),
			rehttp.RetryAny(rehttp.RetryStatuses(429, 503), rehttp.RetryTemporaryErr())),
		rehttp.ExpJitterDelay(time.Second, 30*time.Second))
}

func inMode(mode awsretry.Mode) func(*awsretry.Transport) {
	return func(tr *awsretry.Transport) { tr.Mode = mode }
}

func withPacing(pacing awsretry.Pacing) func(*awsretry.Transport) {
	return func(tr *awsretry.Transport) { tr.RateLimit.Pacing = pacing }
}

func shareRetryAfter(tr *awsretry.Transport) { tr.ShareRetryAfter = true }

func revision2026(tr *awsretry.Transport) { tr.Revision = awsretry.Revision2026 }

func longPoll(tr *awsretry.Transport) {
	tr.LongPoll = func(*http.Request) bool { return true }
}

// throttlers are the servers that the tables are about.
var throttlers = []struct {
	name  string
	start startThrottler
}{
	{"nginx", nginxLimitReq("", "")},
	{"nginx, `Retry-After: 1`", nginxLimitReq("", retryAfterOneSecond)},
	{"nginx, `burst=20 nodelay`", nginxLimitReq("burst=20 nodelay", "")},
	{"nginx, `burst=20 nodelay`, `Retry-After: 1`", nginxLimitReq("burst=20 nodelay", retryAfterOneSecond)},
	{"HAProxy, `http_req_rate(1s)` above 200", haproxyDenying("http_req_rate(1s)", "{ sc_http_req_rate(0) gt 200 }")},
	{
		"HAProxy, `http_req_rate(10s)` above 2000",
		haproxyDenying("http_req_rate(10s)", "{ sc_http_req_rate(0) gt 2000 }"),
	},
	{"HAProxy, 8 % at random", haproxyDenying("http_req_rate(1s)", "{ rand(100) lt 8 }")},
	{
		"HAProxy, 8 % at random, `http_req_rate(1s)` above 500",
		haproxyDenying("http_req_rate(1s)", "{ rand(100) lt 8 } or { sc_http_req_rate(0) gt 500 }"),
	},
}

// TestThrottleTable makes the tables in docs/results/nginx-haproxy.md. No row takes longer
// than 90 s.
func TestThrottleTable(t *testing.T) {
	if *tablePuts <= 0 {
		t.Skip("it takes ten minutes; -puts 5000 runs it")
	}
	var mu sync.Mutex // guards rows
	rows := make(map[string]string)
	t.Run("all", func(t *testing.T) {
		for _, server := range throttlers {
			for _, l := range putLibraries {
				t.Run(server.name+"/"+l.name, func(t *testing.T) {
					if !l.busy {
						t.Parallel()
					}
					f := newPutRun(t, server.start, l.lib).measure(t.Context(), *tablePuts, 90*time.Second)
					mu.Lock()
					defer mu.Unlock()
					wall := fmt.Sprintf("%.3g s", f.wall.Seconds())
					if f.cut {
						wall = "cut after " + wall
					}
					rows[server.name+l.name] = fmt.Sprintf("| %s | %d | %.2f | %s | %.2g s |\n",
						l.name, f.succeeded, f.perCall(), wall, f.p99.Seconds())
					if f.failure != nil {
						t.Logf("%d begun, %d arrived, such as: %v", f.begun, f.arrived, f.failure)
					}
				})
			}
		}
	})
	var tables strings.Builder
	for _, server := range throttlers {
		table := ""
		for _, l := range putLibraries {
			table += rows[server.name+l.name]
		}
		if table != "" {
			fmt.Fprintf(&tables, "\n## %s\n\n| | succeeded | attempts per call | all took | p99 of a call |\n"+
				"|---|---|---|---|---|\n%s", server.name, table)
		}
	}
	t.Log(tables.String())
	updateDocument(t, "TestThrottleTable -puts 5000 -parallel 8 -timeout 1h", "nginx-haproxy.md",
		"Behind nginx and HAProxy", tables.String())
}
