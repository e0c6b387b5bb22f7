package traffic

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// A found limit is what a history shows.
type found struct {
	name   string
	quota  float64       // units
	cost   float64       // of a request, in units
	rate   float64       // requests per second
	window time.Duration // 0: units are refilled one by one
	is     string        // the limit in words
	as     string        // scenario.Throttle.Announces
	unseen []string
}

// fewLines is the least number of lines that show what a limit is.
const fewLines = 20

// announcedThrottle returns the throttle of the announced limit, or nil if there is
// none or it cannot be true. Of several limits it takes the tightest one.
func (f *fitting) announcedThrottle() *scenario.Throttle {
	n := &f.announced
	if n.odd > 0 {
		f.cannotSee("what %d lines announce: their limits cannot be read, or there are more than %d", n.odd, mostLimits)
	}
	if len(n.limits) == 0 {
		return nil
	}
	if why := f.doubt(); why != "" {
		f.cannotSee("whether the announced limits are true, so they are ignored: %s", why)
		return nil
	}
	var all []found
	byName := func(a, b limitKey) int { return cmp.Compare(a.name, b.name) }
	for _, key := range slices.SortedFunc(maps.Keys(n.limits), byName) {
		l, why := n.limits[key].find()
		l.name = key.name
		if why != "" {
			f.cannotSee("what the announced limit%s is, so it is ignored: %s", l.called(), why)
			continue
		}
		all = append(all, l)
	}
	if len(all) == 0 {
		return nil
	}
	run := time.Duration(f.out.Scenario.Duration)
	slices.SortStableFunc(all, func(a, b found) int { return cmp.Compare(a.admits(run), b.admits(run)) })
	l := all[0]
	for _, text := range l.unseen {
		f.cannotSee("%s", text)
	}
	if len(all) > 1 {
		var others []string
		for _, o := range all[1:] {
			others = append(others, fmt.Sprintf("%s%s", o.is, o.called()))
		}
		f.cannotSee("how the announced limits work together: a scenario has one, and the tightest is simulated%s, "+
			"without %s", l.called(), strings.Join(others, " and "))
	}
	text := "%d of %d attempts; in all of the log, %d of %d responses announce %s%s"
	if l.cost != 1 {
		text += fmt.Sprintf(", of which a request takes %s", figure(l.cost))
	}
	f.comment("service.throttle", text+". The log does not have the dialect: announces is one that says as much",
		f.sum.throttled, f.sum.sent, n.of, n.of+n.silent, l.is, l.called())
	return l.throttle()
}

// doubt returns why the announced limits do not count, or "".
func (f *fitting) doubt() string {
	n := &f.announced
	hosts := map[string]bool{}
	for key := range n.limits {
		hosts[key.host] = true
	}
	switch {
	case len(hosts) > 1:
		return fmt.Sprintf("%d hosts announce some; choose one, here from %s", len(hosts), f.hostList())
	case n.silent > n.of/9:
		return fmt.Sprintf("%d of %d responses announce none, so these may be of other routes", n.silent, n.of+n.silent)
	case n.unexplained > fewLines && n.unexplained > n.explained:
		return fmt.Sprintf("%d of %d throttled responses say that much is left, so something else throttles",
			n.unexplained, n.unexplained+n.explained)
	}
	return ""
}

// called returns the name of a limit after a space, or nothing.
func (l found) called() string {
	if l.name == "" {
		return ""
	}
	return fmt.Sprintf(" %q", l.name)
}

// admits returns how many requests a limit admits in a run.
func (l found) admits(run time.Duration) float64 {
	if l.window > 0 {
		return l.quota / l.cost * math.Ceil(run.Seconds()/l.window.Seconds())
	}
	return l.quota/l.cost + l.rate*run.Seconds()
}

func (l found) throttle() *scenario.Throttle {
	t := &scenario.Throttle{Announces: l.as}
	requests := max(math.Round(l.quota/l.cost), 1)
	if l.window == 0 {
		t.Rate, t.Burst = round(l.rate), requests
		return t
	}
	t.Window = scenario.Duration(l.window)
	t.Rate = requests / l.window.Seconds()
	if t.Rate*l.window.Seconds() < requests { // the rounding would cost a request
		t.Rate = math.Nextafter(t.Rate, math.Inf(1))
	}
	return t
}

// find returns the limit, or why it is unknown.
func (h *history) find() (l found, why string) {
	l.quota, l.cost = h.top, 1
	quota, lines := h.quota()
	if quota > 0 {
		l.quota = quota
	}
	switch {
	case h.lines < fewLines:
		return l, fmt.Sprintf("only %d lines have it", h.lines)
	case lines < 0.9*float64(h.lines):
		return l, fmt.Sprintf("its quota varies; it is %s in %s of %d lines", figure(quota), figure(lines), h.lines)
	case l.quota < 1:
		return l, "nothing was ever left of it"
	case 2*h.resets < h.lines:
		why = h.withoutReset(&l)
	case 2*h.refills > h.lines:
		why = h.bucket(&l)
	default:
		why = h.ending(&l)
	}
	const most = scenario.MaxRate / 2
	if rate := l.rate; why == "" && !(rate > 0 && rate <= most && l.quota/l.cost <= most) {
		why = fmt.Sprintf("no scenario can have %s requests per second", figure(rate))
	}
	return l, why
}

// quota returns the quota that most lines have, and the number of these lines.
func (h *history) quota() (quota, lines float64) {
	for q, n := range h.quotas {
		if n := float64(n); n > lines || n == lines && q < quota {
			quota, lines = q, n
		}
	}
	return quota, lines
}

