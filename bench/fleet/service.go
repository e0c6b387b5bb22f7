package main

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"time"
)

// A service on loopback allows so many requests per second, with a burst of a
// fifth of that. A request takes a hundredth of a second.
type service struct {
	*httptest.Server
	rate float64

	mu     sync.Mutex
	tokens float64
	at     time.Time
	sent   []sending // in the order of their times
}

// A sending is a request that came to the service.
type sending struct {
	at       time.Time
	accepted bool
}

const latency = 10 * time.Millisecond

func startService(rate int) *service {
	s := &service{rate: float64(rate), at: time.Now()}
	s.Server = httptest.NewServer(s)
	return s
}

func (s *service) host() string { return s.Listener.Addr().String() }

func (s *service) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	accepted := s.accept()
	time.Sleep(latency)
	if !accepted {
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

func (s *service) accept() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.tokens = min(s.tokens+now.Sub(s.at).Seconds()*s.rate, s.rate/5)
	s.at = now
	accepted := s.tokens >= 1
	if accepted {
		s.tokens--
	}
	s.sent = append(s.sent, sending{now, accepted})
	return accepted
}

// between returns what came in a time.
func (s *service) between(from, to time.Time) []sending {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []sending
	for _, x := range s.sent {
		if !x.at.Before(from) && x.at.Before(to) {
			found = append(found, x)
		}
	}
	return found
}
