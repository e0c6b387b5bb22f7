package announced

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MostRead is how many limits Append appends at most.
const MostRead = 16

// FromCache reports whether a cache gave the response: its Age is above 0, or it
// says that it is a hit. Some caches send an Age of 0 with what they did not have.
func FromCache(header http.Header) bool {
	for _, value := range header["Age"] {
		if age, ok := number(value); ok && age > 0 {
			return true
		}
	}
	return slices.ContainsFunc(header["X-Cache"], saysHit) || slices.ContainsFunc(header["Cache-Status"], saysHit)
}

// saysHit reports whether a word of the text is hit, or ends with _hit.
func saysHit(text string) bool {
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r > 'z' || !isLetter(byte(r)) }) {
		if strings.EqualFold(word, "hit") {
			return true
		}
	}
	return false
}

// Append appends the limits that the headers of a response announce, as many as
// there is room for. clock is the clock of resets if the response has no Date. The
// order of the headers makes no difference.
func Append(limits []Limit, header http.Header, clock func() time.Time) []Limit {
	var r reader
	for key, values := range header {
		if len(values) > 0 {
			r.add(key, values)
		}
	}
	limits = structured(limits, r.current.values, r.policy.values)
	if r.n > 0 {
		now, ok := time.Time{}, false
		if r.date.values != nil {
			now, ok = parseDate(r.date.values[0])
		}
		if !ok {
			now = clock()
		}
		for range r.n {
			limits = r.groups[r.takeFirst()].append(limits, r.resource.first(), now)
		}
	}
	if r.shopify.values != nil {
		limits = add(limits, callLimit(r.shopify.values[0]))
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
	case 'x', 'a':
		return rateIn(key) >= 0 || key[2]|0x20 == 's'
	}
	return false
}

// rateIn returns where the word rate begins in the name of a header, or a negative
// number. The letters are those of one case but for the first.
func rateIn(key string) int {
	if i := strings.Index(key, "ate"); i >= 0 {
		return i - 1
	}
	return strings.Index(key, "ATE") - 1
}

// A reader collects the headers that concern limits.
type reader struct {
	groups                                   [MostRead]group
	n                                        int // of groups
	done                                     [MostRead]bool
	current, policy, shopify, date, resource lines
}

// lines are the values of a header.
type lines struct {
	key    string
	values []string
}

// choose takes one of several spellings of a key, whatever their order.
func (l *lines) choose(key string, values []string) {
	if l.values == nil || key < l.key {
		*l = lines{key, values}
	}
}

func (l *lines) first() string {
	if l.values == nil {
		return ""
	}
	return l.values[0]
}

func (r *reader) add(key string, values []string) {
	if len(key) == len("Date") && strings.EqualFold(key, "Date") {
		r.date.choose(key, values)
	}
	if !concerns(key) {
		return
	}
	switch {
	case strings.EqualFold(key, "RateLimit"):
		r.current.choose(key, values)
	case strings.EqualFold(key, "RateLimit-Policy"):
		r.policy.choose(key, values)
	case strings.EqualFold(key, "X-Shopify-Shop-Api-Call-Limit"):
		r.shopify.choose(key, values)
	default:
		r.addField(key, values)
	}
}

// A dialect is where the names of a service's headers begin. If two announce a
// limit of one name, the first of them counts.
type dialect int

const (
	standard  dialect = iota // RateLimit-Remaining and its kind
	extension                // X-RateLimit-Remaining and its kind, also X-Rate-Limit-
	vendor                   // Anthropic-RateLimit-Requests-Remaining and its kind
)

// A field is a part of a limit that has a header of its own.
type field int

const (
	quota field = iota
	remaining
	reset
	resetAfter
	usage
	length // in milliseconds
	fields

	name
	none
)

// fieldOf returns the field that a word of a header's name is.
func fieldOf(word string) field {
	switch len(word) {
	case 3:
		if strings.EqualFold(word, "max") {
			return quota
		}
	case 4:
		if strings.EqualFold(word, "used") {
			return usage
		} else if strings.EqualFold(word, "name") {
			return name
		}
	case 5:
		switch {
		case strings.EqualFold(word, "limit"):
			return quota
		case strings.EqualFold(word, "reset"):
			return reset
		case strings.EqualFold(word, "usage"):
			return usage
		}
	case 6:
		if strings.EqualFold(word, "bucket") {
			return name
		}
	case 8:
		if strings.EqualFold(word, "resource") {
			return name
		}
	case 9:
		if strings.EqualFold(word, "remaining") {
			return remaining
		}
	}
	return none
}

// A group is the headers of one limit.
type group struct {
	dialect dialect
	kind    string // lower case; "" if the headers have none
	values  [fields][]string
}

func (g *group) compare(h *group) int {
	return cmp.Or(cmp.Compare(g.dialect, h.dialect), cmp.Compare(g.kind, h.kind))
}

