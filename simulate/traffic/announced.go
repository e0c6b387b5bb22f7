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
	window time.Duration // 0: units come back one by one
	is     string        // in words
	as     string        // scenario.Throttle.Announces
	unseen []string
}

// fewLines are too few to tell what a limit is.
const fewLines = 20

// announcedThrottle returns the throttle of the limit that is announced, or nil
// if none is or if it cannot be true. Of several it takes the tightest one.
func (f *fitting) announcedThrottle() *scenario.Throttle {
	n := &f.announced
	if n.odd > 0 {
		f.cannotSee("what %d lines announce: their limits cannot be read, or there are more than %d", n.odd, mostLimits)
	}
	if len(n.limits) == 0 {
		return nil
	}
	if why := n.doubt(); why != "" {
		f.cannotSee("whether the announced limits are true, so they are ignored: %s", why)
		return nil
	}
	var all []found
	for _, name := range slices.Sorted(maps.Keys(n.limits)) {
		l, why := n.limits[name].find()
		l.name = name
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

// doubt returns why what is announced does not count.
func (n *announced) doubt() string {
	switch {
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

// find finds what the limit is, or why that is not known.
func (h *history) find() (l found, why string) {
	l.quota, l.cost = cmp.Or(h.quota, h.top), 1
	moves := h.last.end.Sub(h.first.end).Abs() > 2*h.tolerance(h.last)
	switch {
	case h.lines < fewLines:
		return l, fmt.Sprintf("only %d lines have it", h.lines)
	case l.quota < 1:
		return l, "nothing was ever left of it"
	case 2*h.resets < h.lines:
		why = h.withoutReset(&l)
	case 2*h.refills > h.lines:
		l.as, why = scenario.OpenAI, h.bucket(&l)
	case moves && square(h.xy) >= 0.9*h.xx*h.yy:
		l.as, why = scenario.GitHub, h.bucket(&l)
	case h.longest == 0:
		return l, "its reset is always 0"
	case 20*h.lies > h.used.admitted && (h.fraction || h.longest > 5*time.Second):
		// Whole seconds do not tell shorter windows apart.
		return l, fmt.Sprintf("%d requests were admitted after nothing was left", h.lies)
	default:
		why = h.ending(&l)
	}
	const most = scenario.MaxRate / 2
	if rate := l.rate; why == "" && !(rate > 0 && rate <= most && l.quota/l.cost <= most) {
		why = fmt.Sprintf("no scenario can have %s requests per second", figure(rate))
	}
	return l, why
}

// withoutReset finds how fast units come back from how much falls less than
// requests take, if each takes one.
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

// bucket finds how fast units come back from the resets.
func (h *history) bucket(l *found) string {
	if h.xx == 0 || h.yy == 0 {
		return "too little of it was used to see how fast it comes back"
	}
	if square(h.xy) < 0.8*h.xx*h.yy {
		return "its reset does not follow from what is left"
	}
	rate := h.xy / h.xx
	l.is = fmt.Sprintf("%s that refill by %s a second", figure(l.quota), figure(rate))
	why := l.costs(h.flowing, rate)
	l.rate = rate / l.cost
	return why
}

// costs finds what a request takes.
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

// ending finds the windows of a limit that does not say that it refills. They are
// as long as the longest reset, which is less if none began after the log did.
func (h *history) ending(l *found) string {
	l.window = max(rounded(h.longest), time.Millisecond)
	if h.windows == 0 {
		l.unseen = append(l.unseen, "how long the announced limit's windows are, because none began after the log did: "+
			"the shortest usual length is simulated")
	}
	for _, usual := range usualLengths {
		if (h.longest-usual).Abs() <= max(usual/25, min(2*time.Second, usual/10)) || h.windows == 0 && usual >= h.longest {
			l.window = usual
			break
		}
	}
	l.as = scenario.GitHub
	l.is = fmt.Sprintf("%s in windows of %v", figure(l.quota), l.window)
	why := l.costs(h.used, 0)
	l.rate = l.quota / l.cost / l.window.Seconds()
	return why
}

// usualLengths are those that windows have.
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
