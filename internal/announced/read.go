package announced

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// MostRead is the maximum number of limits that are read from a response.
const MostRead = maxLimits

// FromCache reports whether a response came from a cache: its Age is above 0, or
// a header names a hit. An Age of 0 does not count, because some caches send it with
// a miss.
func FromCache(header http.Header) bool {
	for _, value := range header["Age"] {
		if age, ok := number(value); ok && age > 0 {
			return true
		}
	}
	return slices.ContainsFunc(header["X-Cache"], saysHit) || slices.ContainsFunc(header["Cache-Status"], saysHit)
}

// saysHit reports whether a word in the text is hit, or ends with _hit. The word
// hit-for-pass does not count.
func saysHit(text string) bool {
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r > 'z' || r != '-' && !isLetter(byte(r)) }) {
		if strings.EqualFold(word, "hit") {
			return true
		}
	}
	return false
}

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

// A dialect is the prefix that a service's headers have in common.
type dialect int

const (
	standard  dialect = iota // as in RateLimit-Remaining
	extension                // as in X-RateLimit-Remaining and X-Rate-Limit-Remaining
	vendor                   // as in X-Vendor-RateLimit-Remaining
	anthropic                // as in Anthropic-RateLimit-Requests-Remaining
)

// A field is a part of a limit that has its own header.
type field int

const (
	quota field = iota
	remaining
	reset
	resetAfter
	usage
	length // in milliseconds

	// These belong to all groups.
	current // RateLimit
	policy  // RateLimit-Policy
	calls   // Shopify's
	name    // X-RateLimit-Resource and similar ones
	none

	fields = current
)

// fieldOf returns the field that a word in a header's name denotes.
func fieldOf(word string) field {
	switch word {
	case "limit", "max":
		return quota
	case "remaining":
		return remaining
	case "reset", "resettime":
		return reset
	case "used", "usage":
		return usage
	case "resource", "name", "bucket":
		return name
	}
	return none
}

// A group has the headers of one limit.
type group struct {
	dialect dialect
	kind    string // lower case; "" if the headers have none
	values  [fields]string
}

// A place is the group and the field that a header belongs to.
type place struct {
	dialect dialect
	field   field
	kind    string // lower case
}

// usual returns the places of common headers, which are found faster in the map than
// by placeOf.
var usual = sync.OnceValue(func() map[string]place {
	all := make(map[string]place)
	for _, key := range strings.Fields(`Ratelimit Ratelimit-Policy Ratelimit-F X-Ratelimit-F X-Rate-Limit-F
		X-Ratelimit-Resource X-Ratelimit-Used X-Ratelimit-F-Requests X-Ratelimit-F-Tokens X-Ratelimit-Requests-F
		X-Ratelimit-F-Second X-Ratelimit-F-Minute X-Ratelimit-F-Hour X-Ratelimit-F-Day
		Anthropic-Ratelimit-Requests-F Anthropic-Ratelimit-Tokens-F
		Anthropic-Ratelimit-Input-Tokens-F Anthropic-Ratelimit-Output-Tokens-F`) {
		for _, word := range []string{"Limit", "Remaining", "Reset"} {
			key := strings.Replace(key, "-F", "-"+word, 1)
			all[key] = placeOf(key)
		}
	}
	return all
})

