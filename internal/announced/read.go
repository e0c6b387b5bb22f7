package announced

import (
	"net/http"
	"strings"
	"time"
)

// MostRead is how many limits Append appends at most.
const MostRead = maxLimits

// Append appends the limits that the headers of a response announce, as many as
// there is room for. clock is the clock of resets if the response has no Date. The
// order of the headers makes no difference.
func Append(limits []Limit, header http.Header, clock func() time.Time) []Limit {
	r := reader{header: header, clock: clock}
	places := usual()
	for key, values := range header {
		if len(values) == 0 || !concerns(key) {
			continue
		}
		p, ok := places[key]
		if !ok {
			p = placeOf(key)
		}
		if p.field < fields {
			if g := r.group(p.dialect, p.kind); g != nil {
				choose(&g.values[p.field], values)
			}
		} else if p.field != none {
			choose(&r.whole[p.field], values)
		}
	}
	limits = structured(limits, r.whole[current], r.whole[policy])
	for i := range r.n {
		limits = r.append(limits, &r.groups[i])
	}
	if used := r.whole[calls]; used != "" {
		limits = add(limits, callLimit(used))
	}
	return limits
}

// concerns reports whether a header may be of a limit. Few others pass.
func concerns(key string) bool {
	if len(key) < len("RateLimit") {
		return false
	}
	switch key[0] | 0x20 {
	case 'r':
		return key[1]|0x20 == 'a' && key[2]|0x20 == 't'
	case 'a':
		return key[1]|0x20 == 'n' && key[2]|0x20 == 't' // Anthropic's
	case 'x':
		return key[2]|0x20 == 'r' && key[3]|0x20 == 'a' || key[2]|0x20 == 's' && key[3]|0x20 == 'h' || // Shopify's
			strings.Contains(key, "ate") || key[len(key)-1] < 'a' && strings.Contains(key, "ATE")
	}
	return false
}

// A reader collects the headers that concern limits.
type reader struct {
	header http.Header
	clock  func() time.Time
	made   time.Time
	groups [MostRead]group // in their order
	n      int             // of groups
	whole  [none]string    // what is of all groups
}

// now returns when the response was made, on the clock of its resets.
func (r *reader) now() time.Time {
	if r.made.IsZero() {
		ok := false
		if dates := r.header["Date"]; len(dates) > 0 {
			r.made, ok = parseDate(dates[0])
		}
		if !ok {
			r.made = r.clock()
		}
	}
	return r.made
}

// choose takes one of several spellings of a header, whatever their order.
func choose(old *string, values []string) {
	value := values[0]
	if len(values) > 1 {
		value = strings.Join(values, ", ")
	}
	if *old == "" || value < *old {
		*old = value
	}
}

// add adds a limit unless it makes no sense. Of two of one name, the stricter counts.
// One without a name may be there under the name that RateLimit gives it. One
// without a reset counts as a bucket.
func add(limits []Limit, l Limit) []Limit {
	if !l.valid() {
		return limits
	}
	l.Refills = l.Refills || l.Reset < 0
	for i := range limits {
		m := &limits[i]
		if l.Name == m.Name && l.Remaining < m.Remaining {
			*m = l
		}
		if l.Name == m.Name || l.Name == "" && l.Quota == m.Quota && l.Remaining == m.Remaining {
			return limits
		}
	}
	if len(limits) == cap(limits) {
		return limits
	}
	return append(limits, l)
}

// invalid is the invalid Limit.
var invalid = Limit{Remaining: -1}
