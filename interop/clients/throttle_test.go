package clients

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
	"example.com/awsretry/interop/internal/peers"
	"github.com/PuerkitoBio/rehttp"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
)

// Servers throttle 50 workers each that never rest. They allow 200 requests per
// second. In adaptive mode no PUT is lost, and few requests are throttled.
func TestThrottled(t *testing.T) {
	const puts = 400
	var throttled atomic.Int32 // by all servers: on a busy machine one of them may have nothing to throttle
	t.Run("all", func(t *testing.T) {
		for _, tt := range []struct {
			name   string
			start  startThrottler
			pacing awsretry.Pacing
		}{
			{"nginx, Retry-After", nginxLimiting(200, "burst=20 nodelay", retryAfterOneSecond), awsretry.ScaledPacing},
			// HAProxy counts what it denies. After the first 200 requests it denies
			// everything until the rate has fallen. ScaledPacing sends the first
			// retries before that, and loses some.
			{"HAProxy", haproxyDenying("http_req_rate(1s)", "{ sc_http_req_rate(0) gt 200 }"), awsretry.CubicPacing},
		} {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				lib := puttingWith(peers.Awsretry(inMode(awsretry.Adaptive), withPacing(tt.pacing)))
				f := measurePuts(t, tt.start, lib, puts, time.Minute)
				t.Logf("%+v", f)
				if f.succeeded != puts || f.arrived != puts || f.perCall() > 1.3 {
					t.Errorf("%d succeeded and %d arrived of %d, with %d attempts, such as: %v",
						f.succeeded, f.arrived, puts, f.attempts, f.failure)
				}
				throttled.Add(int32(f.attempts - f.begun))
			})
		}
	})
	if throttled.Load() == 0 {
		t.Error("nothing was throttled, so nothing was tested")
	}
}

// slowDown is the body of a response with 429. The AWS SDKs know throttling by
// its code only.
const slowDown = "<Error><Code>SlowDown</Code></Error>"

// startThrottler starts a server that throttles. It passes other requests on to
// the service, and ends with the test.
type startThrottler func(t testing.TB, service string) (addr string)

// A putter sends a small object to a server, with retries.
type putter func(ctx context.Context, key string) error

// A newPutter makes a putter of a library.
type newPutter func(base http.RoundTripper, addr string) putter

const putBody = "a small object, as logs and records are"

// puttingWith returns putters that use a library for http.Client.
func puttingWith(wrap peers.Wrap) newPutter {
	return func(base http.RoundTripper, addr string) putter {
		client := &http.Client{Transport: wrap(base)}
		return func(ctx context.Context, key string) error {
			url := "http://" + addr + "/" + s3Bucket + "/" + key
			req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader(putBody))
			if err == nil {
				_, err = kit.Text(client.Do(req))
			}
			return err
		}
	}
}

// puttingWithS3 returns putters that use the S3 client of the AWS SDK with a
// retryer.
func puttingWithS3(newRetryer func() aws.Retryer) newPutter {
	return func(base http.RoundTripper, addr string) putter {
		client := newS3(addr, base, newRetryer())
		return func(ctx context.Context, key string) error { return s3Put(ctx, client, key, []byte(putBody)) }
	}
}

// putFigures is the outcome of many PUTs.
type putFigures struct {
	begun, succeeded, attempts, arrived int
	wall, p99                           time.Duration
	cut                                 bool  // the limit ended it
	failure                             error // of one that failed
}

func (f putFigures) perCall() float64 { return float64(f.attempts) / float64(f.begun) }

// measurePuts sends PUTs through a server that throttles. Fifty workers take the
// next one at once. After the limit, those under way fail, and the rest is not
// begun.
func measurePuts(t testing.TB, start startThrottler, lib newPutter, puts int, limit time.Duration) (f putFigures) {
	var attempts, arrived atomic.Int32
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		if body, err := io.ReadAll(req.Body); err == nil && bytes.Contains(body, []byte(putBody)) {
			arrived.Add(1)
		}
	}))
	defer service.Close()
	addr, pool := start(t, service.URL), kit.Pool(t)
	put := lib(httpfake.Base(func(req *http.Request) (*http.Response, error) {
		attempts.Add(1)
		return pool.RoundTrip(req)
	}), addr)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	timer := time.AfterFunc(limit, cancel) // a deadline would change what the libraries do
	defer timer.Stop()
	var mu sync.Mutex // guards f and took
	var took []time.Duration
	begin := time.Now()
	kit.InParallel(puts, 50, func(n int) {
		if ctx.Err() != nil {
			return
		}
		called := time.Now()
		err := put(ctx, fmt.Sprint(n))
		mu.Lock()
		defer mu.Unlock()
		took = append(took, time.Since(called))
		if err == nil {
			f.succeeded++
		} else {
			f.failure = err
		}
	})
	f.wall, f.cut = time.Since(begin), ctx.Err() != nil
	slices.Sort(took)
	f.begun, f.p99 = len(took), took[len(took)*99/100]
	f.attempts, f.arrived = int(attempts.Load()), int(arrived.Load())
	return f
}

const retryAfterOneSecond = "add_header Retry-After 1 always;"

