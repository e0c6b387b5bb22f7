package traffic

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"example.com/awsretry/simulate/scenario"
)

// Fitted is a scenario that reproduces what a log shows.
type Fitted struct {
	// Scenario has the present setting first, followed by the usual ones.
	Scenario scenario.Scenario

	// Comments explain how each value was fitted, by the path in the scenario's
	// file, such as clients.rate.
	Comments map[string]string

	Unseen   []string // what the log does not show, one sentence each
	Recorded Recorded

	lines Lines
}

// Recorded has the figures of the part of the log that was fitted.
type Recorded struct {
	From, To        time.Time
	Calls, Attempts int64
	Good, Failed    int64   // calls that ended
	Throttled       int64   // attempts
	Goodput         float64 // successful calls per second
	P50, P99        time.Duration
	Whole           time.Duration // of the log

	around50, around99 [2]time.Duration // bounds between which chance moves P50 and P99
}

// DefaultWindow is how much of a log is fitted: long enough for most incidents, and
// short enough to be simulated in seconds.
const DefaultWindow = 10 * time.Minute

var errNoSuccess = errors.New("traffic: the log has no attempt that succeeded; retrylog with All logs those, " +
	"at the level slog.LevelDebug: set it in the slog.HandlerOptions of the handler")

// Fit makes a scenario from the part of the log of that length that has the most
// failures, or from all of a shorter log. 0 means DefaultWindow.
func (l *Log) Fit(length time.Duration) (*Fitted, error) {
	if l.successes == 0 {
		return nil, errNoSuccess
	}
	f := &fitting{Log: l, window: l.window(cmp.Or(length, DefaultWindow))}
	from, to := l.counts.within(f.window)
	f.bins = l.counts.list[from:to]
	for _, c := range f.bins {
		f.sum.add(c)
	}
	if f.sum.sent == 0 || f.sum.started == 0 {
		return nil, errors.New("traffic: no call begins in the part of the log that is fitted")
	}
	f.fit()
	if err := f.out.Scenario.Validate(); err != nil {
		return nil, fmt.Errorf("traffic: what the log shows cannot be simulated: %w", err)
	}
	return &f.out, nil
}

// A fitting is the work on one window of a log.
type fitting struct {
	*Log
	window window
	bins   []count
	sum    count // of the bins
	every  time.Duration
	steps  []count
	served *hdrhistogram.Histogram // attempts that the service worked on
	factor []float64               // of the latency in each step; nil: it does not change

	arriving bool // calls arrive independently: their callers do not wait for each other
	out      Fitted
}

func (f *fitting) fit() {
	f.out.Comments, f.out.lines = map[string]string{}, f.Lines
	s := &f.out.Scenario
	s.Name, s.Seed = "traffic", 1
	s.About = fmt.Sprintf("Fitted to %d attempts of a log.", f.sum.sent)
	seconds := max(math.Round(f.window.length().Seconds()), 1)
	s.Duration = scenario.Duration(seconds * float64(time.Second))
	f.every = stepFor(seconds, f.sum.started)
	f.steps = f.Log.steps(f.window, f.every)
	if most := int(math.Ceil(seconds / f.every.Seconds())); len(f.steps) > most { // a fraction of a second
		f.steps[most-1].add(f.steps[most])
		f.steps = f.steps[:most]
	}
	s.OverTime = &scenario.OverTime{Every: scenario.Duration(f.every)}
	f.comment("over_time", "the steps in which the log was counted")
	f.record()
	f.latency(s)
	f.clients(s)
	f.throttle(s)
	f.errors(s)
	if o := s.OverTime; len(o.Rate)+len(o.Throttled)+len(o.Errors)+len(o.Latency) == 0 {
		s.OverTime = nil
		delete(f.out.Comments, "over_time")
	}
	f.settings(s)
	f.unseen()
}

func (f *fitting) comment(path, format string, args ...any) {
	f.out.Comments[path] = fmt.Sprintf(format, args...)
}

// stepFor returns how long the steps are: about a hundred in the run, with
// twenty calls each.
func stepFor(seconds float64, calls int64) time.Duration {
	const steps, enough = 100, 20
	least := max(seconds/steps, enough*seconds/float64(calls))
	for _, nice := range []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600} {
		if nice >= least {
			return time.Duration(nice) * time.Second
		}
	}
	return 2 * time.Hour
}

