package fleet_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
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

func TestRate(t *testing.T) {
	addr := startServer(t)
	for _, pacing := range []awsretry.Pacing{awsretry.CubicPacing, awsretry.ScaledPacing} {
		t.Run(pacing.String(), func(t *testing.T) {
			const processes, callers = 20, 4
			const length = 20 * time.Second
			s := &service{rate: 100, burst: 20}
			ctx, cancel := context.WithTimeout(t.Context(), length)
			defer cancel()
			var wg sync.WaitGroup
			var done [processes]atomic.Int64
			for i := range processes {
				shared := fleet.New(fleet.Valkey(connect(t, addr)), fleet.Config{
					Prefix:  "test" + pacing.String(),
					OnError: func(p string, err error) { t.Log(p, err) },
				})
				defer shared.Close()
				tr := &awsretry.Transport{
					Base: s, Mode: awsretry.Adaptive, Shared: shared,
					RateLimit: awsretry.RateLimitConfig{Pacing: pacing},
				}
				for range callers {
					wg.Go(func() {
						for ctx.Err() == nil {
							req, _ := http.NewRequestWithContext(ctx, "GET", "http://service.test/", nil)
							resp, err := tr.RoundTrip(req)
							if err != nil {
								time.Sleep(time.Millisecond)
								continue
							}
							resp.Body.Close()
							if resp.StatusCode == 200 {
								done[i].Add(1)
							}
						}
					})
				}
				if i == 0 {
					wg.Go(func() {
						for ctx.Err() == nil {
							time.Sleep(time.Second)
							st, _ := tr.State("service.test")
							s.mu.Lock()
							t.Logf("%+v accepted %d throttled %d", st, s.accepted, s.throttled)
							s.mu.Unlock()
						}
					})
				}
			}
			wg.Wait()
			var sum, squares float64
			for i := range done {
				n := float64(done[i].Load())
				sum += n
				squares += n * n
			}
			t.Logf("goodput %.3f, throttled %.3f, fairness %.3f",
				float64(s.accepted)/(length.Seconds()*s.rate+s.burst),
				float64(s.throttled)/float64(s.accepted+s.throttled), sum*sum/(processes*squares))
		})
	}
}
