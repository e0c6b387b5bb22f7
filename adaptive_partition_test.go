package awsretry_test

import (
	"net/http"
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