// nginxLimiting is an nginx that limits requests with limit_req. Its responses
// above the rate have the lines of header.
func nginxLimiting(rate int, limit, header string) startThrottler {
	return func(t testing.TB, service string) (addr string) {
		addr, _ = kit.StartNginx(t, t.TempDir(), fmt.Sprintf(`
	keepalive_requests 1000000;
	client_max_body_size 0;
	limit_req_zone $binary_remote_addr zone=service:1m rate=%dr/s;
	server {
		listen ADDR;
		location / {
			limit_req zone=service %s;
			limit_req_status 429;
			error_page 429 /throttled;
			proxy_pass %s;
		}
		location = /throttled {
			internal;
			default_type application/xml;
			%s
			return 429 '%s';
		}
	}`, rate, limit, service, header, slowDown))
		return addr
	}
}

// haproxyDenying is a HAProxy that denies requests with 429 under a condition.
// The stick table counts the requests of a caller, those that are denied
// included.
func haproxyDenying(rate, condition string) startThrottler {
	return func(t testing.TB, service string) (addr string) {
		return kit.StartHAProxy(t, fmt.Sprintf(`
	stick-table type ip size 1k expire 1m store %s
	http-request track-sc0 src
	http-request deny status 429 content-type application/xml string "%s" if %s
`, rate, slowDown, condition), service)
	}
}

var tablePuts = flag.Int("puts", 0, "how many PUTs TestThrottleTable sends for each row; 0 skips the test")

func revision2026(tr *awsretry.Transport) { tr.Revision = awsretry.Revision2026 }

// putLibraries are the rows of the tables.
var putLibraries = []struct {
	name string
	busy bool // its calls hardly wait, so it needs the machine for itself
	lib  newPutter
}{
	{"no retries", true, puttingWith(peers.Awsretry(func(tr *awsretry.Transport) { tr.MaxAttempts = 1 }))},
	{"awsretry standard", true, puttingWith(peers.Awsretry())},
	{"awsretry standard, `Revision2026`", true, puttingWith(peers.Awsretry(revision2026))},
	{"awsretry standard, `Revision2026`, `LongPoll` always", false, puttingWith(peers.Awsretry(revision2026, func(tr *awsretry.Transport) {
		tr.LongPoll = func(*http.Request) bool { return true }
	}))},
	{"awsretry legacy", false, puttingWith(peers.Awsretry(inMode(awsretry.Legacy)))},
	{"awsretry adaptive", false, puttingWith(peers.Awsretry(inMode(awsretry.Adaptive)))},
	{"awsretry adaptive, `ScaledPacing`", false,
		puttingWith(peers.Awsretry(inMode(awsretry.Adaptive), withPacing(awsretry.ScaledPacing)))},
	{"awsretry adaptive, `ShareRetryAfter`", false,
		puttingWith(peers.Awsretry(inMode(awsretry.Adaptive), func(tr *awsretry.Transport) { tr.ShareRetryAfter = true }))},
	{"aws-sdk-go-v2 standard", false, puttingWithS3(func() aws.Retryer { return retry.NewStandard() })},
	{"aws-sdk-go-v2 adaptive", false, puttingWithS3(func() aws.Retryer { return retry.NewAdaptiveMode() })},
	{"go-retryablehttp", false, puttingWith(peers.Retryablehttp())},
	// Four attempts, after what the other libraries retry, as in bench.
	{"rehttp", false, puttingWith(peers.Rehttp(3,
		rehttp.RetryAny(rehttp.RetryStatuses(429, 503), rehttp.RetryTemporaryErr()),
		rehttp.ExpJitterDelay(time.Second, 30*time.Second)))},
	{"failsafe-go", false, puttingWith(peers.Failsafe(func(b peers.RetryBuilder) {
		b.WithBackoff(time.Second, 30*time.Second).WithMaxRetries(3)
	}))},
}

func inMode(mode awsretry.Mode) func(*awsretry.Transport) {
	return func(tr *awsretry.Transport) { tr.Mode = mode }
}

func withPacing(pacing awsretry.Pacing) func(*awsretry.Transport) {
	return func(tr *awsretry.Transport) { tr.RateLimit.Pacing = pacing }
}

// throttlers are the servers that the tables are about.
var throttlers = []struct {
	name  string
	start startThrottler
}{
	{"nginx", nginxLimiting(200, "", "")},
	{"nginx, `Retry-After: 1`", nginxLimiting(200, "", retryAfterOneSecond)},
	{"nginx, `burst=20 nodelay`", nginxLimiting(200, "burst=20 nodelay", "")},
	{"nginx, `burst=20 nodelay`, `Retry-After: 1`", nginxLimiting(200, "burst=20 nodelay", retryAfterOneSecond)},
	{"HAProxy, `http_req_rate(1s)` above 200", haproxyDenying("http_req_rate(1s)", "{ sc_http_req_rate(0) gt 200 }")},
	{"HAProxy, `http_req_rate(10s)` above 2000", haproxyDenying("http_req_rate(10s)", "{ sc_http_req_rate(0) gt 2000 }")},
	{"HAProxy, 8 % at random", haproxyDenying("http_req_rate(1s)", "{ rand(100) lt 8 }")},
	{"HAProxy, 8 % at random, `http_req_rate(1s)` above 500",
		haproxyDenying("http_req_rate(1s)", "{ rand(100) lt 8 } or { sc_http_req_rate(0) gt 500 }")},
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
					f := measurePuts(t, server.start, l.lib, *tablePuts, 90*time.Second)
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
	kit.Page{
		File: "nginx-haproxy.md", Title: "Behind nginx and HAProxy",
		By: "interop/clients TestThrottleTable -puts 5000 -parallel 8 -timeout 1h",
	}.Update(t, tables.String())
}
