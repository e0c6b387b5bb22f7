package limitheaders

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// A place is the group and the field that a header belongs to.
type place struct {
	dialect dialect
	field   field
	kind    string // lower case
}

// A dialect is how a service marks the headers of its limits.
type dialect int

const (
	standard  dialect = iota // as in RateLimit-Remaining
	extension                // as in X-RateLimit-Remaining
	anthropic                // as in Anthropic-RateLimit-Requests-Remaining, of quotas that refill
	unmarked                 // without the words rate limit, as in X-Remaining-Today
)

// A field is a part of a limit that has its own header.
type field int

const (
	none field = iota
	quota
	remaining
	reset
	resetAfter
	resetMilliseconds
	usage
	windowMilliseconds
	name   // of the limits whose kind begins with that of the header
	policy // RateLimit-Policy
	whole  // all in one value, as in RateLimit
	fields
)

// fieldOf has the fields that words in a header's name denote.
var fieldOf = map[string]field{
	"limit": quota, "max": quota, "quota": quota,
	"remaining": remaining, "left": remaining,
	"reset": reset, "reset-seconds": reset, "reset-after": resetAfter,
	"reset-ms": resetMilliseconds, "reset-milliseconds": resetMilliseconds,
	"used": usage, "usage": usage,
	"interval-ms": windowMilliseconds, "interval-milliseconds": windowMilliseconds,
	"window-ms": windowMilliseconds, "window-milliseconds": windowMilliseconds,
	"resource": name, "name": name, "bucket": name,
	"policy": policy,
}

// known has the places of headers that were seen before.
var known atomic.Pointer[map[string]place]

// mostKnown is the maximum number of places in known.
const mostKnown = 128

// find returns the place of a header from its name. If keep is set, it may add it to
// known, which takes much longer than to find it.
func find(key string, keep bool) place {
	old := known.Load()
	if old == nil {
		old = new(map[string]place)
	}
	p, ok := (*old)[key]
	if ok {
		return p
	}
	p = placeOf(key)
	if keep && len(key) < 64 {
		all := map[string]place{strings.Clone(key): p}
		if len(*old) < mostKnown { // otherwise there are random names among them
			maps.Copy(all, *old)
		}
		known.Store(&all) // which may lose what others found
	}
	return p
}

// placeOf returns the place of a header from its name.
//
// The words before and after rate limit are a field and a kind. X and Anthropic do
// not belong to the kind. The field is the last word or, if that is not a field, the
// first one that is. A header without a field has all of them in its value.
func placeOf(key string) (p place) {
	words := wordsOf(key)
	if len(words) == 0 {
		return p
	}
	switch words[0] {
	case "x":
		p.dialect, words = extension, words[1:]
	case "anthropic":
		p.dialect, words = anthropic, words[1:]
	}
	var kind []string
	if mark := slices.Index(words, "rate"); mark >= 0 && mark+1 < len(words) && words[mark+1] == "limit" {
		if p.field, kind = split(words[mark+2:]); p.field == none {
			p.field = whole
		}
		kind = slices.Concat(words[:mark], kind)
	} else {
		if p.dialect != anthropic {
			p.dialect = unmarked
		}
		p.field, kind = split(words)
		kind = slices.DeleteFunc(kind, func(word string) bool { return word == "limit" })
	}
	kind = slices.DeleteFunc(kind, func(word string) bool { return word == "per" || word == "this" || word == "time" })
	p.kind = strings.Join(kind, "-")
	if strings.Contains(p.kind, "concurren") { // not a limit of this sort
		p.field = none
	}
	return p
}

// joined replaces words that are written as one. A hyphen follows each word.
var joined = strings.NewReplacer(
	"_limit-", "_limit-", "_remaining-", "_remaining-", "_reset-", "_reset-", // not separated
	"ratelimit-", "-rate-limit-", "limit-", "-limit-", "remaining-", "-remaining-",
	"reset-", "-reset-", "resettime-", "-reset-",
	"today-", "day-", // X-Limit-Per-Day and X-Remaining-Today
)

// wordsOf returns the words of a header's name in lower case, or none if one is
// empty. It separates words like RateLimit and UserRemaining.
func wordsOf(key string) []string {
	if strings.Contains("-"+key+"-", "--") {
		return nil
	}
	return strings.FieldsFunc(joined.Replace(strings.ToLower(key)+"-"), func(r rune) bool { return r == '-' })
}

// split splits words into a field and a kind.
func split(words []string) (f field, kind []string) {
	begin, end := 0, 0
	for i := range words {
		for size := min(2, len(words)-i); size > 0; size-- {
			next := fieldOf[strings.Join(words[i:i+size], "-")]
			last := i+size == len(words)
			if next != none && (f == none || last && next != name) && (next != name || last) {
				f, begin, end = next, i, i+size
			}
		}
	}
	return f, slices.Delete(words, begin, end)
}

// windows has the windows that words denote.
var windows = map[string]time.Duration{
	"second": time.Second, "secondly": time.Second, "min": time.Minute, "minute": time.Minute, "hour": time.Hour,
	"day": 24 * time.Hour, "daily": 24 * time.Hour,
}

// windowOf returns the window that the last word of a kind denotes, such as minute or
// 24hour, or 0.
func windowOf(kind string) time.Duration {
	word := kind[strings.LastIndexByte(kind, '-')+1:]
	unit := strings.TrimLeft(word, "0123456789")
	window := windows[unit]
	if times, ok := number(word[:len(word)-len(unit)]); ok {
		window = inSeconds(times * window.Seconds())
	}
	return window
}
