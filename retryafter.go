package awsretry

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	defaultMaxRetryAfter = time.Minute

	// Of the 2026 revision: how much longer than the jittered pause x-amz-retry-after may make it.
	amzRetryAfterSpan = 5 * time.Second
)

// retryAfter returns the pause that a Retry-After header (RFC 9110, section 10.2.3) asks for, 0 where there is none that can be
// read. Of several the longest counts; a fraction of a second, which the RFC does not know, is rounded up; a number that
// is too large is the longest Duration there is.
func retryAfter(h http.Header, now time.Time) time.Duration {
	var longest time.Duration
	for _, value := range h["Retry-After"] {
		longest = max(longest, retryAfterValue(strings.TrimSpace(value), now))
	}
	return longest
}

func retryAfterValue(value string, now time.Time) time.Duration {
	whole, fraction, fractional := strings.Cut(value, ".")
	if digits(whole) && (!fractional || digits(fraction)) {
		seconds, err := strconv.ParseInt(whole, 10, 64)
		if err != nil || seconds >= math.MaxInt64/int64(time.Second) {
			return math.MaxInt64
		}
		if strings.Trim(fraction, "0") != "" {
			seconds++
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return max(at.Sub(now), 0)
}

// amzRetryAfter returns what pause becomes by the 2026 revision's x-amz-retry-after, in whole milliseconds.
func amzRetryAfter(h http.Header, pause time.Duration) time.Duration {
	value := strings.TrimSpace(h.Get("X-Amz-Retry-After"))
	if !digits(value) {
		return pause
	}
	asked := time.Duration(math.MaxInt64)
	if ms, err := strconv.ParseInt(value, 10, 64); err == nil && ms <= math.MaxInt64/int64(time.Millisecond) {
		asked = time.Duration(ms) * time.Millisecond
	}
	return min(max(asked, pause), addSaturating(pause, amzRetryAfterSpan))
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
