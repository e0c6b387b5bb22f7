package letters

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
)

// When the stop is requested, a delay ends at once, but an attempt does not.
func TestGentleStop(t *testing.T) {
	for _, c := range []struct {
		name     string
		after    time.Duration // the stop is requested
		elapsed  time.Duration
		attempts int
		waiting  bool
	}{
		{"in the first attempt", 2 * time.Second, 5 * time.Second, 1, true},
		{"in the delay", 8 * time.Second, 8 * time.Second, 1, false},
		{"in the second attempt", 17 * time.Second, 20 * time.Second, 2, true},
		{"not in time", time.Hour, 35 * time.Second, 3, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stop, attempts, waiting := newGentleStop(), 0, false
				transport := &awsretry.Transport{
					Base: stop.base(roundTripper(func(req *http.Request) (*http.Response, error) {
						attempts++
						select {
						case <-time.After(5 * time.Second):
							return &http.Response{StatusCode: 503, Body: http.NoBody, Request: req}, nil
						case <-req.Context().Done():
							return nil, req.Context().Err()
						}
					})),
					Backoff: awsretry.BackoffFunc(
						func(int, awsretry.Class, time.Duration) time.Duration { return 10 * time.Second }),
				}
				interrupted, cancel := context.WithTimeout(context.Background(), c.after)
				defer cancel()
				end := stop.follow(interrupted, func() { waiting = true })
				ctx, cancelRequest := stop.context(interrupted)
				defer cancelRequest(nil)
				start := time.Now()
				req := httptest.NewRequest("GET", "http://127.0.0.1/", nil)
				resp, err := transport.RoundTrip(req.WithContext(awsretry.WithObserver(ctx, stop.attempted)))
				end()
				if elapsed := time.Since(start); elapsed != c.elapsed || attempts != c.attempts ||
					waiting != c.waiting {
					t.Errorf("%d attempts in %v, waiting: %t; want %d in %v, %t",
						attempts, elapsed, waiting, c.attempts, c.elapsed, c.waiting)
				}
				if stopped := c.after < time.Minute; stopped != (err != nil) || !stopped && resp.StatusCode != 503 {
					t.Errorf("%v, %v", resp, err)
				}
			})
		})
	}
}

// A stop that is requested before a request begins ends it.
func TestGentleStopBefore(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := newGentleStop()
	end := stop.follow(ctx, func() { t.Error("no attempt is in progress") })
	cancel(io.ErrClosedPipe)
	end()
	next, cancelNext := stop.context(ctx)
	defer cancelNext(nil)
	if context.Cause(next) != io.ErrClosedPipe {
		t.Errorf("the cause is %v", context.Cause(next))
	}
}
