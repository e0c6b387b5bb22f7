package interop

import (
	"sync"
	"testing"
	"time"

	"example.com/awsretry"
)

// In adaptive mode, no PUT is lost where a server throttles 50 workers that
// never rest. It allows them 200 requests per second.
func TestThrottled(t *testing.T) {
	for _, server := range []struct {
		name  string
		start startThrottler
		// puts are so many that most of them come after the send rate was found.
		puts int
	}{
		{"nginx", nginxLimitReq("burst=20 nodelay", ""), 1000},
		{"nginx without burst", nginxLimitReq("", retryAfterOneSecond), 500},
		{"HAProxy", haproxyDenying("http_req_rate(1s)", "{ sc_http_req_rate(0) gt 200 }"), 1000},
	} {
		t.Run(server.name, func(t *testing.T) {
			var all sync.WaitGroup
			defer all.Wait()
			for _, pacing := range []awsretry.Pacing{awsretry.CubicPacing, awsretry.ScaledPacing} {
				lib := puttingWith(awsretryOf(inMode(awsretry.Adaptive), withPacing(pacing)))
				run := newPutRun(t, server.start, lib)
				all.Go(func() {
					f := run.measure(t.Context(), server.puts, 14*time.Second)
					t.Logf("%v: %d of %d, %.2f attempts per call, %v, p99 %v",
						pacing, f.succeeded, server.puts, f.perCall(), f.wall, f.p99)
					if f.succeeded != server.puts || f.arrived != server.puts {
						t.Errorf("%v: %d succeeded and %d arrived of %d, such as %v",
							pacing, f.succeeded, f.arrived, server.puts, f.failure)
					}
					if f.attempts == f.begun || f.perCall() > 1.3 {
						t.Errorf("%v: %d attempts of %d PUTs", pacing, f.attempts, f.begun)
					}
				})
			}
		})
	}
}
