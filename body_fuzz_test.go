package awsretry

import (
	"net/http"
	"testing"
	"time"
)

// FuzzRetryAfter: what a server asks for never shortens a pause, and never overflows it.
func FuzzRetryAfter(f *testing.F) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, seed := range []string{
		"", "0", "1", "120", "-1", "+5", "1.5", "0.000", "0.0001", ".5", "5.", "1e9", "9223372036", "9223372037", "18446744073709551617",
		"99999999999999999999999999", " 7 ", "7, 8", "0x10", "1_000", "٣", "NaN", "Inf",
		"Sun, 01 Mar 2026 12:00:30 GMT", "Sunday, 01-Mar-26 12:00:30 GMT", "Sun Mar  1 12:00:30 2026",
		"Sun, 01 Mar 2020 12:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT",
	} {
		f.Add(seed, "10", int64(time.Second))
	}
	f.Fuzz(func(t *testing.T, first, second string, pause int64) {
		one := retryAfter(http.Header{"Retry-After": {first}}, now)
		other := retryAfter(http.Header{"Retry-After": {second}}, now)
		both := retryAfter(http.Header{"Retry-After": {first, second}}, now)
		if one < 0 || other < 0 || both != max(one, other) {
			t.Errorf("Retry-After %q: %v, %q: %v, both: %v", first, one, second, other, both)
		}
		if value := retryAfterValue(first, now); value < 0 || value > one {
			t.Errorf("Retry-After %q: %v, untrimmed %v", first, one, value)
		}
		p := time.Duration(max(pause, 0))
		for _, value := range []string{first, second} {
			d := amzRetryAfter(http.Header{"X-Amz-Retry-After": {value}}, p)
			if d < p || d-p > amzRetryAfterSpan {
				t.Errorf("X-Amz-Retry-After %q makes %v of %v", value, d, p)
			}
		}
	})
}

// TestRetryAfterValues is what the fuzzer cannot know: what each means.
func TestRetryAfterValues(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const longest = time.Duration(1<<63 - 1)
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "007": 7 * time.Second, "-7": 0, "+7": 0, "1.5": 2 * time.Second, "1.0": time.Second,
		"0.0000001": time.Second, ".5": 0, "5.": 0, "1e3": 0, "9223372036": longest, "9223372035": 9223372035 * time.Second, "99999999999999999999": longest, "soon": 0,
		"Sun, 01 Mar 2026 12:00:30 GMT": 30 * time.Second, "Sun, 01 Mar 2026 11:59:59 GMT": 0, "Fri, 31 Dec 9999 23:59:59 GMT": longest,
	} {
		if got := retryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("Retry-After %q: %v, want %v", value, got, want)
		}
	}
	for value, want := range map[string]time.Duration{
		"": 1000, "0": 1000, "1500": 1500, "10000": 6000, "invalid": 1000, "-1": 1000, "1.5": 1000, "999": 1000, "99999999999999999999": 6000, " 1500 ": 1500,
	} {
		if got := amzRetryAfter(http.Header{"X-Amz-Retry-After": {value}}, time.Second); got != want*time.Millisecond {
			t.Errorf("X-Amz-Retry-After %q: %v, want %v ms", value, got, want)
		}
	}
}
