package interop

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
	"example.com/awsretry/interop/internal/peers"
	"github.com/PuerkitoBio/rehttp"
)

// A service tells 200 callers to come back after 5 s. Meanwhile, 200 others
// call for the first time. The test compares when the requests of each library
// arrive.
func TestHerd(t *testing.T) {
	var table strings.Builder
	table.WriteString("\n| | sent in the 5 s | retried before they were over | in the first 100 ms after | " +
		"in the busiest second | succeeded |\n|---|---|---|---|---|---|\n")
	share := func(tr *awsretry.Transport) { tr.ShareRetryAfter = true }
	spread := func(tr *awsretry.Transport) { tr.RetryAfterSpread = closedFor }
	for _, tt := range []struct {
		name string
		wrap peers.Wrap
		ours bool // nothing arrives in the 5 s
	}{
		{"go-retryablehttp", peers.Retryablehttp(), false},
		{"rehttp", peers.Rehttp(2, rehttp.RetryStatuses(429), rehttp.ExpJitterDelay(time.Second, 20*time.Second)), false},
		{"failsafe-go", peers.Failsafe(), false},
		{"awsretry", peers.Awsretry(withoutQuota), false},
		{"awsretry, `ShareRetryAfter`", peers.Awsretry(withoutQuota, share), true},
		{"awsretry, `ShareRetryAfter`, `RetryAfterSpread: 5 * time.Second`", peers.Awsretry(withoutQuota, share, spread), true},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := &herd{start: time.Now(), called: map[string]time.Time{}, perSecond: map[time.Duration]int{}}
			client := &http.Client{Transport: tt.wrap(h)}
			var all sync.WaitGroup
			var succeeded atomic.Int32
			for i := range 400 {
				all.Go(func() {
					if i >= 200 { // spread over the 5 s; the first responses come after 1 ms
						time.Sleep(time.Duration(i-200)*closedFor/201 + 2*time.Millisecond)
					}
					if _, err := kit.Text(client.Get(fmt.Sprint("http://service.example/", i))); err == nil {
						succeeded.Add(1)
					}
				})
			}
			all.Wait()
			fmt.Fprintf(&table, "| %s | %d | %d | %d | %d | %d |\n",
				tt.name, h.during, h.early, h.atOnce, h.busiest, succeeded.Load())
			if tt.ours && (h.during > 0 || succeeded.Load() != 400) || h.early > 0 && strings.HasPrefix(tt.name, "awsretry") {
				t.Errorf("%s: %d sent in the 5 s, %d retried early, %d succeeded", tt.name, h.during, h.early, succeeded.Load())
			}
		})
	}
	t.Log(table.String())
	kit.Page{File: "herd.md", Title: "When all clients get the same second", By: "interop TestHerd"}.Update(t, table.String())
}

// withoutQuota makes awsretry like the peers, which have no quota.
func withoutQuota(tr *awsretry.Transport) { tr.Quota.Capacity = -1 }

// A herd is the callers of a service that is closed at first.
type herd struct {
	start time.Time

	mu                             sync.Mutex // guards the fields below
	called                         map[string]time.Time
	during, early, atOnce, busiest int // requests: see the header of the table
	perSecond                      map[time.Duration]int
}

const closedFor = 5 * time.Second

func (h *herd) RoundTrip(req *http.Request) (*http.Response, error) {
	resp := httpfake.Response(req, 200, http.NoBody)
	if h.arrive(req.URL.Path) {
		resp = httpfake.Response(req, 429, http.NoBody, "Retry-After", "5")
	}
	time.Sleep(time.Millisecond)
	return resp, nil
}

// arrive counts a request. It reports whether the service is closed.
func (h *herd) arrive(caller string) (closed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	called, again := h.called[caller]
	if again && now.Before(called.Add(closedFor)) {
		h.early++
	}
	after := now.Sub(h.start) - closedFor
	if after < 0 {
		if !again && now.After(h.start) {
			h.during++
		}
		h.called[caller] = now
		return true
	}
	h.perSecond[after/time.Second]++
	h.busiest = max(h.busiest, h.perSecond[after/time.Second])
	if after < 100*time.Millisecond {
		h.atOnce++
	}
	return false
}
