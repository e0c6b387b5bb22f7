package contract_test

import (
	"context"
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
	"example.com/awsretry/internal/contract"
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

// Requests for the rest take retry tokens. A response that brings much gives
// them back, and downloads that have progressed wait for the tokens of each
// other. So a service that breaks off each response after a byte is asked as
// often as the bucket pays for, and many downloads that break off once end well.
func TestTokensLimitResumedBodies(t *testing.T) {
	for _, tt := range []struct {
		downloads, size, each int
		once                  bool // each download breaks off once
		quota                 awsretry.QuotaConfig
		requests              int64
		left                  int // tokens
		stop                  awsretry.Stop
	}{
		{downloads: 1, size: 5_000, each: 1, requests: 101, left: 0, stop: awsretry.StopQuota},
		{downloads: 1, size: 50_000, each: 1 << 13, requests: 7, left: 475}, // 5 of 6 bring too little
		{downloads: 1, size: 50_000, each: 1 << 14, requests: 4, left: 500},
		{downloads: 300, size: 100_000, each: 40_000, once: true, requests: 600, left: 500},
		{downloads: 300, size: 100_000, each: 40_000, once: true, requests: 600, left: 5,
			quota: awsretry.QuotaConfig{Capacity: 5}},
		{downloads: 300, size: 100_000, each: 40_000, once: true, requests: 600, left: 500,
			quota: awsretry.QuotaConfig{RefillPerSecond: 1}},
		{downloads: 300, size: 100_000, each: 40_000, once: true, requests: 600, left: 500,
			quota: awsretry.QuotaConfig{RefillPerSecond: 100, Wait: true}},
	} {
		inBubble(t, fmt.Sprintf("%d of %d bytes, %d each, %+v", tt.downloads, tt.size, tt.each, tt.quota), func(t *testing.T) {
			var requests atomic.Int64
			tr := continuing(breaking(tt.size, tt.each, tt.once, &requests))
			tr.Quota = tt.quota
			var all sync.WaitGroup
			for range tt.downloads {
				all.Go(func() {
					resp, err := get(t, tr)
					if err != nil {
						t.Error(err)
						return
					}
					got, err := readToEnd(resp)
					if tt.stop != "" {
						wantBrokenOff(t, err, tt.stop, len(got))
					} else if err != nil || len(got) != tt.size {
						t.Errorf("%d bytes, %v", len(got), err)
					}
				})
			}
			all.Wait()
			if tokens := contract.TokensOf(t, tr); requests.Load() != tt.requests || tokens != tt.left {
				t.Errorf("%d requests, %d tokens left", requests.Load(), tokens)
			}
		})
	}
}

// A body that has progressed waits for the tokens of another call, and not
// longer than that may put them back.
func TestResumeWaitsForTokens(t *testing.T) {
	const deadline = 30 * time.Second
	later := func(o outcome) outcome {
		return func(req *http.Request, body io.ReadCloser) (*http.Response, error) {
			time.Sleep(10 * time.Second)
			return o(req, body)
		}
	}
	for _, tt := range []struct {
		name  string
		other outcome // of the other call's retry
		ctx   bool    // the caller has a deadline
		close bool    // the caller closes the body after 20 s
		after time.Duration
		stop  awsretry.Stop // "": none, all is read
	}{
		{name: "that come back", other: later(ok), after: 10 * time.Second},
		{name: "that are lost", other: later(fails(errReset)), after: 10 * time.Second, stop: awsretry.StopQuota},
		{name: "that stay away", other: hangs, after: time.Minute, stop: awsretry.StopQuota},
		{name: "that stay away up to the deadline", other: hangs, ctx: true, after: deadline - time.Second,
			stop: awsretry.StopDeadline},
		{name: "until Close", other: hangs, close: true, after: 20 * time.Second},
		{name: "that nobody has", other: fails(errReset), stop: awsretry.StopQuota},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			o := &object{breaks: broken100}
			tr := continuing(httpfake.Base(func(req *http.Request) (*http.Response, error) {
				switch {
				case req.Method == "GET":
					return o.RoundTrip(req)
				case awsretry.AttemptNumber(req.Context()) == 1:
					return nil, errReset
				}
				return tt.other(req, http.NoBody)
			}))
			tr.MaxAttempts, tr.Backoff, tr.Quota.Capacity = 2, contract.Delay(0), 8
			ctx, end := context.WithCancel(t.Context())
			defer end()
			if tt.ctx {
				tr.Backoff = contract.Delay(time.Second) // the wait ends before it
				ctx, end = context.WithTimeout(ctx, deadline)
				defer end()
			}
			other, endOther := context.WithCancel(t.Context())
			defer endOther()
			go tr.RoundTrip(httpfake.Request(t, other, "DELETE", nil))
			synctest.Wait()

			start := time.Now()
			resp := send(tr, httpfake.Request(t, ctx, "GET", nil)).response(t)
			if tt.close {
				time.AfterFunc(tt.after, func() { resp.Body.Close() })
			}
			got, err := readToEnd(resp)
			if took := time.Since(start).Round(time.Second); took != tt.after {
				t.Errorf("after %v, want %v", took, tt.after)
			}
			switch {
			case tt.close:
				if !errors.Is(err, http.ErrBodyReadAfterClose) {
					t.Error(err)
				}
			case tt.stop != "":
				wantBrokenOff(t, err, tt.stop, 100)
			case err != nil || got != letters:
				t.Errorf("%d bytes, %v", len(got), err)
			}
			o.wantClosed(t)
		})
	}
}

// In adaptive mode the request for the rest takes a send token. With FailFast
// the body ends where there is none.
func TestResumeTakesASendToken(t *testing.T) {
	for _, fast := range []bool{false, true} {
		inBubble(t, fmt.Sprint("FailFast ", fast), func(t *testing.T) {
			o := &object{breaks: []int{0, 100}, first: edits{withStatus(429)}}
			tr := continuing(o)
			tr.Mode, tr.RateLimit.FailFast, tr.Backoff = awsretry.Adaptive, fast, contract.Delay(0)
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

// The body does not keep the partition: another one may replace it.
func TestResumeReleasesThePartition(t *testing.T) {
	for _, breaks := range [][]int{{100}, {100, 0, 0, 0}} { // continued, given up
		synctest.Test(t, func(t *testing.T) {
			o := &object{breaks: breaks}
			tr := continuing(o)
			tr.MaxPartitions, tr.Quota = 1, awsretry.QuotaConfig{Wait: true, RefillPerSecond: 1}
			resp := sendGet(t, tr).response(t)
			io.Copy(io.Discard, resp.Body)
			other := httpfake.Request(t, awsretry.WithPartition(t.Context(), "other"), "GET", nil)
			send(tr, other).response(t)
			if _, kept := tr.State("service.example"); kept {
				t.Errorf("after breaks %v the partition of the first request is in use", breaks)
			}
			resp.Body.Close()
		})
	}
}
