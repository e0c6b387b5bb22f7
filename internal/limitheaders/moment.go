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
	d, err := time.ParseDuration(text)
	if err != nil {
		return -1, false
	}
	return span(d), true
}

// parseDate parses a date in the format of HTTP, RFC 3339 or JavaScript.
func parseDate(text string) (at time.Time, ok bool) {
	if at, ok := parseHTTPDate(text); ok {
		return at, true
	}
	if len(text) < len("2006-01-02") {
		return at, false
	}
	if isDigit(text[0]) {
		if text[4] != '-' {
			return at, false
		}
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

const months = "JanFebMarAprMayJunJulAugSepOctNovDec"

// parseHTTPDate parses the preferred format of an HTTP date, Mon, 02 Jan 2006
// 15:04:05 GMT. It is faster than http.ParseTime.
func parseHTTPDate(text string) (at time.Time, ok bool) {
	if len(text) != len(http.TimeFormat) || text[3:5] != ", " || text[7] != ' ' || text[11] != ' ' || text[16] != ' ' ||
		text[19] != ':' || text[22] != ':' || text[25:] != " GMT" {
		return at, false
	}
	month := strings.Index(months, text[8:11])
	day, year := digits(text[5:7]), digits(text[12:16])
	hour, minute, second := digits(text[17:19]), digits(text[20:22]), digits(text[23:25])
	if month < 0 || month%3 != 0 || day < 1 || day > 31 || year < 1 || hour < 0 || hour > 23 ||
		minute < 0 || minute > 59 || second < 0 || second > 59 {
		return at, false
	}
	at = time.Date(year, time.Month(month/3+1), day, hour, minute, second, 0, time.UTC)
	return at, at.Day() == day
}

// digits returns the value of a string of digits, or -1 if it has other characters.
func digits(text string) (n int) {
	for i := range len(text) {
		if !isDigit(text[i]) {
			return -1
		}
		n = 10*n + int(text[i]-'0')
	}
	return n
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
