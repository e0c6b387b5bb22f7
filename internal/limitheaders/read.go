// Package limitheaders reads what the headers of a response say of the service's
// limits.
//
// A header's name gives its place: the dialect, the kind of limit, and the field,
// such as the quota or the reset. The headers of one dialect and kind are a group,
// from which one limit is read. RateLimit, RateLimit-Policy and the headers of some
// vendors announce whole limits instead.
package limitheaders

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// A Limit is one of a service's limits, as announced by one response.
type Limit struct {
	Name             string        // "" if the response names none
	Quota, Remaining float64       // in units; a Quota of 0 means unknown
	Reset            time.Duration // until the quota is whole again; negative means unknown
	Refills          bool          // the quota refills steadily, not all at once at the end of a window
}

const (
	// MostRead is the maximum number of limits that are read from a response.
	MostRead = 8

	// LongestReset is the longest reset of a limit with too little left.
	LongestReset = 24 * time.Hour

	// longestName is the longest header name that is read, in bytes. Limits have it as
	// a part of their names.
	longestName = 255
)

// Valid reports whether the numbers are possible, and the limit is worth waiting for.
func (l Limit) Valid() bool {
	return l.Remaining >= 0 && !math.IsInf(l.Remaining, 0) && l.Quota >= 0 && !math.IsInf(l.Quota, 0) &&
		(l.Remaining >= 1 || l.Reset <= LongestReset) // otherwise it is wrong, or a quota of months
}

// Append appends the limits that the headers of a response announce, up to the
// capacity of limits. A response from a cache announces none. Resets are relative to
// the Date of the response or, without one, to clock. The order of the headers makes
// no difference.
func Append(limits []Limit, header http.Header, clock func() time.Time) []Limit {
	r := reader{header: header, clock: clock}
	for key, values := range header {
		if len(values) == 0 || len(key) > longestName || !concerns(key) {
			continue
		}
		p := find(key, len(header) < mostKnown)
		if p.field == none {
			continue
		}
		value := values[0]
		if len(values) > 1 {
			value = strings.Join(values, ", ")
		}
		switch {
		case p.field == quota && isDictionary(value):
			p.field = whole
		case p.field == whole && !strings.Contains(value, "="): // X-RateLimit: 100
			if p.kind != "" && windowOf(p.kind) == 0 {
				continue
			}
			p.field = quota
		}
		if g := r.group(p.dialect, p.kind); g != nil {
			if old := &g.values[p.field]; *old == "" || value < *old { // of several spellings, whatever their order
				*old = value
			}
		}
	}
	before := limits
	for i := range r.n {
		g := &r.groups[i]
		limits = structured(limits, g.kind, g.values[whole], g.values[policy])
	}
	for i := range r.n {
		limits = r.append(limits, &r.groups[i])
	}
	if len(limits) > len(before) && fromCache(header) {
		return before
	}
	return limits
}

// concerns reports whether a header may announce a limit.
func concerns(key string) bool {
	for i := 2; i < len(key)-2; i++ {
		if c := key[i] | 0x20; c == 'm' || c == 's' { // before the comparisons, which take longer
			word := key[i-2 : i+3]
			if strings.EqualFold(word, "limit") || strings.EqualFold(word, "reset") || strings.EqualFold(word, "remai") {
				return true
			}
		}
	}
	return false
}

// A reader collects the headers that concern limits.
type reader struct {
	header http.Header
	clock  func() time.Time
	made   time.Time
	groups [12]group // sorted; some have no limit, or have one without the others' reset
	n      int       // the number of groups
}

// now returns when the response was generated, on the clock of its resets.
func (r *reader) now() time.Time {
	if r.made.IsZero() {
		at, ok := parseDate(r.header.Get("Date"))
		if !ok {
			at = r.clock()
		}
		r.made = at
	}
	return r.made
}

// add adds a limit if it is valid. If two limits have the same name, the stricter one
// counts. A limit without a name is skipped if one with the same values has a name,
// from RateLimit. A limit without a reset counts as a bucket.
func add(limits []Limit, l Limit) []Limit {
	if !l.Valid() {
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
