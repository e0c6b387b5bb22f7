package limitheaders

import (
	"strings"
	"sync"
)

// A place is the group and the field that a header belongs to.
type place struct {
	dialect dialect
	field   field
	kind    string // lower case
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
