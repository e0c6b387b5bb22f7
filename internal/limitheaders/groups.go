package limitheaders

import (
	"cmp"
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

// covers reports whether what the headers of g announce may apply to h: its kind is
// that of g, or begins with it.
func (g *group) covers(h *group) bool {
	rest, begins := strings.CutPrefix(h.kind, g.kind)
	return g.dialect == h.dialect && begins && (g.kind == "" || rest == "" || rest[0] == '-')
}

// append appends the limits in a group, one for each element of what remains or, if
// that is not announced, of what is used. Of those with one name, add keeps the
// strictest.
func (r *reader) append(limits []Limit, g *group) []Limit {
	left, used, quotas := g.values[remaining], g.values[usage], g.values[quota]
	before, after, isFraction := strings.Cut(quotas, "/") // 32/40, as Shopify sends it
	if isFraction = isFraction && left == ""; isFraction {
		used, quotas = before, after
	}
	isMarked := g.dialect != unmarked || isFraction && strings.Contains(g.kind, "call")
	inWindows := left == "" && strings.Contains(used, ",")
	named, window := r.nameOf(g), time.Duration(0)
	for i, rest := 0, cmp.Or(left, used); rest != "" && i < mostElements; i++ {
		var e element
		e, rest = nextElement(rest)
		l := Limit{Name: cmp.Or(e.name, named), Remaining: e.number}
		all, known := nth(quotas, i)
		switch {
		case e.number < 0, e.number == 0 && known && all == 0: // no limit, as Brave documents
			continue
		case left != "":
		case !known, e.name != "", inWindows && i >= len(ofUsage):
			continue
		case isFraction:
			l.Remaining = all - e.number
		default: // more than the quota may be used
			l.Remaining = max(all-e.number, 0)
		}
		if inWindows {
			l.Name, window = join(named, ofUsage[i].kind), ofUsage[i].window
		}
		if l.Quota = all; all < l.Remaining { // it is that of another window
			l.Quota = quotaOf(quotas, l.Remaining)
		}
		ok := false
		if l.Reset, l.Refills, ok = r.resetOf(g, i, window, e.window); ok || isMarked { // otherwise it is not certainly a limit
			limits = add(limits, l)
		}
	}
	return limits
}

// ofUsage has the kinds and the windows of a list of what is used, as Strava sends it.
var ofUsage = []struct {
	kind   string
	window time.Duration
}{{"quarter-hour", 15 * time.Minute}, {"day", 24 * time.Hour}}

// resetOf returns the reset of the limit at an index of a group: what is announced, the
// end of a calendar's window or, for headers that are marked as those of a limit, the
// length of a window or the reset that several limits share.
func (r *reader) resetOf(g *group, at int, calendar, length time.Duration) (after time.Duration, refills, ok bool) {
	if after, refills, ok = r.announced(g, at); ok {
		return after, refills, true
	}
	if calendar = cmp.Or(calendar, windowOf(g.kind)); calendar > 0 {
		now := r.now() // windows are aligned to UTC
		return now.Truncate(calendar).Add(calendar).Sub(now), false, true
	}
	if g.dialect == unmarked {
		return -1, false, false
	}
	if ms, ok := nth(g.values[windowMilliseconds], at); ok && length == 0 {
		length = inSeconds(ms / 1000)
	}
	if length > 0 {
		return length, false, true
	}
	for i := range r.n { // the longest kind is the last
		h := &r.groups[i]
		if h.covers(g) && h.values[remaining] == "" && h.values[usage] == "" {
			if shared, how, ok := r.announced(h, 0); ok {
				after, refills = shared, how
			}
		}
	}
	return after, refills, true
}

// announced returns the reset that the headers of a group announce, which may have
// several values.
func (r *reader) announced(g *group, at int) (after time.Duration, refills, ok bool) {
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

// nameOf returns the name of the limits in a group.
func (r *reader) nameOf(g *group) string {
	named := ""
	for i := range r.n { // the longest kind is the last
		if h := &r.groups[i]; h.covers(g) {
			named = cmp.Or(h.values[name], named)
		}
	}
	return join(named, g.kind)
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
