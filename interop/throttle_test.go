package interop

import (
	"sync"
	"testing"
	"time"

	"example.com/awsretry"
)

// Three servers throttle 50 workers each that never rest. They allow 200
// requests per second. In adaptive mode no PUT is lost, and few requests are
// throttled.
func TestThrottled(t *testing.T) {
	both := []awsretry.Pacing{awsretry.CubicPacing, awsretry.ScaledPacing}
	var all sync.WaitGroup
	for _, server := range []struct {
		name    string
		start   startThrottler
		pacings []awsretry.Pacing
		puts    int
	}{
		{"nginx", nginxLimitReq("", ""), both, 300},
		{"nginx with a burst", nginxLimitReq("burst=20 nodelay", retryAfterOneSecond), both, 600},
		// HAProxy counts what it denies. After the first 200 it denies everything
		// until the rate falls, and with ScaledPacing the first retries come before
		// that.
		{"HAProxy", haproxyDenying("http_req_rate(1s)", "{ sc_http_req_rate(0) gt 200 }"), both[:1], 600},
	} {
		for _, pacing := range server.pacings {
			run := newPutRun(t, server.start, puttingWith(awsretryOf(inMode(awsretry.Adaptive), withPacing(pacing))))
			all.Go(func() {
				f := run.measure(t.Context(), server.puts, time.Minute)
				t.Logf("%s, %v: %d of %d succeeded, %.2f attempts per call, %v, p99 %v",
					server.name, pacing, f.succeeded, server.puts, f.perCall(), f.wall, f.p99)
				if f.succeeded != server.puts || f.arrived != server.puts {
					t.Errorf("%s, %v: %d succeeded and %d arrived of %d, such as: %v",
						server.name, pacing, f.succeeded, f.arrived, server.puts, f.failure)
				}
				if f.attempts == f.begun || f.perCall() > 1.5 {
					t.Errorf("%s, %v: %d attempts of %d calls; some must be throttled, and not many",
						server.name, pacing, f.attempts, f.begun)
				}
			})
		}
	}
	all.Wait()
}
