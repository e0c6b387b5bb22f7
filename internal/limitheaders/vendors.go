package limitheaders

import (
	"strings"
	"time"
)

// namesLimits reports whether a value names the limits that it announces, like those
// of Azure's resource providers: a/b;107,a/c;587.
func namesLimits(value string) bool {
	name, _, ok := strings.Cut(value, ";")
	return ok && strings.ContainsFunc(name, func(c rune) bool { return c < 0x80 && isLetter(byte(c)) })
}

// appendNamed appends the limits that a value names.
func appendNamed(limits []Limit, value string) []Limit {
	for text := range strings.SplitSeq(value, ",") {
		name, left, _ := strings.Cut(text, ";")
		if n, ok := number(left); ok {
			limits = add(limits, Limit{Name: strings.TrimSpace(name), Remaining: n, Reset: -1})
		}
	}
	return limits
}

// appendUsed appends two limits whose usage is announced, for a quarter of an hour
// and for a day, as Strava does.
func (g *group) appendUsed(limits []Limit, name string, now time.Time) []Limit {
	for i, window := range []time.Duration{15 * time.Minute, 24 * time.Hour} {
		used, ok := nth(g.values[usage], i)
		all, ok2 := nth(g.values[quota], i)
		if ok && ok2 {
			limits = add(limits, Limit{
				Name: join(name, []string{"quarter-hour", "day"}[i]), Quota: all, Remaining: max(all-used, 0),
				Reset: untilNext(window, now),
			})
		}
	}
	return limits
}

// usedOf parses 32/40, which means that 32 of 40 units are used, as Shopify sends it.
func usedOf(name, text string) Limit {
	before, after, _ := strings.Cut(text, "/")
	used, ok := number(before)
	all, ok2 := number(after)
	if !ok || !ok2 {
		return invalid
	}
	return Limit{Name: name, Quota: all, Remaining: all - used, Reset: -1}
}