// kinds are the usual ones, so that they need no memory.
var kinds = []string{
	"requests", "tokens", "input-tokens", "output-tokens", "second", "minute", "hour", "day", "requests-minute",
	"requests-hour", "requests-day", "tokens-minute", "tokens-hour", "tokens-day", "project-tokens", "req-minute",
	"daily", "secondly", "global", "route", "complexity", "endpoint-requests",
}

func lower(kind string) string {
	if kind == "" {
		return ""
	}
	for _, known := range kinds {
		if strings.EqualFold(kind, known) {
			return known
		}
	}
	return strings.ToLower(kind)
}

// split splits the name of a header into the words before and after its field.
func split(key string) (d dialect, f field, before, after string) {
	vendorEnd := rateIn(key)
	if vendorEnd < 0 {
		return 0, none, "", ""
	}
	rest, ok := cutPrefix(key[vendorEnd:], "ratelimit")
	if !ok {
		rest, ok = cutPrefix(key[vendorEnd:], "rate-limit")
	}
	if !ok {
		return 0, none, "", ""
	}
	switch prefix := key[:vendorEnd]; {
	case prefix == "":
	case strings.EqualFold(prefix, "x-"):
		d = extension
	case strings.EqualFold(prefix, "x-read"): // Strava's
		d, before = extension, "read"
	case prefix[len(prefix)-1] == '-':
		d = vendor
	default:
		return 0, none, "", ""
	}
	if rest == "" || rest[0] != '-' {
		return 0, none, "", ""
	}
	rest = rest[1:]
	for start := 0; start <= len(rest); {
		end := start + len(rest[start:])
		if i := strings.IndexByte(rest[start:], '-'); i >= 0 {
			end = start + i
		}
		if f := fieldOf(rest[start:end]); f != none {
			if start > 0 {
				before = rest[:start-1]
			}
			after = rest[min(end+1, len(rest)):]
			if f == reset && strings.EqualFold(after, "after") {
				f, after = resetAfter, ""
			}
			if end < len(rest) && after == "" && f != resetAfter { // it ends with a hyphen
				return 0, none, "", ""
			}
			return d, f, before, after
		}
		start = end + 1
	}
	switch {
	case d != vendor:
	case strings.EqualFold(rest, "interval-milliseconds"):
		return d, length, "", ""
	case strings.EqualFold(rest, "daily"), strings.EqualFold(rest, "secondly"): // HubSpot's quotas
		return d, quota, rest, ""
	}
	return 0, none, "", ""
}

func cutPrefix(s, prefix string) (rest string, ok bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// addField adds a header to the group that it is of, if it is of one. Of too many
// groups the first in their order remain.
func (r *reader) addField(key string, values []string) {
	d, f, before, after := split(key)
	switch {
	case f == none || values[0] == "":
		return
	case f == name:
		if before == "" && after == "" {
			r.resource.choose(key, values)
		}
		return
	}
	kind := before + after
	if before != "" && after != "" {
		kind = before + "-" + after
	}
	if strings.Contains(kind, "oncurren") { // a limit of concurrency is none of these
		return
	}
	kind = lower(kind)
	groups := r.groups[:r.n]
	i := slices.IndexFunc(groups, func(g group) bool { return g.dialect == d && g.kind == kind })
	if i < 0 {
		g := group{dialect: d, kind: kind}
		if i = r.n; i < len(r.groups) {
			r.n++
		} else if i = last(groups); groups[i].compare(&g) < 0 {
			return
		}
		r.groups[i] = g
	}
	if old := &r.groups[i].values[f]; *old == nil || values[0] < (*old)[0] { // two spellings of one key
		*old = values
	}
}

// last returns the index of the group that comes last.
func last(groups []group) int {
	last := 0
	for i := range groups {
		if groups[last].compare(&groups[i]) < 0 {
			last = i
		}
	}
	return last
}

// takeFirst returns the index of the group that comes next.
func (r *reader) takeFirst() int {
	first := -1
	for i := range r.groups[:r.n] {
		if !r.done[i] && (first < 0 || r.groups[i].compare(&r.groups[first]) < 0) {
			first = i
		}
	}
	r.done[first] = true
	return first
}

// windowOf returns the window that a kind is of by its last word.
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

// append appends the limits of the group. resource is what else has its name.
func (g *group) append(limits []Limit, resource string, now time.Time) []Limit {
	l := Limit{Name: join(resource, g.kind), Reset: -1}
	if g.values[remaining] == nil {
		return g.appendUsed(limits, l, now)
	}
	var window time.Duration
	var at int
	if l.Remaining, window, at = least(g.values[remaining]); at < 0 {
		return limits
	}
	l.Quota, _ = nth(g.values[quota], at)
	kindWindow, isWindow := windowOf(g.kind)
	text := nthText(g.values[reset], at)
	switch after, ok := nth(g.values[resetAfter], at); {
	case ok:
		l.Reset = inSeconds(after)
	case text != "" && g.dialect == vendor && strings.Contains(text, "T"): // Anthropic's
		l.Refills = true
		l.Reset, _ = moment(text, now)
	case text != "":
		l.Reset, l.Refills = moment(text, now)
		l.Refills = l.Refills || g.kind != "" && (!isWindow || strings.Contains(g.kind, "-"))
	case isWindow:
		l.Reset = kindWindow
	case window > 0:
		l.Reset = window
	case g.values[length] != nil:
		ms, _ := nth(g.values[length], 0)
		l.Reset = inSeconds(ms / 1000)
	default:
		l.Refills = g.kind != "" || g.values[quota] == nil
	}
	return add(limits, l)
}

// appendUsed appends the limits of a group that announces what was used instead of
// what remains. Two of them are Strava's, of a quarter of an hour and a day.
func (g *group) appendUsed(limits []Limit, l Limit, now time.Time) []Limit {
	if g.values[usage] == nil || g.values[quota] == nil {
		return limits
	}
	for i := range 2 {
		used, ok := nth(g.values[usage], i)
		all, ok2 := nth(g.values[quota], i)
		if !ok || !ok2 || i > 0 && !isList(g.values[usage]) {
			break
		}
		one := l
		one.Quota, one.Remaining = all, max(all-used, 0)
		if isList(g.values[usage]) {
			window := []time.Duration{15 * time.Minute, 24 * time.Hour}[i]
			one.Name = join(one.Name, []string{"quarter-hour", "day"}[i])
			one.Reset = now.Truncate(window).Add(window).Sub(now)
		}
		limits = add(limits, one)
	}
	return limits
}

// join joins two names.
func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "/" + b
}

