package main

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// A service on loopback allows so many requests per second, with a burst of a
// fifth of that. A request takes a hundredth of a second.
type service struct {
	host   string
	rate   float64
	server *http.Server

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

func startService(rate int) (*service, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &service{host: listener.Addr().String(), rate: float64(rate), at: time.Now()}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.server.Serve(listener) }() // until close
	return s, nil
}

func (s *service) close() { _ = s.server.Close() }

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
