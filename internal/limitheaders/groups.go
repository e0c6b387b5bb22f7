package limitheaders

import (
	"slices"
	"strings"
	"time"
)

// A group has the headers of one limit.
type group struct {
	dialect dialect
	kind    string // lower case; "" if the headers have none
	values  [fields]string
}

// group returns the group of a dialect and kind, and adds it if necessary. If there
// are too many groups, those that sort first are kept, and group may return nil.
func (r *reader) group(d dialect, kind string) *group {
	i := 0
	for i < r.n && (r.groups[i].dialect < d || r.groups[i].dialect == d && r.groups[i].kind < kind) {
		i++
	}
	if i == len(r.groups) {
		return nil
	}
	g := &r.groups[i]
	if i == r.n || g.dialect != d || g.kind != kind {
		r.n = min(r.n+1, len(r.groups))
		copy(r.groups[i+1:r.n], r.groups[i:])
		*g = group{dialect: d, kind: kind}
	}
	return g
}

// append appends the limits in a group.
func (r *reader) append(limits []Limit, g *group) []Limit {
	l := Limit{Name: join(r.whole[name], g.kind), Reset: -1}
	window, at := time.Duration(0), 0
	switch {
	case g.dialect == vendor && g.kind == "resource":
		return appendNamed(limits, g.values[remaining])
	case g.values[remaining] != "":
		if l.Remaining, window, at = least(g.values[remaining], g.values[quota]); at < 0 {
			return limits
		}
	case strings.Contains(g.values[usage], ","):
		return g.appendUsed(limits, l.Name, r.now())
	default:
		used, ok := number(g.values[usage])
		all, ok2 := number(g.values[quota])
		if !ok || !ok2 {
			return limits
		}
		l.Remaining = max(all-used, 0)
	}
	l.Quota, _ = nth(g.values[quota], at)
	kindWindow, isWindow := windowOf(g.kind)
	text := nthText(g.values[reset], at)
	switch after, ok := nth(g.values[resetAfter], at); {
	case ok:
		l.Reset = inSeconds(after)
	case text != "":
		l.Reset, l.Refills = moment(text, r.now)
		l.Refills = l.Refills || g.dialect == anthropic
	case isWindow:
		l.Reset = untilNext(kindWindow, r.now())
	case window > 0:
		l.Reset = window
	case g.values[length] != "":
		ms, _ := nth(g.values[length], 0)
		l.Reset = inSeconds(ms / 1000)
	case r.shared(g.dialect) != "":
		l.Reset, l.Refills = moment(r.shared(g.dialect), r.now)
	}
	return add(limits, l)
}

// shared returns the reset that the limits of a dialect share, or "".
func (r *reader) shared(d dialect) string {
	i := slices.IndexFunc(r.groups[:r.n], func(g group) bool { return g.dialect == d })
	if g := &r.groups[i]; g.kind == "" && g.values[remaining] == "" && g.values[usage] == "" {
		return g.values[reset]
	}
	return ""
}

// windowOf returns the window that the last word of a kind denotes.
func windowOf(kind string) (window time.Duration, ok bool) {
	switch kind[strings.LastIndexByte(kind, '-')+1:] {
	case "second", "secondly":
		return time.Second, true
	case "minute":
		return time.Minute, true
	case "hour":
		return time.Hour, true
	case "day", "daily":
		return 24 * time.Hour, true
	}
	return 0, false
}

// untilNext returns the time until the next window begins. Windows are aligned to
// UTC.
func untilNext(window time.Duration, now time.Time) time.Duration {
	return now.Truncate(window).Add(window).Sub(now)
}

// join joins two names with a slash. Either may be empty.
func join(a, b string) string {
	switch "" {
	case a:
		return b
	case b:
		return a
	}
	return a + "/" + b
}
