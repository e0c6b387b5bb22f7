package fleet_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A service allows rate requests per second, with a burst.
type service struct {
	rate, burst float64

	mu                  sync.Mutex
	tokens              float64
	at                  time.Time
	accepted, throttled int
}

func (s *service) RoundTrip(req *http.Request) (*http.Response, error) {
	time.Sleep(10 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.at.IsZero() {
		s.tokens = s.burst
	} else {
		s.tokens = min(s.tokens+now.Sub(s.at).Seconds()*s.rate, s.burst)
	}
	s.at = now
	status := http.StatusOK
	if s.tokens >= 1 {
		s.tokens--
		s.accepted++
	} else {
		s.throttled++
		status = http.StatusTooManyRequests
	}
	return &http.Response{
		StatusCode: status, Header: make(http.Header), Body: io.NopCloser(strings.NewReader("")), Request: req,
	}, nil
}

// down is a service that is down.
type down struct{ attempts atomic.Int64 }

func (d *down) RoundTrip(req *http.Request) (*http.Response, error) {
	d.attempts.Add(1)
	return &http.Response{
		StatusCode: http.StatusServiceUnavailable, Header: make(http.Header),
		Body: io.NopCloser(strings.NewReader("")), Request: req,
	}, nil
}
