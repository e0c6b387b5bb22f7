package awsretry_test

import (
	"net/http"
	"sync"
	"time"
)

// A schedule is the requests per second that a service admits, from an instant
// on. The first entry is from 0 on.
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

// admits returns how many requests are admitted between two times if some always
// wait.
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

// A throttlingService is a Base that admits what its token bucket has tokens for
// and throttles the rest like Amazon DynamoDB. The bucket has room for a tenth of
// a second's requests, at least one. TestAdaptiveFindsTheRate, the simulation of
// the limiter, is in cmd/awsretry/simulate.
type throttlingService struct {
	schedule schedule
	start    time.Time
	from     time.Duration // earlier requests are not counted

	mu                  sync.Mutex // guards the fields below
	tokens              float64
	at                  time.Duration
	admitted, throttled int
}

const simulatedLatency = 10 * time.Millisecond

func newThrottlingService(s schedule, from time.Duration) *throttlingService {
	return &throttlingService{schedule: s, start: time.Now(), from: from, tokens: max(s.at(0)/10, 1)}
}

func (s *throttlingService) now() time.Duration { return time.Since(s.start) }

func (s *throttlingService) RoundTrip(req *http.Request) (*http.Response, error) {
	ok := s.admit()
	time.Sleep(simulatedLatency)
	if ok {
		return answer(http.StatusOK, "{}"), nil
	}
	const body = `{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"slow down"}`
	return answer(http.StatusBadRequest, body), nil
}

func (s *throttlingService) admit() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.tokens = min(s.tokens+s.schedule.admits(s.at, now), max(s.schedule.at(now)/10, 1))
	s.at = now
	ok := s.tokens >= 1-1e-9
	if ok {
		s.tokens--
	}
	switch {
	case now < s.from:
	case ok:
		s.admitted++
	default:
		s.throttled++
	}
	return ok
}
