package announced

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A dialect is how a service announces its limits. If two announce a limit of
// one name, the first of them counts.
type dialect int

const (
	standard  dialect = iota // RateLimit-Remaining and its kind
	extension                // X-RateLimit-Remaining and its kind, also X-Rate-Limit-
	anthropic                // Anthropic-RateLimit-Requests-Remaining and its kind
)

// A field is a part of a limit that has a header of its own.
type field int

const (
	quota field = iota
	remaining
	reset
	fields
)

var fieldNames = [fields]string{"limit", "remaining", "reset"}

// A group is the headers of one limit.
type group struct {
	dialect dialect
	kind    string // lower case; "" if the headers have none
	values  [fields]string
}

// maxGroups is how many limits are read of one response.
const maxGroups = MostRead

// MostRead is how many limits ReadLimits returns at most.
const MostRead = 16

// kinds are the usual ones, so that they need no memory.
var kinds = []string{
	"requests", "tokens", "input-tokens", "output-tokens", "second", "minute", "hour", "day", "requests-minute",
	"requests-hour", "requests-day", "tokens-minute", "tokens-hour", "tokens-day", "project-tokens",
	"after", // Discord's X-RateLimit-Reset-After
}

// In reports whether Append would look at a header.
func In(header http.Header) bool {
	for key := range header {
		if concerns(key) {
			return true
		}
	}
	return false
}

// concerns reports whether a header may be of a limit. Few others pass.
func concerns(key string) bool {
	if len(key) < len("RateLimit") {
		return false
	}
	switch key[0] | 0x20 {
	case 'r':
		return key[1]|0x20 == 'a' && key[2]|0x20 == 't'
	case 'x':
		return key[2]|0x20 == 'r' && key[3]|0x20 == 'a' || key[2]|0x20 == 's' && key[3]|0x20 == 'h'
	case 'a':
		return key[1]|0x20 == 'n' && key[2]|0x20 == 't'
	}
	return false
}

