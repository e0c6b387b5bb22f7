package limitheaders

import (
	"net/http"
	"strings"
	"time"
)

// moment parses a reset: a duration in Go's syntax, a number of seconds, a Unix time
// in seconds or milliseconds, or a date in the format of RFC 3339, HTTP or
// JavaScript. The reset is negative if it is invalid or in the past.
func moment(text string, now func() time.Time) (reset time.Duration, isDuration bool) {
	const (
		leastUnix         = 1e8  // in 1973; as a number of seconds, three years
		leastMilliseconds = 1e11 // in 1973; as a Unix time in seconds, in the year 5138
	)
	if s, ok := number(text); ok {
		switch {
		case s < leastUnix:
			return inSeconds(s), false
		case s >= leastMilliseconds:
			s /= 1000
		}
		return inSeconds(s - float64(now().UnixNano())/1e9), false
	}
	if at, ok := parseDate(text); ok {
		return span(at.Sub(now())), false
	}
	if text == "" || isLetter(text[0]) {
		return -1, false
	}
	if d, err := time.ParseDuration(text); err == nil {
		return span(d), true
	}
	return -1, false
}

// parseDate parses a date in the format of HTTP, RFC 3339 or JavaScript.
func parseDate(text string) (at time.Time, ok bool) {
	if len(text) < len("2006-01-02") || isDigit(text[0]) && text[4] != '-' {
		return at, false
	}
	if isDigit(text[0]) {
		for _, layout := range []string{
			time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05.999999999",
			time.DateTime + " UTC", time.DateTime,
		} {
			if at, err := time.Parse(layout, text); err == nil {
				return at, true
			}
		}
		return at, false
	}
	if at, err := http.ParseTime(text); err == nil {
		return at, true
	}
	text, _, _ = strings.Cut(text, " (") // Tue Nov 24 2026 13:00:00 GMT+0000 (Coordinated Universal Time)
	at, err := time.Parse("Mon Jan _2 2006 15:04:05 GMT-0700", text)
	return at, err == nil
}

// longest is the longest reset that is parsed, 100 years. Longer ones are capped.
const longest = 100 * 365 * 24 * time.Hour

// span returns d, at most longest, or a negative duration if d is negative.
func span(d time.Duration) time.Duration { return max(min(d, longest), -1) }

// inSeconds returns s seconds, at most longest, or -1 if s is negative or NaN.
func inSeconds(s float64) time.Duration {
	if !(s >= 0) {
		return -1
	}
	return time.Duration(min(s, longest.Seconds()) * float64(time.Second))
}
