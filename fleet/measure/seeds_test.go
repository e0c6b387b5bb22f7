package measure_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
)

var (
	runs  = flag.Int("runs", 0, "how many runs of each setting TestSeeds makes in virtual time; 0: none")
	fixed = flag.Float64("fixed", 0, "in TestSeeds: the rate of the fleet in place of that of its law")
)

// A setting is a fleet on a service in virtual time.
type setting struct {
	name    string
	burst   float64 // of the service
	latency time.Duration
	join    func(ctx context.Context, m *measurement)
	steps   bool
}

// fixedRate is a store whose fleet has a fixed rate: no leader sets one.
type fixedRate struct{ fleet.Client }

func (f fixedRate) Eval(ctx context.Context, script string, keys, args []string) ([]string, error) {
	const seedRate, newRate = 3, 11
	args[seedRate], args[newRate] = fmt.Sprint(*fixed), "-1"
	return f.Client.Eval(ctx, script, keys, args)
}

// figures are of some seconds of a run.
type figures struct {
	goodput, throttled, fairness float64
	sliding, aligned             float64 // the most that was sent in a second, above the limit; see TestSeeds
	commands                     float64
}

func (m *measurement) figures(from, until time.Duration, who []int) figures {
	m.service.sleepUntil(from)
	commands := m.count()
	m.service.sleepUntil(until)
	perSecond := float64(m.count()-commands) / (until - from).Seconds()
	sent := m.service.between(from, until)
	by := make(map[int]float64)
	aligned := make(map[time.Duration]float64)
	accepted := 0.0
	mostAligned := 0.0
	for _, x := range sent {
		second := x.at / time.Second
		aligned[second]++
		mostAligned = max(mostAligned, aligned[second])
		if x.accepted {
			accepted++
			by[x.process]++
		}
	}
	var sum, squares float64
	for _, i := range who {
		sum += by[i]
		squares += by[i] * by[i]
	}
	rate := m.service.rate
	return figures{
		goodput:   accepted / (rate * (until - from).Seconds()),
		throttled: 1 - accepted/float64(max(len(sent), 1)),
		fairness:  sum * sum / (float64(max(len(who), 1)) * max(squares, 1e-9)),
		sliding:   m.most(sent, func(time.Duration) float64 { return rate }) - 1,
		aligned:   mostAligned/rate - 1,
		commands:  perSecond / float64(max(len(m.processes), 1)),
	}
}

func callersEach(n int) func(ctx context.Context, m *measurement) {
	return func(ctx context.Context, m *measurement) { m.join(ctx, 20, demand{callers: n}) }
}

func poissonEach(rate float64) func(ctx context.Context, m *measurement) {
	return func(ctx context.Context, m *measurement) { m.join(ctx, 20, demand{rate: rate}) }
}

func unequal(ctx context.Context, m *measurement) {
	m.join(ctx, 5, demand{callers: 4})
	m.join(ctx, 15, demand{rate: 2})
}

var settings = []setting{
	{name: "equal", burst: 20, join: callersEach(4)},
	{name: "equal 20 ms", burst: 20, latency: 20 * time.Millisecond, join: callersEach(4)},
	{name: "equal, burst 1", burst: 1, join: callersEach(4)},
	{name: "equal, burst 10", burst: 10, join: callersEach(4)},
	{name: "equal, burst 100", burst: 100, join: callersEach(4)},
	{name: "Poisson 90/s", burst: 20, join: poissonEach(4.5)},
	{name: "Poisson 120/s", burst: 20, join: poissonEach(6)},
	{name: "unequal", burst: 20, join: unequal},
	{name: "unequal 20 ms", burst: 20, latency: 20 * time.Millisecond, join: unequal},
	{name: "steps", burst: 20, join: callersEach(4), steps: true},
}

// TestSeeds prints the least, the median and the most of several runs. The most
// that was sent in a second is of two kinds: of any time of a second, wherever
// it begins (sliding), and of the seconds of the clock (aligned).
func TestSeeds(t *testing.T) {
	if *runs == 0 {
		t.Skip("measures fleets with -runs")
	}
	*virtual = true
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nsetting\tpacing\tgoodput\tthrottled\tsliding\taligned\tfairness\tcommands")
	for _, s := range settings {
		for _, pacing := range []awsretry.Pacing{awsretry.CubicPacing, awsretry.ScaledPacing} {
			t.Run(s.name+"/"+pacing.String(), func(t *testing.T) {
				phases := make(map[string][]figures)
				var names []string
				for range *runs {
					synctest.Test(t, func(t *testing.T) {
						add := func(name string, f figures) {
							if _, ok := phases[name]; !ok {
								names = append(names, name)
							}
							phases[name] = append(phases[name], f)
						}
						s.run(t, pacing, add)
					})
				}
				for _, name := range names {
					all := phases[name]
					span := func(format string, by float64, of func(figures) float64) string {
						var x []float64
						for _, f := range all {
							x = append(x, by*of(f))
						}
						slices.Sort(x)
						return fmt.Sprintf(format+" ("+format+") "+format, x[0], x[len(x)/2], x[len(x)-1])
					}
					fmt.Fprintf(table, "%s %s\t%v\t%s\t%s\t%s\t%s\t%s\t%s\n", s.name, name, pacing,
						span("%.3f", 1, func(f figures) float64 { return f.goodput }),
						span("%.1f", 100, func(f figures) float64 { return f.throttled }),
						span("%.0f", 100, func(f figures) float64 { return f.sliding }),
						span("%.0f", 100, func(f figures) float64 { return f.aligned }),
						span("%.2f", 1, func(f figures) float64 { return f.fairness }),
						span("%.1f", 1, func(f figures) float64 { return f.commands }))
				}
			})
		}
	}
	table.Flush()
	t.Log(text.String())
}

func (s setting) run(t *testing.T, pacing awsretry.Pacing, add func(string, figures)) {
	m := newMeasurement(t, pacing)
	m.service = newService(100, s.burst)
	store := &fleettest.Store{Latency: max(s.latency, time.Millisecond)}
	m.count = store.Evals
	m.client = func() fleet.Client {
		if *fixed > 0 {
			return fixedRate{store}
		}
		return store
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.join(ctx, m)
	if s.steps {
		m.service.sleepUntil(10 * time.Second)
		m.service.setRate(20)
		add("100-20, 5 s", m.figures(10*time.Second, 15*time.Second, numbers(0, 20)))
		add("after", m.figures(15*time.Second, 25*time.Second, numbers(0, 20)))
		m.service.setRate(200)
		add("20-200, 10 s", m.figures(25*time.Second, 35*time.Second, numbers(0, 20)))
		add("after", m.figures(35*time.Second, 49*time.Second, numbers(0, 20)))
	} else {
		add("start", m.figures(0, 5*time.Second, numbers(0, 20)))
		add("steady", m.figures(10*time.Second, 39*time.Second, numbers(0, 20)))
		if !strings.Contains(s.name, "nequal") && s.burst == 20 {
			m.join(ctx, 5, demand{callers: 4})
			add("5 join, 1 s", m.figures(39*time.Second, 40*time.Second, numbers(20, 25)))
			add("5 join, after", m.figures(40*time.Second, 50*time.Second, numbers(0, 25)))
		}
	}
	cancel()
	for _, p := range m.processes {
		p.leave()
	}
}
