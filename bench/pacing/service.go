package main

import (
	"math"
	"time"
)

// A service accepts requests or throttles them. Times never decrease.
type service interface {
	accepts(now time.Duration) bool
}

// A limit is what a service accepts, in requests per second, at a time.
type limit func(now time.Duration) float64

// A newService returns a service with a limit.
type newService func(limit) service

// A tokenBucket has room for the requests of burst at the present limit, and
// for at least one.
type tokenBucket struct {
	limit  limit
	burst  time.Duration
	tokens float64
	at     time.Duration
}

// burst is a service with a token bucket, which is full at first.
func burst(d time.Duration) newService {
	return func(l limit) service { return &tokenBucket{limit: l, burst: d, tokens: max(l(0)*d.Seconds(), 1)} }
}

func (b *tokenBucket) accepts(now time.Duration) bool {
	rate := b.limit(now)
	b.tokens = min(b.tokens+rate*(now-b.at).Seconds(), max(rate*b.burst.Seconds(), 1))
	b.at = now
	if b.tokens < 1-rounding {
		return false
	}
	b.tokens--
	return true
}

// rounding is less than any difference between numbers of requests that means
// something.
const rounding = 1e-6

// A leakyBucket is nginx's limit_req: it counts in milliseconds, takes burst
// requests beyond the one that is due, and does not count what it throttles.
type leakyBucket struct {
	limit  limit
	burst  float64
	excess float64
	at     time.Duration
}

func nginx(burst float64) newService {
	return func(l limit) service { return &leakyBucket{limit: l, burst: burst} }
}

func (b *leakyBucket) accepts(now time.Duration) bool {
	now = now.Truncate(time.Millisecond)
	excess := max(b.excess-b.limit(now)*(now-b.at).Seconds()+1, 0)
	if excess > b.burst+rounding {
		return false
	}
	b.excess, b.at = excess, now
	return true
}

// A slidingWindow is HAProxy's http_req_rate: the requests of the present
// period and, of those of the one before, the share that the window still
// covers. It counts what it throttles too.
type slidingWindow struct {
	limit        limit
	period       time.Duration
	number       int64 // of the present period
	count, older float64
}

func haproxy(period time.Duration) newService {
	return func(l limit) service { return &slidingWindow{limit: l, period: period} }
}

func (w *slidingWindow) accepts(now time.Duration) bool {
	switch number := int64(now / w.period); number {
	case w.number:
	case w.number + 1:
		w.number, w.older, w.count = number, w.count, 0
	default:
		w.number, w.older, w.count = number, 0, 0
	}
	w.count++
	left := 1 - float64(now%w.period)/float64(w.period)
	return w.count+w.older*left <= w.limit(now)*w.period.Seconds()
}

// A fixedWindow accepts so many requests in each period.
type fixedWindow struct {
	limit  limit
	period time.Duration
	number int64 // of the present period
	count  float64
}

func fixed(period time.Duration) newService {
	return func(l limit) service { return &fixedWindow{limit: l, period: period} }
}

func (w *fixedWindow) accepts(now time.Duration) bool {
	if number := int64(now / w.period); number != w.number {
		w.number, w.count = number, 0
	}
	if w.count+1 > w.limit(now)*w.period.Seconds() {
		return false
	}
	w.count++
	return true
}

// constant returns a limit that does not change.
func constant(rate float64) limit { return func(time.Duration) float64 { return rate } }

// wave returns a limit between mean-swing and mean+swing.
func wave(mean, swing float64, period time.Duration) limit {
	return func(now time.Duration) float64 {
		return mean + swing*math.Sin(2*math.Pi*float64(now)/float64(period))
	}
}

// steps returns a limit that takes the next of the rates after each length,
// and keeps the last one.
func steps(length time.Duration, rates ...float64) limit {
	return func(now time.Duration) float64 { return rates[min(int(now/length), len(rates)-1)] }
}

// square returns a limit that is one rate and then the other, each for length.
func square(length time.Duration, rates ...float64) limit {
	return func(now time.Duration) float64 { return rates[int(now/length)%len(rates)] }
}
