package simulate

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// A throttleBucket is a token bucket, or a window. It is full at first. It also
// has what else a throttle knows of its callers.
type throttleBucket struct {
	rate, burst float64
	window      time.Duration // 0: tokens are refilled one by one
	tokens      float64
	at          time.Duration

	ends   []time.Duration // of the requests in flight, in order
	banned time.Duration   // until when all requests are refused
}

// working returns how many requests are in flight.
func (b *throttleBucket) working(now time.Duration) int {
	over, _ := slices.BinarySearch(b.ends, now+1)
	b.ends = b.ends[over:]
	return len(b.ends)
}

// occupy adds a request that is in flight until end.
func (b *throttleBucket) occupy(end time.Duration) {
	i, _ := slices.BinarySearch(b.ends, end)
	b.ends = slices.Insert(b.ends, i, end)
}

func (b *throttleBucket) take(now time.Duration) bool {
	b.advance(now)
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// advance adds the tokens that were refilled up to now.
func (b *throttleBucket) advance(now time.Duration) {
	now = max(now, b.at) // in real time another caller may have read a later time
	switch {
	case b.window == 0:
		b.tokens = min(b.tokens+b.rate*(now-b.at).Seconds(), b.burst)
	case now/b.window > b.at/b.window:
		b.tokens = b.burst
	}
	b.at = now
}

// reset returns how long it is until the bucket is full again.
func (b *throttleBucket) reset() time.Duration {
	if b.window > 0 {
		return b.window - b.at%b.window
	}
	return span((b.burst - b.tokens) / b.rate * 1e9)
}

// announce returns the headers that announce what is left at now, in a run that
// starts at start.
func (b *throttleBucket) announce(t *scenario.Throttle, now time.Duration, start time.Time) http.Header {
	b.advance(now)
	h := make(http.Header)
	left, at := math.Floor(b.tokens), start.Add(b.at)
	number := func(key string, n float64) { h.Set(key, fmt.Sprint(math.Floor(n))) }
	seconds := math.Ceil(b.reset().Seconds())
	switch t.Announces {
	case scenario.GitHub:
		number("X-RateLimit-Limit", b.burst)
		number("X-RateLimit-Remaining", left)
		h.Set("X-RateLimit-Reset", fmt.Sprint(at.Add(b.reset()).Unix()))
		h.Set("Date", at.UTC().Format(http.TimeFormat))
	case scenario.Draft6:
		number("RateLimit-Limit", b.burst)
		number("RateLimit-Remaining", left)
		number("RateLimit-Reset", seconds)
	case scenario.Draft8:
		h.Set("RateLimit", fmt.Sprintf(`"default";r=%.0f;t=%.0f`, left, seconds))
		h.Set("RateLimit-Policy", fmt.Sprintf(`"default";q=%.0f;w=%.0f`, math.Floor(b.burst), math.Ceil(b.burst/b.rate)))
	case scenario.OpenAI:
		number("X-RateLimit-Limit-Requests", b.burst)
		number("X-RateLimit-Remaining-Requests", left)
		h.Set("X-RateLimit-Reset-Requests", b.reset().Round(time.Millisecond).String())
	case scenario.Anthropic:
		number("Anthropic-RateLimit-Requests-Limit", b.burst)
		number("Anthropic-RateLimit-Requests-Remaining", left)
		h.Set("Anthropic-RateLimit-Requests-Reset", at.Add(b.reset()).UTC().Format(time.RFC3339))
		h.Set("Date", at.UTC().Format(http.TimeFormat))
	case scenario.Heroku:
		number("RateLimit-Remaining", left)
	}
	return h
}

// A refusal has what distinguishes the responses of a throttle.
type refusal struct {
	header http.Header
	body   string
}

// plain responses have neither header nor body.
var plain = refusal{header: http.Header{}}

// newRefusal returns what the throttle sends in a run that starts at start.
func newRefusal(t *scenario.Throttle, start time.Time) refusal {
	r := refusal{header: http.Header{}}
	if t.RetryAfter > 0 {
		r.header.Set("Retry-After", strconv.Itoa(int(time.Duration(t.RetryAfter)/time.Second)))
	}
	if t.RetryAt > 0 {
		const roundUp = time.Second - 1
		at := start.Add(time.Duration(t.RetryAt) + roundUp).Truncate(time.Second)
		r.header.Set("Retry-After", at.UTC().Format(http.TimeFormat))
	}
	if t.Code != "" {
		// Strings can always be encoded.
		text, _ := json.Marshal(map[string]string{"__type": t.Code, "message": "Rate exceeded"})
		r.header.Set("Content-Type", "application/x-amz-json-1.0")
		r.body = string(text)
	}
	return r
}

func (r refusal) response(status int, req *http.Request) *http.Response {
	resp := &http.Response{
		Status: fmt.Sprint(status, " ", http.StatusText(status)), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: r.header, Body: http.NoBody, Request: req,
	}
	if r.body != "" {
		resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(r.body)), int64(len(r.body))
	}
	return resp
}
