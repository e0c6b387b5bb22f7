package interop

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/scenario"
	"example.com/awsretry/simulate/traffic"
)

// pairScenes are services, and the calls that they get.
var pairScenes = map[string]pairScene{
	"429 at random":           {share: .08, perSecond: 60, timeout: 5 * time.Second},
	"500 at random":           {errors: .1, perSecond: 60},
	"429 and 500 at random":   {share: .06, errors: .06, perSecond: 60},
	"outage":                  {outage: true, perSecond: 60},
	"limit":                   {rate: 40, burst: 10, perSecond: 60, timeout: 5 * time.Second},
	"limit and 500":           {rate: 50, burst: 20, errors: .05, perSecond: 60},
	"limit, Retry-After":      {rate: 50, burst: 20, retryAfter: "1", perSecond: 60},
	"slow at random":          {slow: .1, perSecond: 60, attemptTimeout: 500 * time.Millisecond},
	"queue":                   {capacity: 60, queue: 30, errors: .1, perSecond: 45},
	"16 callers, limit":       {rate: 20, burst: 20, callers: 16},
	"20 callers, Retry-After": {rate: 100, burst: 50, retryAfter: "1", callers: 20},
	"20 callers, outage":      {outage: true, callers: 20},
	"20 callers, 429":         {share: .08, callers: 20, think: 200 * time.Millisecond},
	"20 callers, 429 and 500": {share: .05, errors: .08, callers: 20, think: 200 * time.Millisecond},
	"20 callers, limit":       {rate: 50, burst: 20, callers: 20, think: 200 * time.Millisecond},
}

// pairs are what TestPairs predicts. The brief ones run by default.
var pairs = []pair{
	{scene: "429 at random", a: "standard", b: "adaptive", brief: true},
	{scene: "429 at random", a: "standard", b: "adaptive", flags: "--timeout 5s", brief: true},
	{scene: "429 at random", a: "adaptive", b: "standard", brief: true},
	{scene: "429 at random", a: "adaptive=scaled", b: "standard"},
	{scene: "429 at random", a: "standard", b: "adaptive=scaled", flags: "--timeout 5s"},
	{scene: "500 at random", a: "standard", b: "none", brief: true},
	{scene: "500 at random", a: "none", b: "standard", brief: true},
	{scene: "500 at random", a: "legacy", b: "revision2026"},
	{scene: "429 and 500 at random", a: "standard", b: "legacy"},
	{scene: "429 and 500 at random", a: "revision2026", b: "none"},
	{scene: "outage", a: "standard", b: "none"},
	{scene: "outage", a: "standard", b: "legacy"},
	{scene: "outage", a: "revision2026", b: "standard"},
	{scene: "limit", a: "standard", b: "none"},
	{scene: "limit", a: "standard", b: "adaptive=scaled", flags: "--timeout 5s", brief: true},
	{scene: "limit", a: "legacy", b: "standard"},
	{scene: "limit and 500", a: "none", b: "revision2026"},
	{scene: "limit, Retry-After", a: "standard", b: "standard+share_retry_after"},
	{scene: "slow at random", a: "standard", b: "none"},
	{scene: "slow at random", a: "none", b: "standard"},
	{scene: "queue", a: "standard", b: "none"},
	{scene: "queue", a: "none", b: "standard", flags: "--set service.capacity=60 --set service.queue=30"},
	{scene: "16 callers, limit", a: "adaptive", b: "standard", brief: true},
	{scene: "16 callers, limit", a: "standard", b: "adaptive", brief: true},
	{scene: "16 callers, limit", a: "adaptive", b: "standard", flags: "--callers 16"},
	{scene: "20 callers, Retry-After", a: "standard", b: "standard+share_retry_after", brief: true},
	{scene: "20 callers, outage", a: "standard", b: "standard+long_poll", brief: true},
	{scene: "20 callers, 429", a: "standard", b: "adaptive=scaled"},
	{scene: "20 callers, 429 and 500", a: "standard", b: "none"},
	{scene: "20 callers, limit", a: "standard", b: "legacy"},
}

// A pair is two settings with the same service and calls. From a log of a, b is
// predicted.
type pair struct {
	scene, a, b string
	flags       string // of awsretry simulate --from
	brief       bool
	prediction  // of several logs, the middle one from right to wrong
}

// A prediction is what a log says, and what happened.
type prediction struct {
	saidA, saidB, isA, isB figures
	off                    string // why it is not to be trusted; "": the log is reproduced
	missed                 []string
}

// fault is 0 if the prediction is right, 1 if it is not to be trusted, and 2 if it
// is wrong.
func (p prediction) fault() int {
	switch {
	case p.off != "":
		return 1
	case len(p.missed) > 0:
		return 2
	}
	return 0
}

