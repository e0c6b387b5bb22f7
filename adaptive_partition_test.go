package awsretry_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
)

// While the callers of one table stand in line for its send tokens, those of another pass at full speed.
func TestLineOfOnePartitionHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const length = 20 * time.Second
		hot := newThrottlingService(schedule{{0, 5}}, 0)
		cold := newThrottlingService(schedule{{0, 1000}}, 0)
		table := func(r *http.Request) string { return r.Header.Get("Table") }
		tr := &awsretry.Transport{
			Mode: awsretry.Adaptive, Partition: table,
			Base: roundTripper(func(r *http.Request) (*http.Response, error) {
				if table(r) == "hot" {
					return hot.RoundTrip(r)
				}
				return cold.RoundTrip(r)
			}),
		}
		call := func(table string) (status int, took time.Duration) {
			start := time.Now()
			req := newRequest(t, "GET", nil)
			req.Header.Set("Table", table)
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Error(err)
				return 0, 0
			}
			resp.Body.Close()
			return resp.StatusCode, time.Since(start)
		}
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for hot.now() < length {
					call("hot")
				}
			})
		}
		for range 4 {
			wg.Go(func() {
				for cold.now() < length {
					if status, took := call("cold"); status != http.StatusOK || took != simulatedLatency {
						t.Errorf("a call to the cold table gave %d after %v", status, took)
						return
					}
				}
			})
		}
		wg.Wait()
		if state, _ := tr.State("hot"); !state.Limited || hot.throttled == 0 {
			t.Errorf("the hot table's buckets: %+v, with %d attempts throttled", state, hot.throttled)
		}
		if state, _ := tr.State("cold"); state.Limited || state.Tokens != 500 || cold.admitted != 4*int(length/simulatedLatency) {
			t.Errorf("the cold table's buckets: %+v, with %d calls", state, cold.admitted)
		}
	})
}

// State shows the line for send tokens, and who would stand in it too long is told so at once, without a request.
func TestLineOfAPartition(t *testing.T) {
	for _, limit := range []string{"deadline", "MaxWait"} {
		t.Run(limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := &awsretry.Transport{Mode: awsretry.Adaptive, MaxAttempts: 1, Base: sequence(429, 200)}
				ctx := t.Context()
				if limit == "MaxWait" {
					tr.RateLimit.MaxWait = 7 * time.Second
				} else {
					var cancel func()
					ctx, cancel = context.WithTimeout(ctx, 8*time.Second)
					defer cancel()
				}
				state := func() (waiting int, expected time.Duration) {
					s, _ := tr.State("service.example")
					return s.Waiting, s.ExpectedWait
				}
				if _, err := get(t, tr); err != nil { // from now on a token every 2 s
					t.Fatal(err)
				}
				if waiting, expected := state(); waiting != 0 || expected != 2*time.Second {
					t.Errorf("nobody is in line: %d, %v", waiting, expected)
				}
				var wg sync.WaitGroup
				for range 3 {
					wg.Go(func() {
						if _, err := get(t, tr); err != nil {
							t.Error(err)
						}
					})
				}
				synctest.Wait()
				if waiting, expected := state(); waiting != 3 || expected != 8*time.Second {
					t.Errorf("three are in line: %d, %v", waiting, expected)
				}
				start := time.Now()
				_, err := tr.RoundTrip(newRequest(t, "GET", nil).WithContext(ctx))
				var e *awsretry.Error
				if !errors.Is(err, awsretry.ErrRateLimited) || !errors.As(err, &e) || e.Stop != awsretry.StopRateLimit || e.Attempts != 0 ||
					!strings.Contains(err.Error(), limit) {
					t.Errorf("got %v, want it refused because of the %s", err, limit)
				}
				if took := time.Since(start); took != 0 {
					t.Errorf("refused after %v", took)
				}
				wg.Wait()
			})
		})
	}
}
