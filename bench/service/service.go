package main

import (
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// latency is how long an answer takes that nothing delays, on average.
const latency = 10 * time.Millisecond

// soon is latency, give or take a tenth: callers that call again at once would otherwise stay in step for ever, and the same one would get
// each token of the service.
func soon() time.Duration { return latency*9/10 + rand.N(latency/5) }

// A clock counts from the beginning of a run, in virtual time as on the wall clock.
type clock struct{ start time.Time }

func startClock() clock { return clock{time.Now()} }

func (c clock) now() time.Duration { return time.Since(c.start) }

// A schedule says how many requests per second a service admits, and from when on; the first entry is from 0 on.
type schedule []struct {
	from time.Duration
	rate float64
}

func (s schedule) at(now time.Duration) float64 {
	rate := 0.0
	for _, step := range s {
		if step.from <= now {
			rate = step.rate
		}
	}
	return rate
}

// admits returns how many requests are admitted between two times where there are always some that wait to be.
func (s schedule) admits(from, to time.Duration) float64 {
	sum := 0.0
	for i, step := range s {
		end := to
		if i+1 < len(s) {
			end = min(to, s[i+1].from)
		}
		if begin := max(from, step.from); begin < end {
			sum += (end - begin).Seconds() * step.rate
		}
	}
	return sum
}

// A throttler is a service that admits what a token bucket lets through, which holds a tenth of a second's requests but at
// least one, and throttles the rest.
type throttler struct {
	clock
	schedule schedule
	from     time.Duration // what comes earlier is not counted

	mu                  sync.Mutex // guards everything below
	tokens              float64
	at                  time.Duration // of the tokens
	admitted, throttled int
}

func newThrottler(c clock, s schedule, from time.Duration) *throttler {
	return &throttler{clock: c, schedule: s, from: from, tokens: burst(s.at(0))}
}

func burst(rate float64) float64 { return max(rate/10, 1) }

// RoundTrip throttles with a status that every library knows and a code in the body that the AWS ones look for.
func (t *throttler) RoundTrip(req *http.Request) (*http.Response, error) {
	ok := t.admit(t.now())
	time.Sleep(soon())
	if ok {
		return answer(req, http.StatusOK, "{}"), nil
	}
	return answer(req, http.StatusTooManyRequests, throttlingBody), nil
}

const throttlingBody = `{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"slow down"}`

func (t *throttler) admit(now time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now = max(now, t.at) // another caller may have come in between
	t.tokens = min(t.tokens+t.schedule.admits(t.at, now), burst(t.schedule.at(now)))
	t.at = now
	ok := t.tokens >= 1-1e-9
	if ok {
		t.tokens--
	}
	switch {
	case now < t.from:
	case ok:
		t.admitted++
	default:
		t.throttled++
	}
	return ok
}

// A window is the time of an outage.
type window struct{ from, to time.Duration }

func (w window) contains(now time.Duration) bool { return w.from <= now && now < w.to }

// A refuser is a throttler that answers 503 at once while its outage lasts.
type refuser struct {
	*throttler
	outage window
}

func (r *refuser) RoundTrip(req *http.Request) (*http.Response, error) {
	if r.outage.contains(r.now()) {
		time.Sleep(soon())
		return unavailable(req), nil
	}
	return r.throttler.RoundTrip(req)
}

// A hanger is a service that works on one request after the other, in the order in which they came, and on nothing while its
// outage lasts. It does not learn that a caller has given up, and works for it all the same.
type hanger struct {
	clock
	outage window
	rate   float64       // requests per second
	queue  float64       // requests that may wait; to any more it answers 503 at once
	gives  time.Duration // after so long without an answer the caller's connection gives up, as net/http's ResponseHeaderTimeout does

	mu   sync.Mutex    // guards free
	free time.Duration // when everything in the queue will be done, in time spent working
}

func (h *hanger) RoundTrip(req *http.Request) (*http.Response, error) {
	switch wait, ok := h.enqueue(h.now()); {
	case !ok:
		time.Sleep(soon())
		return unavailable(req), nil
	case wait+latency > h.gives:
		time.Sleep(h.gives)
		return nil, timeoutError{}
	default:
		time.Sleep(wait + latency)
		return answer(req, http.StatusOK, "{}"), nil
	}
}

// enqueue returns how long it takes until the service has done the request, and false where the queue is full.
func (h *hanger) enqueue(now time.Duration) (time.Duration, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	worked := h.worked(now)
	h.free = max(h.free, worked)
	if (h.free-worked).Seconds()*h.rate >= h.queue {
		return 0, false
	}
	h.free += time.Duration(float64(time.Second) / h.rate)
	done := h.free
	if done > h.outage.from {
		done += h.outage.to - h.outage.from
	}
	return done - now, true
}

// worked is how much of the time until now the service spent working or ready to.
func (h *hanger) worked(now time.Duration) time.Duration {
	if now < h.outage.from {
		return now
	}
	return h.outage.from + max(now-h.outage.to, 0)
}

// A timeoutError has what net/http's own has when a response does not come in time.
type timeoutError struct{}

func (timeoutError) Error() string   { return "timeout awaiting response headers" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

func unavailable(req *http.Request) *http.Response {
	return answer(req, http.StatusServiceUnavailable, `{"message":"unavailable"}`)
}

func answer(req *http.Request, status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body:          io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       req,
	}
}
