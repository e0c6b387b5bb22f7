package main

import (
	"net/http"
	"sync"
	"time"

	simulated "example.com/awsretry/simulate/scenario"
)

// A slidingWindow is HAProxy's http_req_rate in front of a service that one
// client calls: the requests of the present period and, of those of the one
// before, the share that the window still covers. It counts what it throttles
// too.
type slidingWindow struct {
	base   http.RoundTripper
	limit  float64 // requests in a period
	period time.Duration

	mu           sync.Mutex // guards the fields below
	start        time.Time
	number       int64 // of the present period
	count, older float64
}

// haproxy replaces the service's throttle, whose bucket does not get empty then.
func haproxy(period time.Duration) func(*scenario) {
	return func(s *scenario) {
		t := s.Scenario.Service.Throttle
		t.Burst = simulated.MaxRate
		s.limiter = func(base http.RoundTripper) http.RoundTripper {
			return &slidingWindow{base: base, limit: t.Rate * period.Seconds(), period: period, start: time.Now()}
		}
	}
}

func (w *slidingWindow) accepts(now time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch number := int64(now / w.period); number {
	case w.number:
	case w.number + 1:
		w.number, w.older, w.count = number, w.count, 0
	default:
		w.number, w.older, w.count = number, 0, 0
	}
	w.count++
	left := 1 - float64(now%w.period)/float64(w.period)
	return w.count+w.older*left <= w.limit
}

// RoundTrip implements http.RoundTripper. A refused request takes as long as
// others.
func (w *slidingWindow) RoundTrip(req *http.Request) (*http.Response, error) {
	accepted := w.accepts(time.Since(w.start))
	resp, err := w.base.RoundTrip(req)
	if err != nil || accepted {
		return resp, err
	}
	refusal := *resp
	refusal.Status, refusal.StatusCode = "429 Too Many Requests", http.StatusTooManyRequests
	return &refusal, nil
}