// clients fits the clients.
func (f *fitting) clients(s *scenario.Scenario) {
	c := &s.Clients
	c.Count = 1
	f.comment("clients.count", "the log is taken for that of one process, whose calls share their token buckets")
	calls, length := float64(f.sum.started), f.window.length()
	flight := f.inFlight(f.window)
	switch callers := f.known.Callers; {
	case callers > 0:
		c.Callers, c.Think = callers, duration(flight.think(callers, calls, length))
		f.comment("clients.callers", "as given")
	case flight.closed(f.bins):
		c.Callers = flight.callers()
		c.Think = duration(flight.think(c.Callers, calls, length))
		f.comment("clients.callers", "%v: the fewer calls begin the more are under way, so these are callers that "+
			"wait for each call. If they do not: rate: %s", flight, figure(calls/length.Seconds()))
	default:
		c.Rate = round(calls / length.Seconds())
		f.comment("clients.rate", "%d calls in %v; %s", f.sum.started, rounded(length), flight)
		if rates := f.vary(func(c count) int64 { return c.started }, true); rates != nil {
			s.OverTime.Rate = rates
			f.comment("over_time.rate", "calls per second")
		}
		c.MaxInFlight = f.unlimited(flight, c.Rate)
		f.comment("clients.max_in_flight", "the log does not show a limit; this one is meant not to be reached")
		f.arriving = true
	}
	if f.timeouts != nil {
		c.AttemptTimeout = duration(time.Duration(f.timeouts.ValueAtQuantile(50)) * time.Microsecond)
		c.AttemptTimeout = max(c.AttemptTimeout, scenario.Duration(time.Millisecond))
		f.comment("clients.attempt_timeout", "the median of %d attempts that timed out", f.timeouts.TotalCount())
	}
	f.timeout(c)
}

// timeout guesses how long callers wait for a call. A few calls whose context ended
// show nothing: the program may have been stopped.
func (f *fitting) timeout(c *scenario.Clients) {
	if f.known.Timeout > 0 {
		c.Timeout = scenario.Duration(f.known.Timeout)
		f.comment("clients.timeout", "as given")
		return
	}
	n := count64(f.deadlines)
	if n == 0 {
		return
	}
	longest := time.Duration(f.deadlines.ValueAtQuantile(99)) * time.Microsecond
	if n < fewDelays || n < f.sum.started/1000 || longest < f.out.Recorded.P99 {
		f.cannotSee("why the context of %d calls ended: no timeout of calls is simulated", n)
		return
	}
	c.Timeout = max(duration(longest), scenario.Duration(time.Millisecond))
	f.comment("clients.timeout", "a guess: the longest of %d calls that their context ended", n)
}

// unlimited returns a limit of calls under way that is high enough for a minute of
// calls, as settings that delay first attempts need. It is higher than what the log
// has, but otherwise low enough to keep the simulator's resolution, which coarsens
// with the number of calls, within a hundredth of the usual latency.
func (f *fitting) unlimited(flight load, rate float64) int {
	const most = 50_000
	precise := f.served.ValueAtQuantile(50) * int64(time.Microsecond) / 100 / 2
	return int(max(min(10*flight.most+60*rate, float64(precise), most), 2*flight.most, 100))
}

// lengthOf returns the length of a step. The last one may be shorter.
func (f *fitting) lengthOf(step int) time.Duration {
	return min(f.every, max(f.window.length()-time.Duration(step)*f.every, f.every/20))
}

// unlikely reports whether a sum of squares, each with an expected value of 1, is
// larger than chance explains.
func unlikely(surprise float64, degrees int) bool {
	return degrees > 0 && surprise > float64(degrees)+4*math.Sqrt(2*float64(degrees))
}

// throttle fits the throttling of the service.
func (f *fitting) throttle(s *scenario.Scenario) {
	t := f.announcedThrottle()
	s.Service.Throttle = t
	if f.sum.throttled == 0 {
		return
	}
	if t == nil {
		t = f.seenThrottle(s)
		s.Service.Throttle = t
	}
	t.Code = codeOf(common(f.codes))
	// Without Retry-After, the first delay is below a second most of the time.
	if count64(f.delays) >= fewDelays {
		if least := time.Duration(f.delays.ValueAtQuantile(5)) * time.Microsecond; least >= 995*time.Millisecond {
			t.RetryAfter = scenario.Duration((least + 5*time.Millisecond).Truncate(time.Second))
			f.comment("service.throttle.retry_after", "the shortest delays after throttling; the log does not have the header")
		}
	}
}

// fewDelays is the least number of delays that show anything.
const fewDelays = 10

// seenThrottle fits the throttle that explains when attempts were throttled.
func (f *fitting) seenThrottle(s *scenario.Scenario) *scenario.Throttle {
	t := new(scenario.Throttle)
	fit := fitThrottling(f.bins, f.counts.width)
	if fit.rate > 0 {
		t.Rate, t.Burst = round(fit.rate), max(round(fit.burst), 1)
		f.comment("service.throttle", "%d of %d attempts; a token bucket explains when, %s times better than chance",
			f.sum.throttled, f.sum.sent, figure(min(fit.better, 1000)))
		return t
	}
	t.Share = min(round(fit.share), 0.999)
	f.comment("service.throttle",
		"%d of %d attempts; chance explains when about as well as the best token bucket does, or better",
		f.sum.throttled, f.sum.sent)
	if shares := f.vary(func(c count) int64 { return c.throttled }, false); shares != nil {
		s.OverTime.Throttled = shares
		f.comment("over_time.throttled", "the share of the attempts")
	}
	return t
}