// withoutReset finds the refill rate of a limit without resets: if each request
// takes one unit, the units that were refilled are the requests minus the drop in
// what remains.
func (h *history) withoutReset(l *found) string {
	back := float64(h.flowing.admitted) - h.flowing.drop
	if h.flowing.admitted < fewLines || h.flowing.seconds < 1 || back < 0.02*float64(h.flowing.admitted) {
		return "no reset is announced, and too few units came back to see how fast they do"
	}
	l.rate, l.as = back/h.flowing.seconds, scenario.Heroku
	l.is = fmt.Sprintf("%s that refill by %s a second", figure(l.quota), figure(l.rate))
	l.unseen = append(l.unseen, "what a request costs of the announced limit, and what others take: "+
		"its rate is what came back if a request costs one and nobody else takes any")
	return ""
}

// bucket finds the refill rate from the resets.
func (h *history) bucket(l *found) string {
	if h.xx == 0 || h.yy == 0 || h.brief() && h.least > l.quota*3/4 {
		return "too little of it was used to see how fast it comes back"
	}
	if square(h.xy) < 0.8*h.xx*h.yy {
		return "its reset does not follow from what is left"
	}
	rate := h.xy / h.xx
	l.is = fmt.Sprintf("%s that refill by %s a second", figure(l.quota), figure(rate))
	l.as = scenario.OpenAI
	why := l.costs(h.flowing, rate)
	l.rate = rate / l.cost
	return why
}

// costs finds how many units a request takes.
func (l *found) costs(u usage, rate float64) string {
	if u.admitted < fewLines {
		l.unseen = append(l.unseen, "what a request costs of the announced limit, because little of it was used: "+
			"one unit is simulated")
		return ""
	}
	cost := (u.drop + rate*u.seconds) / float64(u.admitted)
	switch {
	case cost < 0.5:
		return fmt.Sprintf("what remains falls by %s for a request, so requests do not count, or count elsewhere",
			figure(max(cost, 0)))
	case cost < 0.9 || cost > 1.1:
		l.cost = cost
		l.unseen = append(l.unseen, fmt.Sprintf("whether a request costs %s units of the announced limit or others take "+
			"a part of them: what that leaves to requests like these is simulated, with a cost of one", figure(cost)))
	}
	return ""
}

// ending finds the windows of a limit that does not announce a refill.
func (h *history) ending(l *found) string {
	w := &h.windows
	constant := h.longest > 0 && h.longest-h.shortest <= h.longest/50
	often := func(n int64) bool { return 20*n > h.resets }
	moves := w.moved > 2 && 4*w.moved > count64(w.between)
	inWindows := true // which end one after another
	switch {
	case h.longest == 0:
		return "its reset is always 0"
	case h.brief():
		if h.least > l.quota*3/4 {
			return "too little of it was used to see how fast it comes back"
		}
		l.window, inWindows = h.longest, false
	case constant && moves:
		l.window, inWindows = usual(h.longest), false
	case moves && square(h.xy) >= 0.9*h.xx*h.yy:
		why := h.bucket(l)
		l.as = scenario.GitHub
		return why
	case often(w.back):
		return fmt.Sprintf("its windows change to and fro in %d of %d lines, so these may be several limits",
			w.back, h.resets)
	case moves:
		l.window, inWindows = usual(h.longest), false
	case 20*w.lies > w.used.admitted:
		return fmt.Sprintf("%d requests were admitted after nothing was left", w.lies)
	case often(w.rises):
		return fmt.Sprintf("it rises within its windows in %d of %d lines, so these may be several limits",
			w.rises, h.resets)
	default:
		l.window = h.length(l)
	}
	if !inWindows {
		l.unseen = append(l.unseen, fmt.Sprintf("how the announced limit comes back within its %v: "+
			"it is simulated as if it did so at once, at their end", l.window))
	}
	l.as = scenario.GitHub
	l.is = fmt.Sprintf("%s in windows of %v", figure(l.quota), l.window)
	why := ""
	if inWindows {
		why = l.costs(w.used, 0)
	}
	l.rate = l.quota / l.cost / l.window.Seconds()
	return why
}

// length returns how long the windows are, from one end to the next. The longest
// reset shows it if the limit was seldom used.
func (h *history) length(l *found) time.Duration {
	const enough = 5
	n := count64(h.windows.between)
	if n == 0 {
		l.unseen = append(l.unseen, "how long the announced limit's windows are, because none began after the log did: "+
			"the shortest usual length is simulated")
		for _, w := range usualLengths {
			if w >= h.longest-2*time.Second {
				return w
			}
		}
		return usual(h.longest)
	}
	between := time.Duration(h.windows.between.ValueAtQuantile(25)) * time.Microsecond
	if n >= enough && between > h.longest*11/10 {
		between = h.longest
	}
	return usual(between)
}

// usualLengths are the usual lengths of windows.
var usualLengths = func() (all []time.Duration) {
	for _, u := range []time.Duration{time.Second, time.Minute} {
		for _, n := range []time.Duration{1, 2, 3, 5, 10, 15, 20, 30} {
			all = append(all, n*u)
		}
	}
	for _, n := range []time.Duration{1, 2, 3, 4, 6, 8, 12, 24} {
		all = append(all, n*time.Hour)
	}
	return all
}()

// usual returns the usual length near a measured one, or the measured one, rounded,
// if there is none.
func usual(d time.Duration) time.Duration {
	for _, w := range usualLengths {
		if (d - w).Abs() <= max(w/25, min(2*time.Second, w/10)) {
			return w
		}
	}
	return max(rounded(d), time.Millisecond)
}
