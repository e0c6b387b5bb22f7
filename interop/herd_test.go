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
	"github.com/PuerkitoBio/rehttp"
)

// TestHerd has a service tell 200 callers at once to come back after 5 s, while 200 others come for the first time. It compares
// when their requests arrive.
func TestHerd(t *testing.T) {
	const pause = 5 * time.Second
	var table strings.Builder
	fmt.Fprintf(&table, "\n| | sent in the 5 s | back before them | in the first 100 ms after | in the busiest second | succeeded |\n|---|---|---|---|---|---|\n")
	for _, c := range []struct {
		name string
		wrap wrapper
		ours bool // the row that keeps the promises
	}{
		{name: "go-retryablehttp", wrap: retryablehttpOf()},
		{name: "rehttp", wrap: rehttpWith(rehttp.RetryStatuses(429), rehttp.ExpJitterDelay(time.Second, 20*time.Second))},
		{name: "failsafe-go", wrap: failsafeOf()},
		{name: "awsretry", wrap: awsretryOf()},
		{name: "awsretry, `ShareRetryAfter`", ours: true, wrap: awsretryOf(func(t *awsretry.Transport) { t.ShareRetryAfter = true })},
		{name: "awsretry, `ShareRetryAfter` over 5 s", ours: true, wrap: awsretryOf(func(t *awsretry.Transport) {
			t.ShareRetryAfter, t.RetryAfterSpread = true, pause
		})},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			h := &herd{start: start, until: start.Add(pause), told: map[string]time.Time{}, perSecond: map[time.Duration]int{}}
			client := &http.Client{Transport: c.wrap(h, nil)}
			if tr, ok := client.Transport.(*awsretry.Transport); ok {
				tr.Quota.Capacity = -1 // as the peers have none
			}
			var all sync.WaitGroup
			for i := range 400 {
				all.Go(func() {
					if i >= 200 {
						time.Sleep(time.Duration(i-200)*pause/201 + time.Millisecond) // all over the pause
					}
					resp, err := client.Get(fmt.Sprint("http://service.example/", i))
					h.end(resp, err)
				})
			}
			all.Wait()
			row := h.row
			fmt.Fprintf(&table, "| %s | %d | %d | %d | %d | %d |\n", c.name, row.during, row.early, row.atOnce, row.busiest, h.succeeded)
			if c.ours && (row.during > 0 || row.early > 0 || h.succeeded != 400) {
				t.Errorf("%s: %+v", c.name, row)
			}
			if c.name == "awsretry" && row.early > 0 {
				t.Errorf("%d come back early", row.early)
			}
		})
	}
	t.Log(table.String())
}

// A herd is the callers of a service that is closed until a time.
type herd struct {
	start, until time.Time

	mu        sync.Mutex
	told      map[string]time.Time // when a caller was told to come back
	row       herdRow
	perSecond map[time.Duration]int
	succeeded int
}

func (h *herd) RoundTrip(req *http.Request) (*http.Response, error) {
	resp := &http.Response{StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, Request: req}
	if h.arrive(req.URL.Path) {
		resp.StatusCode = 429
		resp.Header.Set("Retry-After", "5")
	}
	time.Sleep(time.Millisecond)
	return resp, nil
}

// arrive counts a request, and reports whether the service is closed.
func (h *herd) arrive(caller string) (closed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	told, again := h.told[caller]
	if again && now.Before(told.Add(5*time.Second)) {
		h.row.early++
	}
	if now.Before(h.until) {
		if !again && !now.Equal(h.start) {
			h.row.during++
		}
		h.told[caller] = now
		return true
	}
	after := now.Sub(h.until)
	h.perSecond[after/time.Second]++
	h.row.busiest = max(h.row.busiest, h.perSecond[after/time.Second])
	if after < 100*time.Millisecond {
		h.row.atOnce++
	}
	return false
}

func (h *herd) end(resp *http.Response, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		resp.Body.Close()
		if resp.StatusCode == 200 {
			h.succeeded++
		}
	}
}

type herdRow struct{ during, early, atOnce, busiest int }
