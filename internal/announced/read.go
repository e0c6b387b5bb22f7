package announced

import (
	"net/http"
	"strings"
	"time"
)

// MostRead is the maximum number of limits that are read from a response.
const MostRead = maxLimits

// Append appends the limits that the headers of a response announce, up to the
// capacity of limits. Resets are relative to the Date of the response or, without
// one, to clock. The order of the headers makes no difference.
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

// concerns reports whether a header may announce a limit. It rejects nearly all other
// headers.
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
	groups [MostRead]group // sorted
	n      int             // the number of groups
	whole  [none]string    // the fields that belong to all groups
}

// now returns when the response was generated, on the clock of its resets.
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

// choose keeps one of several spellings of a header, independent of their order.
func choose(old *string, values []string) {
	value := values[0]
	if len(values) > 1 {
		value = strings.Join(values, ", ")
	}
	if *old == "" || value < *old {
		*old = value
	}
}

// add adds a limit if it is valid. If two limits have the same name, the stricter one
// counts. A limit without a name is skipped if one with the same values has a name,
// from RateLimit. A limit without a reset counts as a bucket.
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