// least returns the lowest of the numbers of a header, the window that is said with
// it, as Docker Hub does, and its place, which is negative if there is none.
func least(values []string) (n float64, window time.Duration, at int) {
	at = -1
	place := 0
	for _, line := range values {
		for line != "" || place == 0 {
			text, rest, more := strings.Cut(line, ",")
			text, params, _ := strings.Cut(text, ";")
			if m, ok := number(text); ok && (at < 0 || m < n) {
				n, at, window = m, place, 0
				if w, ok := strings.CutPrefix(strings.TrimSpace(params), "w="); ok {
					s, _ := number(w)
					window = inSeconds(s)
				}
			} else if !ok && place == 0 && !more {
				return 0, 0, -1
			}
			place++
			if line = rest; !more {
				break
			}
		}
	}
	return n, window, at
}

// isList reports whether a header has several values.
func isList(values []string) bool {
	return len(values) > 1 || len(values) == 1 && strings.Contains(values[0], ",")
}

// nth returns the number at that place of a header, or the first if there are fewer.
func nth(values []string, place int) (n float64, ok bool) {
	text, _, _ := strings.Cut(nthText(values, place), ";")
	return number(text)
}

// nthText returns the text at that place of a header, or the first if there are
// fewer. A date, which has a comma, is one text.
func nthText(values []string, place int) string {
	if len(values) == 0 {
		return ""
	}
	if text := strings.TrimSpace(values[0]); text == "" || isLetter(text[0]) || !isList(values) {
		return text
	}
	first, i := "", 0
	for _, line := range values {
		for text := range strings.SplitSeq(line, ",") {
			text = strings.TrimSpace(text)
			if i == place {
				return text
			} else if i == 0 {
				first = text
			}
			i++
		}
	}
	return first
}

// add adds a limit unless it makes no sense or is there, under its name or, if it
// has none, under the name that RateLimit gives it.
func add(limits []Limit, l Limit) []Limit {
	same := func(m Limit) bool {
		return m.Name == l.Name || l.Name == "" && m.Quota == l.Quota && m.Remaining == l.Remaining
	}
	if !l.valid() || len(limits) == cap(limits) || slices.ContainsFunc(limits, same) {
		return limits
	}
	return append(limits, l)
}

// invalid is the invalid Limit.
var invalid = Limit{Remaining: -1}

// callLimit reads 32/40: how much is used, and of how much.
func callLimit(text string) Limit {
	before, after, ok := strings.Cut(text, "/")
	used, ok1 := number(before)
	all, ok2 := number(after)
	if !ok || !ok1 || !ok2 || used > all {
		return invalid
	}
	return Limit{Quota: all, Remaining: all - used, Reset: -1, Refills: true}
}

// number reads a number that is not negative. Most other texts cost nothing.
func number(text string) (n float64, ok bool) {
	text = strings.Trim(text, " \t")
	digits := 0
	for i := range len(text) {
		if c := text[i]; isDigit(c) {
			n = 10*n + float64(c-'0')
			digits++
		} else if strings.IndexByte("+-.eE", c) < 0 {
			return 0, false
		}
	}
	if text == "" {
		return 0, false
	}
	if digits == len(text) && digits <= 15 { // exact
		return n, true
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 0 {
		return 0, false
	}
	return max(n, 0), true // not -0
}