// placeOf returns the place of a header from its name.
func placeOf(key string) place {
	key = strings.ToLower(key)
	switch key {
	case "ratelimit":
		return place{field: current}
	case "ratelimit-policy":
		return place{field: policy}
	case "x-shopify-shop-api-call-limit":
		return place{field: calls}
	}
	prefix, rest, _ := strings.Cut(key, "rate")
	rest, isLimit := strings.CutPrefix(strings.TrimPrefix(rest, "-"), "limit-")
	if !isLimit || rest == "" || rest[len(rest)-1] == '-' {
		return place{field: none}
	}
	p := place{}
	p.field, p.kind = split(rest)
	switch prefix {
	case "":
	case "x-":
		p.dialect = extension
	case "x-read": // Strava's
		p.dialect, p.kind = extension, "read"
	case "anthropic-":
		p.dialect = anthropic
	default:
		p.dialect = vendor
		if rest == "daily" || rest == "secondly" { // HubSpot's quotas
			p.field, p.kind = quota, rest
		}
		if prefix[len(prefix)-1] != '-' {
			p.field = none
		}
	}
	if strings.Contains(p.kind, "concurren") || p.field == name && p.kind != "" { // not a limit of this sort
		p.field = none
	}
	return p
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

// split splits the part of a header's name after "rate limit" into a field and
// a kind. The field is the last word or, if that is not a field, the first word that
// is. The other words are the kind.
func split(rest string) (f field, kind string) {
	last := strings.LastIndexByte(rest, '-') + 1
	if f := fieldOf(rest[last:]); f < fields {
		return f, strings.TrimSuffix(rest[:last], "-")
	}
	for _, unit := range []string{"interval-milliseconds", "interval-ms"} {
		if kind, ok := strings.CutSuffix(rest, unit); ok {
			return length, strings.TrimSuffix(kind, "-")
		}
	}
	for start := 0; start < len(rest); {
		word, after, _ := strings.Cut(rest[start:], "-")
		if f = fieldOf(word); f == none {
			start += len(word) + 1
			continue
		}
		if f == reset {
			if after == "after" {
				return resetAfter, strings.TrimSuffix(rest[:start], "-")
			}
			after = strings.TrimPrefix(strings.TrimPrefix(after, "seconds"), "-")
		}
		return f, strings.TrimSuffix(rest[:start]+after, "-")
	}
	return none, ""
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

// appendNamed appends the limits that a value names, like those of Azure's resource
// providers: a/b;107,a/c;587.
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

// least returns the lowest of the first MostRead numbers in a value, the window that
// follows it in Docker Hub's format, and its index, or -1 if there is no number. It
// skips a 0 whose quota is 0, which means that there is no limit, as Brave documents.
func least(value, quotas string) (n float64, window time.Duration, at int) {
	if n, ok := number(value); ok && n > 0 {
		return n, 0, 0
	}
	at = -1
	place := -1
	for text := range strings.SplitSeq(value, ",") {
		if place++; place == MostRead {
			break
		}
		text, params, _ := strings.Cut(text, ";")
		m, ok := number(text)
		if !ok || at >= 0 && m >= n {
			continue
		}
		if all, said := nth(quotas, place); m == 0 && said && all == 0 {
			continue
		}
		n, at, window = m, place, 0
		if w, ok := strings.CutPrefix(strings.TrimSpace(params), "w="); ok {
			s, _ := number(w)
			window = inSeconds(s)
		}
	}
	return n, window, at
}

// nth returns the number at an index of a value, or the first one if there are fewer.
func nth(value string, place int) (n float64, ok bool) {
	if n, ok = number(value); ok || value == "" {
		return n, ok
	}
	text, _, _ := strings.Cut(nthText(value, place), ";")
	return number(text)
}

// nthText returns the text at an index of a value, or the first one if there are
// fewer. A date counts as one text, although it has a comma.
func nthText(value string, place int) string {
	first, rest, isList := strings.Cut(strings.TrimSpace(value), ",")
	if !isList || first != "" && isLetter(first[0]) {
		return strings.TrimSpace(value)
	}
	text := first
	for range place {
		var more bool
		if text, rest, more = strings.Cut(rest, ","); !more && text == "" {
			return first
		}
	}
	return strings.TrimSpace(text)
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

// callLimit parses 32/40, which means that 32 of 40 units are used.
func callLimit(text string) Limit {
	before, after, ok := strings.Cut(text, "/")
	used, ok1 := number(before)
	all, ok2 := number(after)
	if !ok || !ok1 || !ok2 || used > all {
		return invalid
	}
	return Limit{Quota: all, Remaining: all - used, Reset: -1}
}

// number parses a number that is not negative. It rejects most other texts without
// allocating.
func number(text string) (n float64, ok bool) {
	text = strings.TrimSpace(text)
	exact := len(text) <= 15
	for i := range len(text) {
		if c := text[i]; isDigit(c) {
			n = 10*n + float64(c-'0')
		} else if strings.IndexByte("+-.eE", c) >= 0 {
			exact = false
		} else {
			return 0, false
		}
	}
	if exact || text == "" {
		return n, text != ""
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 0 {
		return 0, false
	}
	return max(n, 0), true // not -0
}