// Append appends the limits that the headers of a response announce, as many as
// there is room for. now is the clock of resets if the response has no Date. The
// order of the headers makes no difference.
func Append(limits []Limit, header http.Header, now time.Time) []Limit {
	var found [maxGroups]group
	groups := found[:0]
	var current, policy, shopify, date lines
	for key, values := range header {
		if len(values) == 0 {
			continue
		}
		switch {
		case strings.EqualFold(key, "RateLimit"):
			current.choose(key, values)
		case strings.EqualFold(key, "RateLimit-Policy"):
			policy.choose(key, values)
		case strings.EqualFold(key, "X-Shopify-Shop-Api-Call-Limit"):
			shopify.choose(key, values)
		case strings.EqualFold(key, "Date"):
			date.choose(key, values)
		case strings.EqualFold(key, "Age"): // from a cache
			return limits
		case concerns(key):
			groups = collect(groups, key, values[0])
		}
	}
	if date.values != nil {
		if at, err := http.ParseTime(date.values[0]); err == nil {
			now = at
		}
	}
	slices.SortFunc(groups, group.compare)
	limits = structured(limits, current.values, policy.values)
	for i := range groups {
		limits = add(limits, groups[i].limit(now))
	}
	if shopify.values != nil {
		limits = add(limits, callLimit(shopify.values[0]))
	}
	return limits
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

func (g group) compare(h group) int {
	return cmp.Or(cmp.Compare(g.dialect, h.dialect), cmp.Compare(g.kind, h.kind))
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

func named(limits []Limit, name string) bool {
	return slices.ContainsFunc(limits, func(l Limit) bool { return l.Name == name })
}

// none is no limit.
var none = Limit{Remaining: -1}

// collect adds a header to the group that it is of, if it is of one. Of too many
// groups the first in their order remain.
func collect(groups []group, key, value string) []group {
	d, f, kind, ok := split(key)
	if !ok || value == "" {
		return groups
	}
	kind = lower(kind)
	i := slices.IndexFunc(groups, func(g group) bool { return g.dialect == d && g.kind == kind })
	if i < 0 {
		g := group{dialect: d, kind: kind}
		if len(groups) < cap(groups) {
			i = len(groups)
			groups = append(groups, g)
		} else if i = last(groups); groups[i].compare(g) < 0 {
			return groups
		}
		groups[i] = g
	}
	if old := groups[i].values[f]; old == "" || value < old { // two spellings of one key
		groups[i].values[f] = value
	}
	return groups
}

// last returns the index of the group that comes last.
func last(groups []group) int {
	last := 0
	for i := range groups {
		if groups[last].compare(groups[i]) < 0 {
			last = i
		}
	}
	return last
}

// split splits the name of a header.
func split(key string) (d dialect, f field, kind string, ok bool) {
	if rest, ok := cutPrefix(key, "Anthropic-RateLimit-"); ok {
		for f, name := range fieldNames {
			if kind, ok := cutSuffix(rest, "-"+name); ok {
				return anthropic, field(f), kind, true
			}
		}
		return 0, 0, "", false
	}
	d = standard
	rest, ok := cutPrefix(key, "RateLimit-")
	for _, prefix := range []string{"X-RateLimit-", "X-Rate-Limit-"} {
		if !ok {
			d = extension
			rest, ok = cutPrefix(key, prefix)
		}
	}
	if !ok {
		return 0, 0, "", false
	}
	for f, name := range fieldNames {
		if kind, ok := cutPrefix(rest, name); ok && (kind == "" || kind[0] == '-' && len(kind) > 1) {
			return d, field(f), strings.TrimPrefix(kind, "-"), true
		}
	}
	return 0, 0, "", false
}

func cutPrefix(s, prefix string) (rest string, ok bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

func cutSuffix(s, suffix string) (rest string, ok bool) {
	if len(s) <= len(suffix) || !strings.EqualFold(s[len(s)-len(suffix):], suffix) {
		return s, false
	}
	return s[:len(s)-len(suffix)], true
}

func lower(kind string) string {
	for _, known := range kinds {
		if strings.EqualFold(kind, known) {
			return known
		}
	}
	return strings.ToLower(kind)
}

// windowOf returns the window that a kind is of by its last word.
func windowOf(kind string) (window time.Duration, ok bool) {
	switch kind[strings.LastIndexByte(kind, '-')+1:] {
	case "second":
		return time.Second, true
	case "minute":
		return time.Minute, true
	case "hour":
		return time.Hour, true
	case "day":
		return 24 * time.Hour, true
	}
	return 0, false
}

// limit returns the limit, or none.
func (g *group) limit(now time.Time) Limit {
	left, ok := number(g.values[remaining])
	if !ok {
		return none
	}
	l := Limit{Name: g.kind, Remaining: left, Reset: -1}
	if text, _, _ := strings.Cut(g.values[quota], ","); text != "" {
		text, _, _ = strings.Cut(text, ";")
		l.Quota, _ = number(text)
	}
	text := strings.TrimSpace(g.values[reset])
	window, isWindow := windowOf(g.kind)
	switch {
	case text == "" && isWindow:
		l.Reset = window
	case g.dialect == anthropic:
		l.Refills = true
		if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
			l.Reset = until(at, now)
		}
	case text == "":
		l.Refills = g.kind != "" || g.values[quota] == ""
	default:
		l.Reset, l.Refills = moment(text, now)
		l.Refills = l.Refills || g.kind != "" && (!isWindow || strings.Contains(g.kind, "-"))
	}
	return l
}

// moment reads a reset: a duration as Go writes it, a number of seconds, a Unix
// time in seconds or milliseconds, or an HTTP date. It returns a negative one if
// it cannot, or if that has passed.
func moment(text string, now time.Time) (reset time.Duration, isDuration bool) {
	const (
		leastUnix         = 1e8  // 1973; as seconds three years
		leastMilliseconds = 1e11 // 1973; as seconds the year 5138
	)
	if s, ok := number(text); ok {
		switch {
		case s < leastUnix:
			return inSeconds(s), false
		case s >= leastMilliseconds:
			s /= 1000
		}
		return inSeconds(s - float64(now.UnixNano())/1e9), false
	}
	if !isLetter(text[0]) {
		d, err := time.ParseDuration(text)
		if err != nil {
			return -1, false
		}
		return span(d), true
	}
	if at, err := http.ParseTime(text); err == nil {
		return until(at, now), false
	}
	return -1, false
}

// until returns how long it is until at, or a negative number.
func until(at, now time.Time) time.Duration { return span(at.Sub(now)) }

// longest is the longest reset that is read: 100 years.
const longest = 100 * 365 * 24 * time.Hour

// span returns d, at most the longest, or -1 if it is negative.
func span(d time.Duration) time.Duration { return max(min(d, longest), -1) }

// inSeconds returns that many seconds, at most the longest, or -1 if they are
// negative.
func inSeconds(s float64) time.Duration {
	if s < 0 {
		return -1
	}
	return time.Duration(min(s, longest.Seconds()) * float64(time.Second))
}

// number reads a number that is not negative. Most other texts cost nothing.
func number(text string) (n float64, ok bool) {
	text = strings.Trim(text, " \t")
	for i := range len(text) {
		if !isDigit(text[i]) && strings.IndexByte("+-.eE", text[i]) < 0 {
			return 0, false
		}
	}
	if text == "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 0 {
		return 0, false
	}
	return max(n, 0), true // not -0
}

// callLimit reads 32/40: how much is used, and of how much.
func callLimit(text string) Limit {
	before, after, ok := strings.Cut(text, "/")
	used, ok1 := number(before)
	all, ok2 := number(after)
	if !ok || !ok1 || !ok2 || used > all {
		return none
	}
	return Limit{Quota: all, Remaining: all - used, Reset: -1, Refills: true}
}
