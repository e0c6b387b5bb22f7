package interop

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"github.com/PuerkitoBio/rehttp"
)

// A service tells 200 callers to come back after 5 s. Meanwhile, 200 others
// call for the first time. The test compares when the requests of each library
// arrive.
func TestHerd(t *testing.T) {
	const delay = 5 * time.Second
	var table strings.Builder
	table.WriteString("\n| | sent in the 5 s | retried before they were over | in the first 100 ms after | " +
		"in the busiest second | succeeded |\n|---|---|---|---|---|---|\n")
	for _, tt := range []struct {
		name string
		wrap wrapper
		ours bool // nothing arrives in the 5 s
	}{
		{name: "go-retryablehttp", wrap: retryablehttpOf()},
		{name: "rehttp", wrap: rehttpWith(rehttp.RetryStatuses(429), rehttp.ExpJitterDelay(time.Second, 20*time.Second))},
		{name: "failsafe-go", wrap: failsafeOf()},
		{name: "awsretry", wrap: awsretryOf(withoutQuota)},
		{name: "awsretry, `ShareRetryAfter`", ours: true, wrap: awsretryOf(withoutQuota, func(tr *awsretry.Transport) {
			tr.ShareRetryAfter = true
		})},
		{
			name: "awsretry, `ShareRetryAfter`, `RetryAfterSpread: 5 * time.Second`", ours: true,
			wrap: awsretryOf(withoutQuota, func(tr *awsretry.Transport) {
				tr.ShareRetryAfter, tr.RetryAfterSpread = true, delay
			}),
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			h := &herd{
				start: start, until: start.Add(delay),
				called: map[string]time.Time{}, perSecond: map[time.Duration]int{},
			}
			client := &http.Client{Transport: tt.wrap(httpfake.Base(h.serve), nil)}
			var all sync.WaitGroup
			for i := range 400 {
				all.Go(func() {
					if i >= 200 {
						// Spread over the 5 s; the first responses come after 1 ms.
						time.Sleep(time.Duration(i-200)*delay/201 + 2*time.Millisecond)
					}
					resp, err := client.Get(fmt.Sprint("http://service.example/", i))
					h.end(resp, err)
				})
			}
			all.Wait()
			fmt.Fprintf(&table, "| %s | %d | %d | %d | %d | %d |\n",
				tt.name, h.during, h.early, h.atOnce, h.busiest, h.succeeded)
			if tt.ours && (h.during > 0 || h.early > 0 || h.succeeded != 400) {
				t.Errorf("%s: %d sent in the 5 s, %d retried early, %d succeeded",
					tt.name, h.during, h.early, h.succeeded)
			}
			if tt.name == "awsretry" && h.early > 0 {
				t.Errorf("%d retries are early", h.early)
			}
		})
	}
	t.Log(table.String())
	updateDocument(t, "TestHerd", "herd.md", "When all clients get the same second", table.String())
}

// withoutQuota makes awsretry like the peers, which have no quota.
func withoutQuota(tr *awsretry.Transport) { tr.Quota.Capacity = -1 }

// A herd is the callers of a service that is closed until a time.
type herd struct {
	start, until time.Time

	mu                             sync.Mutex // guards the fields below
	called                         map[string]time.Time
	during, early, atOnce, busiest int // requests: see the header of the table
	perSecond                      map[time.Duration]int
	succeeded                      int
}

func (h *herd) serve(req *http.Request) (*http.Response, error) {
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
	if again && now.Before(called.Add(5*time.Second)) {
		h.early++
	}
	if now.Before(h.until) {
		if !again && !now.Equal(h.start) {
			h.during++
		}
		h.called[caller] = now
		return true
	}
	after := now.Sub(h.until)
	h.perSecond[after/time.Second]++
	h.busiest = max(h.busiest, h.perSecond[after/time.Second])
	if after < 100*time.Millisecond {
		h.atOnce++
	}
	return false
}

func (h *herd) end(resp *http.Response, err error) {
	if err != nil {
		return
	}
	resp.Body.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	if resp.StatusCode == 200 {
		h.succeeded++
	}
}
