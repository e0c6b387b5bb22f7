package retryablehttp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// CheckRetry reports whether an attempt is followed by another. It is called with
// the response or the error of each attempt. If it returns false, Do returns the
// response. If it returns an error, that error replaces the attempt's.
type CheckRetry func(ctx context.Context, resp *http.Response, err error) (bool, error)

// Backoff returns the delay before a retry, after attempt attemptNum, from 0. min
// and max are Client's RetryWaitMin and RetryWaitMax. resp is nil after an error.
type Backoff func(min, max time.Duration, attemptNum int, resp *http.Response) time.Duration

// DefaultRetryPolicy is a CheckRetry that retries connection errors, 429 and 5xx
// except 501. It does not retry errors that would recur: those of a certificate, too
// many redirects, a URL's scheme, a header.
func DefaultRetryPolicy(ctx context.Context, resp *http.Response, err error) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	retry, _ := retryable(resp, err)
	return retry, nil
}

// ErrorPropagatedRetryPolicy is DefaultRetryPolicy with an error that gives the
// reason for its decision.
func ErrorPropagatedRetryPolicy(ctx context.Context, resp *http.Response, err error) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	return retryable(resp, err)
}

func retryable(resp *http.Response, err error) (retry bool, why error) {
	switch {
	case err != nil:
		why = permanent(err)
		return why == nil, why
	case resp.StatusCode == http.StatusTooManyRequests:
		return true, nil
	case resp.StatusCode == 0 || resp.StatusCode >= 500 && resp.StatusCode != http.StatusNotImplemented:
		return true, fmt.Errorf("unexpected HTTP status %s", resp.Status)
	}
	return false, nil
}

// permanent returns an error of an http.Client that a retry would have again, and
// nil for any other.
func permanent(err error) error {
	var (
		certificate *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		host        x509.HostnameError
		failed      *url.Error
	)
	switch {
	case errors.As(err, &certificate), errors.As(err, &authority), errors.As(err, &host):
		return err
	case !errors.As(err, &failed):
		return nil
	}
	text := failed.Err.Error() // net/http has no types for these
	if strings.HasPrefix(text, "stopped after ") && strings.HasSuffix(text, " redirects") ||
		strings.Contains(text, "unsupported protocol scheme") || strings.Contains(text, "invalid header") {
		return err
	}
	return nil
}

// maxRetryAfter limits a Retry-After: a service that asks for an hour by mistake
// would stop the program.
const maxRetryAfter = time.Minute

// DefaultBackoff is a Backoff that doubles min with each attempt, up to max. After
// a 429 or 503 it obeys Retry-After, for at most a minute.
func DefaultBackoff(min, max time.Duration, attemptNum int, resp *http.Response) time.Duration {
	if delay, ok := retryAfter(resp); ok {
		return delay
	}
	delay := float64(min) * math.Pow(2, float64(attemptNum))
	if !(delay < float64(max)) {
		return max
	}
	return time.Duration(delay)
}

// LinearJitterBackoff is a Backoff that multiplies the number of the attempt, from
// 1, by a random duration between min and max, which limit the jitter, not the
// delay. If max is not above min, there is no jitter.
func LinearJitterBackoff(min, max time.Duration, attemptNum int, _ *http.Response) time.Duration {
	delay := float64(min)
	if max > min {
		delay += rand.Float64() * float64(max-min)
	}
	return time.Duration(math.Min(delay*float64(attemptNum+1), math.MaxInt64/2))
}

// RateLimitLinearJitterBackoff is a Backoff that obeys Retry-After after a 429 or
// 503, for at most a minute, and otherwise is LinearJitterBackoff.
func RateLimitLinearJitterBackoff(min, max time.Duration, attemptNum int, resp *http.Response) time.Duration {
	if delay, ok := retryAfter(resp); ok {
		return delay
	}
	return LinearJitterBackoff(min, max, attemptNum, resp)
}

// retryAfter returns the delay that a 429 or 503 asks for, the longest of several.
func retryAfter(resp *http.Response) (delay time.Duration, ok bool) {
	if resp == nil || resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	for _, value := range resp.Header["Retry-After"] {
		asked, valid := parseRetryAfter(value)
		delay, ok = max(delay, asked), ok || valid
	}
	return min(delay, maxRetryAfter), ok
}

// parseRetryAfter reads a number of seconds, or a date (RFC 9110, section 10.2.3).
func parseRetryAfter(value string) (delay time.Duration, ok bool) {
	if value == "" || strings.Trim(value, "0123456789") != "" {
		at, err := http.ParseTime(value)
		return max(time.Until(at), 0), err == nil
	}
	seconds, err := strconv.Atoi(value)
	if err != nil || seconds > int(maxRetryAfter/time.Second) {
		seconds = int(maxRetryAfter / time.Second)
	}
	return time.Duration(seconds) * time.Second, true
}
