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
	quota field = iota
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
	none = fields
)

// fieldOf returns the field that a word in a header's name denotes.
func fieldOf(word string) field {
	switch word {
	case "limit", "max", "quota":
		return quota
	case "remaining", "left":
		return remaining
	case "reset", "resettime":
		return reset
	case "used", "usage":
		return usage
	case "resource", "name", "bucket":
		return name
	case "policy":
		return policy
	}
	return none
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
func placeOf(key string) place {
	words, p := wordsOf(key), place{field: none}
	switch {
	case slices.Contains(words, ""):
		return p
	case words[0] == "x":
		p.dialect, words = extension, words[1:]
	case words[0] == "anthropic":
		p.dialect, words = anthropic, words[1:]
	}
	var kind []string
	if mark := slices.Index(words, "rate"); mark >= 0 && mark+1 < len(words) && words[mark+1] == "limit" {
		p.field, kind = split(words[mark+2:])
		if p.field == none {
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
	for i, word := range kind {
		if word == "today" { // X-Limit-Per-Day and X-Remaining-Today
			kind[i] = "day"
		}
	}
	kind = slices.DeleteFunc(kind, func(word string) bool { return word == "per" || word == "this" || word == "time" })
	p.kind = strings.Join(kind, "-")
	if strings.Contains(p.kind, "concurren") { // not a limit of this sort
		p.field = none
	}
	return p
}

// wordsOf returns the words of a header's name in lower case. It separates words like
// RateLimit and UserRemaining.
func wordsOf(key string) (words []string) {
	for word := range strings.SplitSeq(strings.ToLower(key), "-") {
		for _, last := range []string{"limit", "remaining", "reset"} {
			before, ok := strings.CutSuffix(word, last)
			if !ok || before == "" || strings.HasSuffix(before, "_") {
				continue
			}
			if kind, ok := strings.CutSuffix(before, "rate"); ok && kind != "" && last == "limit" {
				words, before = append(words, kind), "rate"
			}
			words, word = append(words, before), last
			break
		}
		words = append(words, word)
	}
	return words
}

// split splits words into a field and a kind.
func split(words []string) (f field, kind []string) {
	f, begin, end := none, 0, 0
	for i := range words {
		next, size := fieldIn(words[i:])
		last := i+size == len(words)
		if next != none && (f == none || last && next != name) && (next != name || last) {
			f, begin, end = next, i, i+size
		}
	}
	return f, slices.Delete(words, begin, end)
}

// fieldIn returns the field with which the words begin, and the number of its words.
func fieldIn(words []string) (f field, size int) {
	f = fieldOf(words[0])
	if len(words) == 1 {
		return f, 1
	}
	switch milliseconds := words[1] == "ms" || words[1] == "milliseconds"; {
	case milliseconds && (words[0] == "interval" || words[0] == "window"):
		return windowMilliseconds, 2
	case f != reset:
	case milliseconds:
		return resetMilliseconds, 2
	case words[1] == "after":
		return resetAfter, 2
	case words[1] == "seconds":
		return reset, 2
	}
	return f, 1
}

// windowOf returns the window that the last word of a kind denotes, such as minute or
// 24hour.
func windowOf(kind string) (window time.Duration, ok bool) {
	word := kind[strings.LastIndexByte(kind, '-')+1:]
	unit := strings.TrimLeft(word, "0123456789")
	switch unit {
	case "second", "secondly":
		window = time.Second
	case "min", "minute":
		window = time.Minute
	case "hour":
		window = time.Hour
	case "day", "daily":
		window = 24 * time.Hour
	}
	if times := word[:len(word)-len(unit)]; times != "" {
		n, _ := number(times)
		window = inSeconds(n * window.Seconds())
	}
	return window, window > 0
}
