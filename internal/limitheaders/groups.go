package limitheaders

import (
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
	l := Limit{Name: r.nameOf(g)}
	window, at := time.Duration(0), 0
	switch left, all := g.values[remaining], g.values[quota]; {
	case namesLimits(left):
		return appendNamed(limits, left)
	case left != "":
		if l.Remaining, window, at = least(left, all); at < 0 {
			return limits
		}
	case strings.Contains(all, "/") && (g.dialect != unmarked || strings.Contains(g.kind, "call")):
		return add(limits, usedOf(l.Name, all))
	case strings.Contains(g.values[usage], ","):
		return g.appendUsed(limits, l.Name, r.now())
	default:
		used, ok := number(g.values[usage])
		all, ok2 := number(all)
		if !ok || !ok2 {
			return limits
		}
		l.Remaining = max(all-used, 0)
	}
	l.Quota = quotaOf(g.values[quota], at, l.Remaining)
	kindWindow, isWindow := windowOf(g.kind)
	var ok bool
	if l.Reset, l.Refills, ok = r.resetOf(g, at); ok {
		return add(limits, l)
	}
	switch length, ok := number(g.values[windowMilliseconds]); {
	case isWindow:
		l.Reset = untilNext(kindWindow, r.now())
	case g.dialect == unmarked: // not certainly a limit
		return limits
	case window > 0:
		l.Reset = window
	case ok:
		l.Reset = inSeconds(length / 1000)
	default:
		l.Reset, l.Refills = r.sharedReset(g)
	}
	return add(limits, l)
}

// resetOf returns the reset in a group. The headers of a group may have several
// values.
func (r *reader) resetOf(g *group, at int) (after time.Duration, refills, ok bool) {
	if s, ok := nth(g.values[resetAfter], at); ok {
		return inSeconds(s), false, true
	}
	if ms, ok := nth(g.values[resetMilliseconds], at); ok {
		return inSeconds(ms / 1000), false, true
	}
	if text := nthText(g.values[reset], at); text != "" {
		after, refills = moment(text, r.now)
		return after, refills || g.dialect == anthropic, true
	}
	return -1, false, false
}

// nameOf returns the name of the limit in a group.
func (r *reader) nameOf(g *group) string {
	for i := r.above(g, r.n); i >= 0; i = r.above(g, i) {
		if named := r.groups[i].values[name]; named != "" {
			return join(named, g.kind)
		}
	}
	return g.kind
}

// sharedReset returns the reset that a limit shares with others, or a negative one.
func (r *reader) sharedReset(g *group) (after time.Duration, refills bool) {
	for i := r.above(g, r.n); i >= 0; i = r.above(g, i) {
		if h := &r.groups[i]; h.values[remaining] == "" && h.values[usage] == "" {
			if after, refills, ok := r.resetOf(h, 0); ok {
				return after, refills
			}
		}
	}
	return -1, false
}

// above returns the index of the last group before next whose kind is that of g or
// the beginning of it, or -1.
func (r *reader) above(g *group, next int) int {
	for next--; next >= 0; next-- {
		h := &r.groups[next]
		rest, begins := strings.CutPrefix(g.kind, h.kind)
		if h.dialect == g.dialect && begins && (h.kind == "" || rest == "" || rest[0] == '-') {
			break
		}
	}
	return next
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
