package traffic

import (
	"bytes"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/simulate/scenario"
)

// The fit distinguishes callers that wait for their calls from calls that arrive
// independently, whatever the service does.
func TestClosedLoops(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector has nothing to find in arithmetic, and makes it slow")
	}
	limit := func(rate, burst float64) scenario.Throttle { return scenario.Throttle{Rate: rate, Burst: burst} }
	after := scenario.Throttle{Rate: 50, Burst: 5, RetryAfter: 2 * second}
	random := scenario.Throttle{Share: 0.08}
	outage := []scenario.Event{{Kind: scenario.Errors, Share: 1, From: 10 * second, To: 20 * second}}
	slow := []scenario.Event{{Kind: scenario.SlowLatency, Factor: 50, From: 10 * second, To: 20 * second}}
	vary := func(rates ...float64) *scenario.OverTime {
		return &scenario.OverTime{Every: 40 * second / scenario.Duration(len(rates)), Rate: rates}
	}
	for _, tt := range []struct {
		name     string
		rate     float64 // of calls that arrive
		callers  int
		think    scenario.Duration
		adaptive bool
		throttle scenario.Throttle
		events   []scenario.Event
		overTime *scenario.OverTime
		most     int // callers that may be found, and a fifth fewer; 0: a tenth more
	}{
		{name: "arriving", rate: 50},
		{name: "arriving at a limit, adaptive", rate: 60, throttle: limit(50, 20), adaptive: true},
		{name: "arriving, throttled at random, adaptive", rate: 60, throttle: random, adaptive: true},
		{name: "arriving, Retry-After", rate: 60, throttle: after},
		{name: "arriving, outage", rate: 60, events: outage},
		{name: "arriving less while slow", rate: 60, events: slow, overTime: vary(60, 20, 60, 60)},

		{name: "one", callers: 1},
		{name: "three that think", callers: 3, think: ms(30), most: 4},
		{name: "at a limit, adaptive", callers: 16, throttle: limit(50, 20), adaptive: true},
		{name: "Retry-After, thinking", callers: 20, think: ms(100), throttle: after},
		{name: "throttled at random, adaptive", callers: 20, throttle: random, adaptive: true},
		{name: "thinking", callers: 20, think: ms(100), most: 26},
		{name: "outage, thinking", callers: 20, think: ms(200), events: outage, most: 26},
		{name: "many at a low limit, adaptive", callers: 200, throttle: limit(20, 5), adaptive: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := base(40, tt.rate)
			if tt.callers > 0 {
				s.Clients = scenario.Clients{Count: 1, Callers: tt.callers, Think: tt.think}
			}
			if tt.throttle != (scenario.Throttle{}) {
				s.Service.Throttle = &tt.throttle
			}
			s.Events, s.OverTime = tt.events, tt.overTime
			tr := &awsretry.Transport{}
			if tt.adaptive {
				tr.Mode = awsretry.Adaptive
			}
			log, _ := recorded(t, s, tr)
			l, err := Read(t.Context(), bytes.NewReader(log), Options{})
			if err != nil {
				t.Fatal(err)
			}
			w := l.window(time.Minute)
			from, to := l.counts.within(w)
			f := l.inFlight(w)
			if got := f.closed(l.counts.list[from:to]); got != (tt.callers > 0) {
				t.Fatalf("closed is %v: %+v", got, f)
			}
			if n := f.callers(); tt.callers > 0 && (n < tt.callers*8/10 || n > max(tt.most, tt.callers+tt.callers/10)) {
				t.Errorf("%d callers, want %d: %+v", n, tt.callers, f)
			}
		})
	}
}