// codeOf returns the code in a form that a scenario can have.
func codeOf(code string) string {
	word := func(r rune) bool { return r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' }
	if strings.ContainsFunc(code, func(r rune) bool { return !word(r) }) {
		return ""
	}
	return code
}

// vary returns for each step the rate of what part counts, or its share of the
// attempts, or nil if it does not vary more than by chance.
func (f *fitting) vary(part func(count) int64, rate bool) []float64 {
	all := make([]float64, len(f.steps))
	of, sum := func(i int) float64 { return float64(f.steps[i].sent) }, float64(f.sum.sent)
	if rate {
		of, sum = func(i int) float64 { return f.lengthOf(i).Seconds() }, f.window.length().Seconds()
	}
	mean := float64(part(f.sum)) / sum
	chance := mean // the variance of one, as in a Poisson process
	if !rate {
		chance = mean * (1 - mean)
	}
	surprise, degrees := 0.0, -1
	for i, c := range f.steps {
		if n := of(i); n > 0 {
			all[i] = round(float64(part(c)) / n)
			degrees++
			surprise += square(float64(part(c))-mean*n) / max(chance*n, 1e-9)
		}
	}
	if !unlikely(surprise, degrees) {
		return nil
	}
	return all
}

// errors fits the failures that are neither throttling nor timeouts. The service
// fails requests after its latency, and after it has refused those that it
// throttles.
func (f *fitting) errors(s *scenario.Scenario) {
	if f.sum.errored == 0 {
		return
	}
	var kinds []string
	for _, cause := range slices.Sorted(maps.Keys(f.causes)) {
		kinds = append(kinds, fmt.Sprintf("%d with %s", f.causes[cause], cause))
	}
	after := "after the service's latency"
	if f.failsAtOnce() {
		s.Service.ErrorsAtOnce = true
		after = "at once"
		f.comment("service.errors_at_once", "most failures took less time than nine of ten other attempts")
	}
	text := fmt.Sprintf("%d of %d attempts, in all of the log %s; the simulation's are 500 %s",
		f.sum.errored, f.sum.sent, strings.Join(kinds, ", "), after)
	accepted := func(sum, throttled int64) float64 { return float64(sum) / float64(max(sum-throttled, 1)) }
	if shares := f.vary(func(c count) int64 { return c.errored }, false); shares != nil {
		for i, c := range f.steps {
			shares[i] = min(round(shares[i]*accepted(c.sent, c.throttled)), 1)
		}
		s.OverTime.Errors = shares
		f.comment("over_time.errors", "%s", text)
		return
	}
	all := float64(f.sum.errored) / float64(f.sum.sent) * accepted(f.sum.sent, f.sum.throttled)
	s.Events = []scenario.Event{{Kind: scenario.Errors, Share: min(max(round(all), 1e-6), 1)}}
	f.comment("events[0]", "%s", text)
}

// settings puts the present setting before the usual ones.
func (f *fitting) settings(s *scenario.Scenario) {
	present, why := f.present()
	s.Settings = []scenario.Setting{present}
	f.comment("settings[0]", "%s", why)
	others := append(scenario.DefaultSettings(), scenario.Setting{Use: scenario.UseAdaptive, Pacing: "scaled"})
	if t := s.Service.Throttle; t != nil && t.Announces != "" {
		others = append(others, scenario.Setting{Use: scenario.UseAdaptive, Pacing: "scaled", Limits: true})
	}
	for _, usual := range others {
		same := usual
		same.Name, same.MaxAttempts = present.Name, present.MaxAttempts
		if present.MaxAttempts != 0 || fmt.Sprint(same) != fmt.Sprint(present) {
			s.Settings = append(s.Settings, usual)
		}
	}
}

// record keeps the figures of the log, for the comparison with the simulation.
func (f *fitting) record() {
	r := &f.out.Recorded
	*r = Recorded{
		From: f.window.from, To: f.window.to, Calls: f.sum.started, Attempts: f.sum.sent,
		Good: f.sum.good + f.sum.permanent, Failed: f.sum.bad - f.sum.permanent, Throttled: f.sum.throttled,
		Whole: f.last.Sub(f.begin),
	}
	r.Failed = max(r.Failed, 0)
	r.Goodput = float64(r.Good) / f.window.length().Seconds()
	var calls *hdrhistogram.Histogram
	from, to := f.spans.within(f.window)
	for _, t := range f.spans.list[from:to] {
		add(&calls, t.calls)
	}
	if calls != nil {
		r.P50, r.around50 = quantile(calls, 0.5)
		r.P99, r.around99 = quantile(calls, 0.99)
	}
}

// quantile returns a quantile, and its 95 % confidence interval if the times are a
// random sample.
func quantile(h *hdrhistogram.Histogram, q float64) (at time.Duration, around [2]time.Duration) {
	value := func(q float64) time.Duration {
		return time.Duration(h.ValueAtQuantile(100*min(max(q, 0), 1))) * time.Microsecond
	}
	chance := 2 * math.Sqrt(q*(1-q)/float64(h.TotalCount()))
	return value(q), [2]time.Duration{value(q - chance), value(q + chance)}
}

func count64(h *hdrhistogram.Histogram) int64 {
	if h == nil {
		return 0
	}
	return h.TotalCount()
}
