package awsproto

import (
	"crypto/rand"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RetryAfter returns the delay that the headers ask for, or 0. The first of these
// with a delay above 0 counts: Retry-After-Ms and X-Ms-Retry-After-Ms, in
// milliseconds, as in azcore, and Retry-After (RFC 9110, section 10.2.3). A value
// that cannot be parsed, or is in the past, is ignored. Of several values of a header
// the longest delay counts. A fraction of the unit is rounded up. A number that is
// too large is the longest Duration.
func RetryAfter(h http.Header, now time.Time) (delay time.Duration) {
	for _, name := range [...]string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		for _, value := range h[name] {
			asked, _ := decimal(value, time.Millisecond)
			delay = max(delay, asked)
		}
		if delay > 0 {
			return delay
		}
	}
	for _, value := range h["Retry-After"] {
		asked, ok := decimal(value, time.Second)
		if !ok {
			if at, err := http.ParseTime(strings.TrimSpace(value)); err == nil {
				asked = at.Sub(now)
			}
		}
		delay = max(delay, asked)
	}
	return delay
}

// decimal returns a decimal number of units, rounded up.
func decimal(value string, unit time.Duration) (d time.Duration, ok bool) {
	whole, fraction, fractional := strings.Cut(strings.TrimSpace(value), ".")
	if !digits(whole) || fractional && !digits(fraction) {
		return 0, false
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n >= math.MaxInt64/int64(unit) {
		return math.MaxInt64, true
	}
	if strings.Trim(fraction, "0") != "" {
		n++
	}
	return time.Duration(n) * unit, true
}

// AmzRetryAfterSpan is how much x-amz-retry-after may add to a delay in the
// 2026 revision of the AWS SDKs' retry behavior.
const AmzRetryAfterSpan = 5 * time.Second

// AmzRetryAfter returns the delay of a retry after a response with these headers.
// delay is the backoff's. The x-amz-retry-after header of the 2026 revision, in
// whole milliseconds, may lengthen it by up to five seconds. A value that cannot be
// parsed is ignored.
func AmzRetryAfter(h http.Header, delay time.Duration) time.Duration {
	value := strings.TrimPrefix(strings.TrimSpace(h.Get("X-Amz-Retry-After")), "+")
	if !digits(value) {
		return delay
	}
	asked := time.Duration(math.MaxInt64)
	if ms, err := strconv.ParseInt(value, 10, 64); err == nil && ms <= math.MaxInt64/int64(time.Millisecond) {
		asked = time.Duration(ms) * time.Millisecond
	}
	if asked <= delay {
		return delay
	}
	return delay + min(asked-delay, AmzRetryAfterSpan)
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// SetRetryHeaders sets the retry headers of the AWS SDKs and Tools Reference
// Guide. It keeps an invocation ID that is already there.
func SetRetryHeaders(h http.Header, invocationID string, attempt, maxAttempts int) {
	if len(h["Amz-Sdk-Invocation-Id"]) == 0 {
		h["Amz-Sdk-Invocation-Id"] = []string{invocationID}
	}
	h["Amz-Sdk-Request"] = []string{"attempt=" + strconv.Itoa(attempt) + "; max=" + strconv.Itoa(maxAttempts)}
}

// SignsRetryHeaders reports whether an AWS signature of the request covers the
// headers of SetRetryHeaders, so that a change would break it.
func SignsRetryHeaders(req *http.Request) bool {
	return strings.Contains(strings.ToLower(req.Header.Get("Authorization")), "amz-sdk-") ||
		req.URL != nil && strings.Contains(strings.ToLower(req.URL.Query().Get("X-Amz-SignedHeaders")), "amz-sdk-")
}

// Signed reports whether the request has a signature: of AWS, in its header or its
// URL, or of RFC 9421.
func Signed(req *http.Request) bool {
	return strings.HasPrefix(req.Header.Get("Authorization"), "AWS") || req.Header["Signature-Input"] != nil ||
		req.URL != nil && (hasQuery(req.URL, "X-Amz-Signature") || hasQuery(req.URL, "Signature"))
}

// NewInvocationID returns a random UUID (RFC 9562, version 4).
func NewInvocationID() string {
	var u [16]byte
	rand.Read(u[:])
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// OuterLoop reports whether the request's amz-sdk-request header shows that it is
// an attempt of an AWS SDK, which retries it itself. The Go SDK omits max if it
// does not limit the attempts.
func OuterLoop(req *http.Request) bool {
	for _, value := range req.Header["Amz-Sdk-Request"] {
		numbered, limited := false, false
		for field := range strings.SplitSeq(value, ";") {
			name, count, _ := strings.Cut(strings.TrimSpace(field), "=")
			n, err := strconv.Atoi(strings.TrimSpace(count))
			valid := err == nil && n > 0
			switch strings.TrimSpace(name) {
			case "attempt":
				numbered = valid
			case "max":
				if limited = true; valid && n > 1 {
					return true
				}
			}
		}
		if numbered && !limited {
			return true
		}
	}
	return false
}