// TestPairs predicts from the log of one setting what another one does, and then
// uses that with the same service. A prediction must be right, or the verdict on
// its log be that it is not to be trusted, which may not be so often. What is not
// both right and trusted is recorded twice more.
func TestPairs(t *testing.T) {
	takesLong(t)
	var chosen []*pair
	for _, p := range pairs {
		if p.brief || os.Getenv("PAIRS") == "all" {
			chosen = append(chosen, &p)
		}
	}
	recorded, stalled, open := recordings{}, 0.0, chosen
	for _, times := range []int{1, 2} {
		stalled = max(stalled, recorded.add(t, open, times))
		for _, p := range open {
			p.predict(t, recorded)
		}
		open = slices.DeleteFunc(slices.Clone(open), func(p *pair) bool { return p.fault() == 0 })
	}
	var faults [3]int
	for _, p := range chosen {
		faults[p.fault()]++
	}
	var report strings.Builder
	fmt.Fprintf(&report, "%d right, %d not to be trusted, %d wrong; the machine stalled for %.1f %% of the time\n",
		faults[0], faults[1], faults[2], 100*stalled)
	table := tabwriter.NewWriter(&report, 0, 0, 1, ' ', 0)
	fmt.Fprintln(table, "service and calls\tsettings\tfailed: predicted\treal\tattempts\treal\tp50\treal\tp99\treal\tmissed\tverdict")
	for _, p := range chosen {
		fmt.Fprintf(table, "%s\t%s → %s %s\t%s → %s\t%s → %s\t%.0f\t%.0f\t%.0f ms\t%.0f ms\t%.0f ms\t%.0f ms\t%s\t%s\n",
			p.scene, p.a, p.b, p.flags, p.saidA.failures(), p.saidB.failures(), p.isA.failures(), p.isB.failures(),
			p.saidB.attempts, p.isB.attempts, p.saidB.p50, p.isB.p50, p.saidB.p99, p.isB.p99,
			strings.Join(p.missed, ", "), cmp.Or(p.off, "reproduces"))
	}
	table.Flush()
	switch {
	case faults[2] == 0 && 3*faults[1] <= len(chosen):
		t.Log(report.String())
	case stalled > 0.05: // the times are those of the machine
		t.Skip("the machine is too busy: ", report.String())
	default:
		t.Error(report.String())
	}
}

// predict does with each log of a what awsretry simulate --from does.
func (p *pair) predict(t *testing.T, recorded recordings) {
	b, err := scenario.ParseSetting(p.b)
	if err != nil {
		t.Fatal(err)
	}
	var known traffic.Known
	var sets []string
	flags := flag.NewFlagSet("awsretry simulate", flag.PanicOnError)
	flags.IntVar(&known.Callers, "callers", 0, "")
	flags.DurationVar(&known.Timeout, "timeout", 0, "")
	flags.Func("set", "", func(set string) error { sets = append(sets, set); return nil })
	_ = flags.Parse(strings.Fields(p.flags)) // it panics
	isA, isB := recorded.figures(p.scene, p.a), recorded.figures(p.scene, p.b)
	var all []prediction
	for _, r := range recorded[recordingOf{p.scene, p.a}] {
		all = append(all, prediction{isA: quantile(isA, 0.5), isB: quantile(isB, 0.5)})
		log, err := traffic.Read(t.Context(), bytes.NewReader(r.log.Bytes()), traffic.Options{Known: known})
		if err != nil {
			t.Fatal(err)
		}
		fitted, err := log.Fit(0)
		if err != nil {
			all[len(all)-1].off = err.Error()
			continue
		}
		for _, set := range sets {
			path, value, _ := strings.Cut(set, "=")
			if fitted.Scenario, err = scenario.Set(fitted.Scenario, path, value); err != nil {
				t.Fatal(err)
			}
		}
		fitted.Scenario.Settings = []scenario.Setting{fitted.Scenario.Settings[0], b}
		all[len(all)-1].simulate(t, fitted, isB)
	}
	slices.SortFunc(all, func(a, b prediction) int { return cmp.Compare(a.fault(), b.fault()) })
	p.prediction = all[len(all)/2]
}

// simulate simulates a scenario that has the two settings, with several seeds,
// and compares b with what happened.
func (p *prediction) simulate(t *testing.T, fitted *traffic.Fitted, isB []figures) {
	const seeds = 15
	var a, b []figures
	var off []string
	s := fitted.Scenario
	for s.Seed = 1; s.Seed <= seeds; s.Seed++ {
		result, err := simulate.Run(t.Context(), s, simulate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		a, b = append(a, simulated(result.Outcomes[0])), append(b, simulated(result.Outcomes[1]))
		if why := fitted.Off(result.Outcomes[0]); len(why) > 0 {
			off = append(off, strings.Join(why, ", "))
		}
	}
	if 2*len(off) > seeds {
		p.off = off[0]
	}
	p.saidA, p.saidB = quantile(a, 0.5), quantile(b, 0.5)
	p.compare(b, isB)
}

// simulated returns the figures of an outcome.
func simulated(o simulate.Outcome) figures {
	ms := func(s simulate.Span) float64 { return float64(s) / float64(time.Millisecond) }
	return figures{o.FailedShare, o.UnfinishedShare(), float64(o.Attempts), ms(o.P50), ms(o.P99)}
}

// compare notes which figures of b are predicted wrongly: those that are off by
// more than a goal allows, though chance does not make the ranges of the
// simulations and of what happened overlap. If many calls do not end, a warning
// says that the figures are not known.
func (p *prediction) compare(b, isB []figures) {
	change := p.isB.failed - p.isA.failed
	if math.Abs(change) > 0.03 && change*(p.saidB.failed-p.saidA.failed) <= 0 {
		p.missed = append(p.missed, "sign")
	}
	for _, goal := range []struct {
		name          string
		of            func(figures) float64
		points, share float64
	}{
		{"failed", func(f figures) float64 { return f.failed }, 0.03, 0},
		{"attempts", func(f figures) float64 { return f.attempts }, 0, 0.05},
		{"p50", func(f figures) float64 { return f.p50 }, 0, 0.25},
		{"p99", func(f figures) float64 { return f.p99 }, 0, 0.25},
	} {
		said, is := goal.of(p.saidB), goal.of(p.isB)
		apart := goal.of(quantile(b, 0)) > goal.of(quantile(isB, 1)) || goal.of(quantile(isB, 0)) > goal.of(quantile(b, 1))
		if apart && math.Abs(said-is) > goal.points+goal.share*is {
			p.missed = append(p.missed, goal.name)
		}
	}
	if len(p.missed) > 0 && p.saidB.unended > 0.1 {
		p.off = cmp.Or(p.off, "warning: calls had not ended")
	}
}
