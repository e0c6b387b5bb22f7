package awsretry_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
)

// outcomes are how the calls of TestDeadlinesOfAdaptiveCallers ended.
type outcomes struct {
	mu                               sync.Mutex
	ok, throttled, refused, deadline int
}

func (o *outcomes) add(resp *http.Response, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil && resp.StatusCode == 200:
		o.ok++
	case err == nil:
		o.throttled++
	case errors.Is(err, awsretry.ErrRateLimited):
		o.refused++
	default:
		o.deadline++
	}
}

// TestDeadlinesOfAdaptiveCallers: a retry that comes too late in the line returns
// the response before it, and the deadline ends nothing.
func TestDeadlinesOfAdaptiveCallers(t *testing.T) {
	for _, tt := range []struct {
		name       string
		rate       float64 // of the service; 0: it throttles everything
		callers    int
		calls      int // of each caller
		leastOK    int
		mostFailed int // refused before the first attempt
	}{
		{"all throttled but one", 0, 100, 1, 0, 0},
		{"20/s", 20, 16, 1, 16, 0},
		{"100/s", 100, 100, 1, 55, 0},
		{"100/s, five calls each", 100, 100, 5, 230, 250},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := newThrottlingService(schedule{{0, tt.rate}}, 0)
				tr := &awsretry.Transport{Mode: awsretry.Adaptive, Base: service}
				var got outcomes
				var all sync.WaitGroup
				for range tt.callers {
					all.Go(func() {
						for range tt.calls {
							ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
							resp, err := tr.RoundTrip(request(t, ctx, "GET", nil))
							got.add(resp, err)
							if resp != nil {
								whole(t, resp)
							}
							cancel()
						}
					})
				}
				all.Wait()
				t.Logf("%d succeeded, %d throttled, %d refused, %d lost to the deadline", got.ok, got.throttled, got.refused, got.deadline)
				if got.deadline > 0 || got.ok < tt.leastOK || got.refused > tt.mostFailed {
					t.Fail()
				}
			})
		})
	}
}
