package interop

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
)

// Servers throttle 50 workers each that never rest. They allow 200 requests per
// second. In adaptive mode no PUT is lost, and few requests are throttled.
func TestThrottled(t *testing.T) {
	const puts = 400
	nginx := nginxLimitReq("burst=20 nodelay", "")
	nginxAfter := nginxLimitReq("burst=20 nodelay", retryAfterOneSecond)
	haproxy := haproxyDenying("http_req_rate(1s)", "{ sc_http_req_rate(0) gt 200 }")
	runs := make(map[string]*putRun)
	for _, tt := range []struct {
		name   string
		start  startThrottler
		pacing awsretry.Pacing
	}{
		{"nginx, cubic", nginx, awsretry.CubicPacing},
		{"nginx, scaled", nginx, awsretry.ScaledPacing},
		{"nginx with Retry-After, cubic", nginxAfter, awsretry.CubicPacing},
		{"nginx with Retry-After, scaled", nginxAfter, awsretry.ScaledPacing},
		// HAProxy counts what it denies. After the first 200 requests it denies
		// everything until the rate has fallen. ScaledPacing sends the first
		// retries before that, and loses some.
		{"HAProxy, cubic", haproxy, awsretry.CubicPacing},
	} {
		lib := puttingWith(awsretryOf(inMode(awsretry.Adaptive), withPacing(tt.pacing)))
		runs[tt.name] = newPutRun(t, tt.start, lib)
	}
	var all sync.WaitGroup
	var throttled atomic.Int32 // by all servers: on a busy machine one of them may have nothing to throttle
	for name, run := range runs {
		all.Go(func() {
			f := run.measure(t.Context(), puts, time.Minute)
			t.Logf("%s: %d of %d succeeded, %.2f attempts per call, %v, p99 %v",
				name, f.succeeded, puts, f.perCall(), f.wall, f.p99)
			if f.succeeded != puts || f.arrived != puts {
				t.Errorf("%s: %d succeeded and %d arrived of %d, such as: %v",
					name, f.succeeded, f.arrived, puts, f.failure)
			}
			if f.perCall() > 1.3 {
				t.Errorf("%s: %d attempts of %d calls; too many are throttled", name, f.attempts, f.begun)
			}
			throttled.Add(int32(f.attempts - f.begun))
		})
	}
	all.Wait()
	if throttled.Load() == 0 {
		t.Error("nothing was throttled, so nothing was tested")
	}
}
