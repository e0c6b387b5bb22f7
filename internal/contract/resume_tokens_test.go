package contract_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// breaking returns a Base whose objects have size bytes. Each response takes a
// second and breaks off after each bytes; with once only the first one of a
// download does.
func breaking(size, each int, once bool, requests *atomic.Int64) httpfake.Base {
	content := strings.Repeat("x", size)
	return func(req *http.Request) (*http.Response, error) {
		requests.Add(1)
		o := &object{content: content, breaks: []int{each}}
		if once && req.Header.Get("Range") != "" {
			o.breaks = nil
		}
		resp, err := o.RoundTrip(req)
		src, pause := resp.Body, sync.OnceFunc(func() { time.Sleep(time.Second) })
		resp.Body = io.NopCloser(httpfake.ReadFunc(func(p []byte) (int, error) {
			pause()
			return src.Read(p)
		}))
		return resp, err
	}
}

// Requests for the rest take retry tokens, unless the response before brought much.
// So a service that breaks off each response after a byte is asked as often as the
// bucket pays for, and many downloads that break off at once end well.
func TestTokensLimitResumedBodies(t *testing.T) {
	for _, tt := range []struct {
		downloads, size, each int
		quota                 awsretry.QuotaConfig
		requests              int64
		left                  int // tokens
		stop                  awsretry.Stop
	}{
		{downloads: 1, size: 5_000, each: 1, requests: 101, left: 0, stop: awsretry.StopQuota},
		{downloads: 1, size: 50_000, each: 1 << 13, requests: 7, left: 475}, // 5 of 6 bring too little
		{downloads: 1, size: 50_000, each: 1 << 14, requests: 4, left: 500},
		// Of several downloads, each breaks off once.
		{downloads: 300, size: 100_000, each: 40_000, requests: 600, left: 500},
		{downloads: 300, size: 100_000, each: 40_000, requests: 600, left: 4, quota: quota{Capacity: 4}},
	} {
		name := fmt.Sprintf("%d of %d bytes, %d each, %+v", tt.downloads, tt.size, tt.each, tt.quota)
		inBubble(t, name, func(t *testing.T) {
			var requests atomic.Int64
			tr := continuing(breaking(tt.size, tt.each, tt.downloads > 1, &requests))
			tr.Quota = tt.quota
			var all sync.WaitGroup
			for range tt.downloads {
				all.Go(func() {
					got, err := readToEnd(sendGet(t, tr).Response)
					if tt.stop != "" {
						wantBrokenOff(t, err, tt.stop, len(got))
					} else if err != nil || len(got) != tt.size {
						t.Errorf("%d bytes, %v", len(got), err)
					}
				})
			}
			all.Wait()
			if wantTokens(t, tr, tt.left); requests.Load() != tt.requests {
				t.Errorf("%d requests", requests.Load())
			}
		})
	}
}

// A request for the rest that brings little gives up its tokens at the break.
func TestBreakGivesUpTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := continuing(&object{breaks: []int{100, 10}})
		tr.Quota.Capacity, tr.Backoff = 8, delayed(0)
		start := time.Now()
		_, err := readToEnd(sendGet(t, tr).response(t))
		if wantBrokenOff(t, err, awsretry.StopQuota, 110); time.Since(start) != 0 {
			t.Errorf("after %v", time.Since(start))
		}
	})
}

// The body does not keep the partition: another one may replace it.
func TestResumeReleasesThePartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := continuing(&object{breaks: broken100})
		tr.MaxPartitions, tr.Quota = 1, quota{Wait: true, RefillPerSecond: 1}
		readToEnd(sendGet(t, tr).response(t))
		getOf(t, tr, "other").response(t)
		if _, kept := tr.State("service.example"); kept {
			t.Error("the partition of the first request is in use")
		}
	})
}

// In adaptive mode the request for the rest takes a send token. With FailFast
// the body ends where there is none.
func TestResumeTakesASendToken(t *testing.T) {
	for _, fast := range []bool{false, true} {
		inBubble(t, fmt.Sprint("FailFast ", fast), func(t *testing.T) {
			o := &object{breaks: []int{0, 100}, first: edits{withStatus(429)}}
			tr := continuing(o)
			tr.Mode, tr.RateLimit.FailFast, tr.Backoff = awsretry.Adaptive, fast, delayed(0)
			waited := make(map[int64]time.Duration)
			tr.Observe = func(a awsretry.Attempt) { waited[a.Offset] = a.Waited }
			throttled := send(tr, httpfake.Request(t, awsretry.WithoutRetry(t.Context()), "GET", nil)).response(t)
			throttled.Body.Close()
			time.Sleep(2 * time.Second) // one token at the lowest rate
			resp := sendGet(t, tr).response(t)
			got, err := readToEnd(resp)
			if !fast {
				if err != nil || got != letters || waited[100] == 0 {
					t.Errorf("%d bytes, %v; the request for the rest waited %v", len(got), err, waited[100])
				}
				return
			}
			wantBrokenOff(t, err, awsretry.StopRateLimit, 100)
			if !errors.Is(err, awsretry.ErrRateLimited) || !errors.Is(err, errBroken) {
				t.Error(err)
			}
			o.wantClosed(t)
		})
	}
}
