package simulate

import (
	"math"
	"net/http"
	"testing"

	"example.com/awsretry/simulate/scenario"
)

// A call takes 100 ms until the header and 400 ms for the body.
func TestCallsWithBodies(t *testing.T) {
	for _, tt := range []struct {
		name           string
		setting        scenario.Setting
		attemptTimeout scenario.Duration
		broken         float64
		good, failed   [2]int64 // at least and at most
		attempts       float64  // per call
	}{
		{name: "whole", setting: scenario.Setting{Use: scenario.UseStandard}, good: [2]int64{19, 19}, attempts: 1},
		{
			name: "broken", setting: scenario.Setting{Use: scenario.UseStandard}, broken: 0.5,
			good: [2]int64{8, 16}, failed: [2]int64{6, 18}, attempts: 1,
		}, {
			// -log(1 - 0.9) breaks for each body
			name:    "broken and resumed",
			setting: scenario.Setting{Use: scenario.UseStandard, Resume: true, Quota: scenario.QuotaNone}, broken: 0.9,
			good: [2]int64{3, 9}, attempts: 1 + math.Ln10,
		}, {
			name: "longer than an attempt", setting: scenario.Setting{Use: scenario.UseStandard}, attemptTimeout: ms(300),
			failed: [2]int64{33, 33}, attempts: 1,
		}, {
			name:    "longer than an attempt, and resumed",
			setting: scenario.Setting{Use: scenario.UseStandard, Resume: true}, attemptTimeout: ms(400),
			good: [2]int64{6, 13}, attempts: 2,
		}, {
			name:    "the header in time, to a RoundTripper of the caller's",
			setting: scenario.Setting{Name: "own", New: retryAfter100ms}, attemptTimeout: ms(300),
			good: [2]int64{19, 19}, attempts: 1,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tiny(tt.setting)
			s.Clients.AttemptTimeout = tt.attemptTimeout
			s.Service.Body = &scenario.Body{Time: ms(400), Broken: tt.broken}
			o := mustRun(t, s).Outcomes[0]
			t.Logf("%d good, %d failed, %.2f attempts each", o.Good, o.Failed, o.Amplification)
			if o.Good < tt.good[0] || o.Good > tt.good[1] || o.Failed < tt.failed[0] || o.Failed > tt.failed[1] {
				t.Errorf("%d calls are good and %d fail, want %v and %v", o.Good, o.Failed, tt.good, tt.failed)
			}
			if math.Abs(o.Amplification-tt.attempts) > 0.3*(tt.attempts-1)+0.07 {
				t.Errorf("%.2f attempts per call, want about %.2f", o.Amplification, tt.attempts)
			}
		})
	}
}

func TestRangeStart(t *testing.T) {
	for header, want := range map[string]int{
		"": 0, "bytes=17-": 17, "bytes=17-20": 0, "bytes=-5": 0, "bytes=4096-": 0, "bytes=4095-": 4095, "lines=5-": 0,
	} {
		req := new(http.Request)
		if header != "" {
			req.Header = http.Header{"Range": {header}}
		}
		if got := rangeStart(req); got != want {
			t.Errorf("%q asks for the bytes from %d on, want %d", header, got, want)
		}
	}
}
