package awsretry_test

import (
	"io"
	"math"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
)

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

// admits returns how many requests are admitted between two times when there are always some that wait to be.
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

// A throttlingService admits what a token bucket lets through that holds a tenth of a second's requests, at least one, and
// throttles the rest as Amazon DynamoDB does. It is a Base.
type throttlingService struct {
	schedule schedule
	start    time.Time
	from     time.Duration // what comes earlier is not counted

	mu                  sync.Mutex // guards everything below
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

// simulated is what the callers of a throttling service saw.
type simulated struct {
	goodput           float64       // successful calls, as a part of those that the service could have admitted
	throttled         float64       // as a part of the attempts
	p50, p99, longest time.Duration // of a call, its pauses and its time in line included
	fairness          float64       // Jain's index over the Transports' successful calls: 1 where all have the same
}

// simulate lets callers call the service for so long, each again as soon as it has its answer, and measures from the time
// from on. Every Transport has as many callers.
func simulate(t *testing.T, s schedule, transports, callers int, from, to time.Duration) simulated {
	service := newThrottlingService(s, from)
	var wg sync.WaitGroup
	var mu sync.Mutex // guards the two below
	var took []time.Duration
	succeeded := make([]float64, transports)
	for i := range transports {
		tr := &awsretry.Transport{Mode: awsretry.Adaptive, Base: service}
		for range callers {
			wg.Go(func() {
				for begin := service.now(); begin < to; begin = service.now() {
					resp, err := get(t, tr)
					if err != nil {
						t.Error(err)
						return
					}
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					end := service.now()
					if end < from {
						continue
					}
					mu.Lock()
					took = append(took, end-begin) // also of one that ends late, or whoever starves would not count
					if resp.StatusCode == http.StatusOK && end < to {
						succeeded[i]++
					}
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	if len(took) == 0 {
		t.Fatal("no call ended from then on")
	}
	slices.Sort(took)
	quantile := func(q float64) time.Duration { return took[int(math.Ceil(q*float64(len(took))))-1] }
	var sum, squares float64
	for _, n := range succeeded {
		sum += n
		squares += n * n
	}
	return simulated{
		goodput:   sum / s.admits(from, to),
		throttled: float64(service.throttled) / float64(service.admitted+service.throttled),
		p50:       quantile(0.50),
		p99:       quantile(0.99),
		longest:   quantile(1),
		fairness:  sum * sum / float64(transports) / squares,
	}
}

// What adaptive mode makes of a service that admits so many requests per second. The first 30 seconds are not measured:
// the limiter's search for the rate after the very first throttling, which hits all callers at once.
func TestAdaptiveFindsTheRate(t *testing.T) {
	const warmUp = 30 * time.Second
	tests := []struct {
		name                string
		schedule            schedule
		transports, callers int
		length              time.Duration
		goodput             float64       // at least
		throttled           float64       // less than; 1: whatever it is
		p99                 time.Duration // less than
		fairness            float64       // more than
	}{
		{"100 per second, one Transport", schedule{{0, 100}}, 1, 64, 2 * time.Minute, 0.96, 0.005, time.Second, 0},
		{"100 per second, eight Transports", schedule{{0, 100}}, 8, 8, 5 * time.Minute, 0.98, 1, 3 * time.Second, 0.95},
		{"5 per second", schedule{{0, 5}}, 1, 64, 10 * time.Minute, 0.72, 1, 55 * time.Second, 0},
		{"100, 20, then 200 per second", schedule{{0, 100}, {time.Minute, 20}, {2 * time.Minute, 200}}, 1, 64, 4 * time.Minute, 0.90, 1, 4 * time.Second, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := simulate(t, tt.schedule, tt.transports, tt.callers, warmUp, tt.length)
				t.Logf("goodput %.1f %%, throttled %.2f %%, a call's p50 %.2f s, p99 %.2f s and longest %.1f s, fairness %.3f",
					100*got.goodput, 100*got.throttled, got.p50.Seconds(), got.p99.Seconds(), got.longest.Seconds(), got.fairness)
				if got.goodput < tt.goodput {
					t.Errorf("goodput is %.4f, want at least %v", got.goodput, tt.goodput)
				}
				// A call may end in the measured time whose request was admitted before, and the burst comes on top.
				if got.goodput > 1.01 {
					t.Errorf("goodput is %.4f: the service admits more than it should", got.goodput)
				}
				if got.throttled >= tt.throttled {
					t.Errorf("%.4f of the attempts are throttled, want less than %v", got.throttled, tt.throttled)
				}
				if got.p99 >= tt.p99 {
					t.Errorf("p99 is %v, want less than %v", got.p99, tt.p99)
				}
				if most := 10 * tt.p99; got.longest >= most { // unlucky retries make a long tail; this is for who is never served
					t.Errorf("the longest call took %v, want less than %v", got.longest, most)
				}
				if got.fairness <= tt.fairness {
					t.Errorf("fairness is %.4f, want more than %v", got.fairness, tt.fairness)
				}
			})
		})
	}
}
