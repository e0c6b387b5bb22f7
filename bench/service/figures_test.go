package main

import (
	"math"
	"slices"
	"testing"
	"time"

	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/scenario"
)

func TestThrottlingFigures(t *testing.T) {
	p := throttled(2, 2, 2*time.Second, 4*time.Second, step{0, 2})
	s := throttlingSample{succeeded: make([]float64, 4)}
	call := func(client, caller int, start, took time.Duration, good, unfinished bool) {
		s.add(p, simulate.Call{
			Client: client, Caller: caller, Start: start * time.Second, Took: took * time.Second, Good: good,
			Unfinished: unfinished,
		})
	}
	call(0, 0, 0, 1, true, false) // too early
	call(0, 0, 1, 1, true, false)
	call(0, 1, 1, 2, true, false)
	call(1, 0, 1, 2, false, false)
	call(1, 1, 0, 4, false, true)
	got := s.figures(p, simulate.Series{Attempts: []float64{9, 9, 4, 4}, Throttled: []float64{9, 9, 2, 4}})
	want := throttlingFigures{
		goodput: 0.5, refused: 0.75, failed: 1. / 3, p50: 2 * time.Second, p99: 4 * time.Second,
		fair: 0.5, fairClients: 0.5, begun: -1,
	}
	if math.Abs(got.failed-want.failed) < 1e-12 {
		got.failed = want.failed
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestLoopFigures(t *testing.T) {
	s := simulate.Series{
		Attempts: []float64{9, 6, 10}, Throttled: []float64{9, 6, 2}, Good: []float64{0, 0, 8}, Bad: []float64{9, 4, 2},
	}
	got := loopFiguresOf(s, 1)
	if want := (loopFigures{attempts: 8, failed: 3, succeeded: 4, refused: 0.5, perSuccess: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	s.Good[2] = 0
	if got := loopFiguresOf(s, 1).perSuccess; !math.IsNaN(got) {
		t.Errorf("%v attempts for each success where there is none", got)
	}
}

func TestStormFigures(t *testing.T) {
	s := storm{clients: 2, callers: 1, rate: 1, before: time.Second, outage: 2 * time.Second, after: 6 * time.Second}
	sample := newStormSample(s)
	for second := range 10 { // the last second is not measured
		start, took := time.Duration(second)*time.Second+1, time.Duration(second)*time.Second
		sample.add(s, simulate.Call{Start: start, Took: took, Good: second != 2 && second != 3})
		sample.add(s, simulate.Call{Start: start, Took: took, Good: second == 0 || second > 3})
	}
	got := sample.figures(s, []float64{2, 2, 6, 4, 2, 2, 2, 2, 2, 9})
	want := stormFigures{
		during: 2, peak: 3, after: 14.0 / 12, recovered: 1, failedDuring: 0.75, failedAfter: 2.0 / 12,
		p50: time.Second, p99: 2 * time.Second,
	}
	if math.Abs(got.failedAfter-want.failedAfter) < 1e-12 {
		got.failedAfter = want.failedAfter
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestHourlyFigures(t *testing.T) {
	h := hourly{
		limit: 12, clients: 2, callers: 2, settle: 10 * time.Second, steady: 20 * time.Minute, slowed: time.Minute,
	}
	s := newHourlySample(h)
	call := func(client, caller int, start, took time.Duration, attempts int, good bool) {
		s.add(simulate.Call{
			Client: client, Caller: caller, Start: start * time.Second, Took: took * time.Second,
			Attempts: attempts, Good: good,
		})
	}
	call(0, 0, 1, 1, 9, false) // too early
	call(0, 0, 5, 20, 4, true)
	call(0, 1, 11, 1, 2, false)
	call(0, 1, 12, 1, 2, true)
	call(1, 0, 11, 1, 8, true)
	got := s.figures()
	want := hourlyFigures{
		goodput: 3. / 4, retries: (3./4 + 3./4 + 7./8) / 4, deviation: math.Sqrt(32. / 3), longest: 20 * time.Second,
	}
	differ := func(a, b float64) bool { return math.Abs(a-b) > 1e-12 }
	if differ(got.goodput, want.goodput) || differ(got.retries, want.retries) ||
		differ(got.deviation, want.deviation) || got.longest != want.longest {
		t.Errorf("got %+v, want %+v", got, want)
	}
	ends := []time.Duration{65 * time.Second, 62 * time.Second, 70 * time.Second}
	if got := h.cleared(ends); got != 5*time.Second {
		t.Errorf("the second of three calls ends after %v, want 5s", got)
	}
	if got := h.cleared(ends[:1]); got >= 0 {
		t.Errorf("the backlog of two calls is cleared by one, after %v", got)
	}
}

func TestRecovered(t *testing.T) {
	for _, tt := range []struct {
		name      string
		succeeded []float64
		want      int
	}{
		{"at once", []float64{100, 99, 100, 100, 100, 0}, 0},
		{"after two seconds", []float64{0, 98, 99, 100, 100, 100, 100}, 2},
		{"a relapse", []float64{100, 100, 100, 100, 98, 100, 100, 100, 100, 100}, 5},
		{"too short", []float64{100, 100, 100, 100}, -1},
		{"nothing", nil, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			began := slices.Repeat([]float64{100}, len(tt.succeeded))
			if got := recovered(began, tt.succeeded); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

// The scenarios of the cases are valid and say what the cases do.
func TestScenarios(t *testing.T) {
	relapse := full.sdkStorms[0].scenario()
	serves := func(p period) float64 {
		return simulate.Serves(p.scenario, scenario.Duration(p.from), p.scenario.Duration)
	}
	for _, tt := range []struct {
		name string
		got  float64
		want float64
	}{
		{"steady", serves(full.throttlings[0].virtual), 90 * 100},
		{"steps", serves(full.throttlings[3].virtual), 30*100 + 60*20 + 120*200},
		{"steps on the wall clock", serves(full.throttlings[3].wall), 20*100 + 20*20 + 20*200},
		{"far away", serves(full.pacings[6].virtual), 540 * 2},
		{"far away on the wall clock", serves(full.pacings[6].wall), 60 * 2},
		{"an outage", simulate.Serves(full.storms[0].scenario(), 0, scenario.Duration(100*time.Second)), 70 * 1200},
		{"errors after an outage", simulate.Serves(relapse, 0, scenario.Duration(100*time.Second)), (10 + 60*0.95) * 1200},
		{"a service that hangs", simulate.Serves(full.storms[2].scenario(), 0, scenario.Duration(100*time.Second)), 70 * 1500},
	} {
		if math.Abs(tt.got-tt.want) > 1e-6 {
			t.Errorf("%s: the service serves %v requests, want %v", tt.name, tt.got, tt.want)
		}
	}
	for _, c := range []cases{full, short} {
		var all []scenario.Scenario
		for _, throttling := range slices.Concat(c.throttlings, c.pacings, c.sdkThrottlings) {
			all = append(all, throttling.virtual.scenario, throttling.wall.scenario)
		}
		for _, h := range c.hourlies {
			all = append(all, h.scenario(nil, h.settle+h.steady), h.backlog(nil))
		}
		for _, l := range c.loops {
			all = append(all, l.scenario)
		}
		for _, s := range slices.Concat(c.storms, c.sdkStorms) {
			all = append(all, s.scenario())
		}
		for _, s := range all {
			if err := s.Validate(); err != nil {
				t.Errorf("%+v: %v", s, err)
			}
		}
	}
}
