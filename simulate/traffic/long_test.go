package traffic

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/simulate/scenario"
)

// took returns the attributes of a call of one attempt.
func took(d time.Duration, failed bool) string {
	if failed {
		return fmt.Sprintf(`"attempt":1,"class":"transient","status":500,"elapsed_ms":%d,"stop":"max_attempts"`,
			d.Milliseconds())
	}
	return fmt.Sprintf(`"attempt":1,"class":"success","status":200,"elapsed_ms":%d,"stop":"success"`, d.Milliseconds())
}

// incident returns a log of that many half days with ten bad minutes, in the middle
// of two hours with a call every two seconds.
func incident(halfDays int) string {
	const normal, slow = 20 * time.Millisecond, 200 * time.Millisecond
	var log strings.Builder
	for i := range halfDays {
		log.WriteString(line((i-halfDays)*12*3600*1000, took(normal, false)))
	}
	for i := range 3600 {
		bad := i >= 1650 && i < 1950
		log.WriteString(line(2000*i, took(map[bool]time.Duration{false: normal, true: slow}[bad], bad && i%5 == 0)))
	}
	return log.String()
}

func unseen(f *Fitted, part string) bool {
	return slices.ContainsFunc(f.Unseen, func(text string) bool { return strings.Contains(text, part) })
}

// The latencies are from the part of a long log that is fitted, or the output says
// that they are not.
func TestLatencyOfLongLogs(t *testing.T) {
	const around = "of these 10m0s alone"
	f := fitted(t, []byte(incident(2)))
	near(t, "p50", f.Recorded.P50.Seconds(), 0.2, 0.02)
	near(t, "the median", float64(f.served50())/float64(second), 0.2, 0.02)
	if unseen(f, around) {
		t.Errorf("the latencies are said to be of more than ten minutes: %q", f.Unseen)
	}
	if f := fitted(t, []byte(incident(14))); !unseen(f, around) {
		t.Errorf("what is fitted to a week is said to be of ten minutes: %q", f.Unseen)
	}
}

// A long log that is read again is counted as finely as a short one: a limit of a
// week ago is fitted as a limit, not as random failures.
func TestRefine(t *testing.T) {
	s := base(80, 60)
	s.Service.Throttle = &scenario.Throttle{Rate: 50, Burst: 20}
	short, _ := recorded(t, s, &awsretry.Transport{})
	var long strings.Builder
	virtual := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // when it begins
	for i := range 28 {
		at := virtual.Add(time.Duration(i-28) * 12 * time.Hour)
		fmt.Fprintf(&long, "{\"time\":%q,%s}\n", at.Format(time.RFC3339Nano), success)
	}
	long.Write(short)
	log, err := Read(t.Context(), strings.NewReader(long.String()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Refine(t.Context(), strings.NewReader(long.String()), 0, nil); err != nil {
		t.Fatal(err)
	}
	f, err := log.Fit(0)
	if err != nil {
		t.Fatal(err)
	}
	if throttle := f.Scenario.Service.Throttle; throttle == nil || throttle.Rate == 0 {
		t.Fatalf("the throttle is %+v", throttle)
	}
	near(t, "throttle.rate", f.Scenario.Service.Throttle.Rate, 50, 0.03)
	near(t, "goodput", f.Recorded.Goodput*f.Recorded.To.Sub(f.Recorded.From).Seconds()/80, 50, 0.1)
	if f.Recorded.Whole < 13*24*time.Hour || unseen(f, "alone") {
		t.Errorf("the log is of %v: %q", f.Recorded.Whole, f.Unseen)
	}
}

// served50 returns the median latency of the scenario.
func (f *Fitted) served50() float64 {
	for _, q := range f.Scenario.Service.Latency.Table {
		if q.Share >= 0.5 {
			return float64(q.Within + f.Scenario.Service.Network)
		}
	}
	return 0
}

// A response that took longer than the longest latency of a scenario counts as that
// long.
func TestLatencyBeyondScenarios(t *testing.T) {
	f := fitted(t, []byte(strings.Repeat(line(0, took(2*time.Hour, false)), 50)))
	if table := f.Scenario.Service.Latency.Table; table[len(table)-1].Within != 3600*second {
		t.Errorf("the longest latency is %v", table[len(table)-1].Within)
	}
}

// The shortest simulation takes a second, and so does one of a shorter log.
func TestShortLog(t *testing.T) {
	f := fitted(t, []byte(strings.Repeat(line(0, success), 50)))
	near(t, "the rate", f.Scenario.Clients.Rate, 50, 0.01)
	near(t, "the goodput", f.Recorded.Goodput, 50, 0.01)
	if !unseen(f, "callers that wait") {
		t.Errorf("whether calls depend on each other is said to be known: %q", f.Unseen)
	}
}

// A throttled attempt does not show how long the service takes.
func TestLatenciesAndLoad(t *testing.T) {
	f := &fitting{every: time.Second}
	for i := range 40 { // with more requests, fewer are throttled
		n := int64(20 + i)
		f.steps = append(f.steps, count{sent: 100, throttled: 100 - n, worked: time.Duration(n) * 50 * time.Millisecond})
	}
	f.window.to = f.window.from.Add(40 * time.Second)
	if r := f.correlation(); r != 0 {
		t.Errorf("the correlation is %v for latencies that are all alike", r)
	}
}
