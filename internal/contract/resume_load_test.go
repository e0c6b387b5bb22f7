package contract

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
	"example.com/awsretry/internal/httpfake"
)

// breaking returns a base whose objects have size bytes. Each response breaks
// off after each bytes and a second, where each is above 0; with once only the
// first of a download does.
func breaking(size, each int, once bool, requests *atomic.Int64) http.RoundTripper {
	content := strings.Repeat("x", size)
	return httpfake.Base(func(req *http.Request) (*http.Response, error) {
		requests.Add(1)
		o := &object{content: content, etag: `"v1"`, breaks: []int{each}}
		if once && req.Header.Get("Range") != "" {
			o.breaks = nil
		}
		resp, err := o.RoundTrip(req)
		slow := time.After(time.Second)
		src := resp.Body
		resp.Body = struct {
			io.Reader
			io.Closer
		}{httpfake.ReadFunc(func(p []byte) (int, error) {
			select {
			case <-slow:
			default:
				<-slow
			}
			n, err := src.Read(p)
			slow = closedTime
			return n, err
		}), src}
		return resp, err
	})
}

var closedTime = func() chan time.Time { c := make(chan time.Time); close(c); return c }()

// Downloads that break off at once and have progressed wait for the tokens of
// each other.
func TestManyResumedBodies(t *testing.T) {
	const downloads, size = 300, 100_000
	for _, quota := range []awsretry.QuotaConfig{
		{}, {Capacity: 5}, {RefillPerSecond: 1, Capacity: 500}, {RefillPerSecond: 100, Wait: true},
	} {
		t.Run(fmt.Sprintf("%+v", quota), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var requests atomic.Int64
				tr := &awsretry.Transport{
					Base: breaking(size, 40_000, true, &requests), Resume: true, Policy: retryBroken, Quota: quota,
				}
				var all sync.WaitGroup
				for range downloads {
					all.Go(func() {
						resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), http.MethodGet, nil))
						if err != nil {
							t.Error(err)
							return
						}
						defer resp.Body.Close()
						if got, err := io.ReadAll(resp.Body); err != nil || len(got) != size {
							t.Errorf("%d bytes, %v", len(got), err)
						}
					})
				}
				all.Wait()
				want := 500
				if quota.Capacity > 0 {
					want = quota.Capacity
				}
				if tokens := TokensOf(t, tr); requests.Load() != 2*downloads || tokens != want {
					t.Errorf("%d requests, %d tokens", requests.Load(), tokens)
				}
			})
		})
	}
}

// A service that breaks off each response after a byte is asked as often as the
// retry token bucket pays for. A response that brings much gives its tokens
// back.
func TestTokensLimitResumedBodies(t *testing.T) {
	for _, tt := range []struct {
		size, each int
		requests   int64
		left       int // tokens
		stop       awsretry.Stop
	}{
		{5_000, 1, 101, 0, awsretry.StopQuota},
		{50_000, 1 << 13, 7, 475, ""}, // 5 of 6 bring too little
		{50_000, 1 << 14, 4, 500, ""},
	} {
		t.Run(fmt.Sprint(tt.each, " of ", tt.size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var requests atomic.Int64
				tr := &awsretry.Transport{Base: breaking(tt.size, tt.each, false, &requests), Resume: true, Policy: retryBroken}
				resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), http.MethodGet, nil))
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if tokens := TokensOf(t, tr); requests.Load() != tt.requests || tokens != tt.left {
					t.Errorf("%d requests, %d tokens left", requests.Load(), tokens)
				}
				if tt.stop != "" {
					wantBrokenOff(t, err, tt.stop, len(got))
				} else if err != nil || len(got) != tt.size {
					t.Errorf("%d bytes of %d, %v", len(got), tt.size, err)
				}
			})
		})
	}
}

// A body that has progressed waits for the tokens of another, and not longer
// than that may put them back.
func TestResumeWaitsForTokens(t *testing.T) {
	const deadline = 30 * time.Second
	for _, tt := range []struct {
		name  string
		other func(req *http.Request) (*http.Response, error) // its retry's response, 10 s after its first
		ctx   bool                                            // the caller has a deadline
		close bool                                            // the caller closes the body after 20 s
		after time.Duration
		stop  awsretry.Stop // "": none, all is read
	}{
		{
			name: "that come back", after: 10 * time.Second,
			other: func(req *http.Request) (*http.Response, error) {
				time.Sleep(10 * time.Second)
				return httpfake.Response(req, 200, http.NoBody), nil
			},
		},
		{
			name: "that are lost", after: 10 * time.Second, stop: awsretry.StopQuota,
			other: func(*http.Request) (*http.Response, error) {
				time.Sleep(10 * time.Second)
				return nil, errors.New("broken")
			},
		},
		{name: "that stay away", after: time.Minute, stop: awsretry.StopQuota, other: hangingResponse},
		{
			name: "that stay away up to the deadline", ctx: true, after: deadline - time.Second,
			stop: awsretry.StopDeadline, other: hangingResponse,
		},
		{name: "until Close", close: true, after: 20 * time.Second, other: hangingResponse},
		{name: "that nobody has", stop: awsretry.StopQuota},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &object{content: letters, etag: `"v1"`, breaks: []int{100}}
				tr := &awsretry.Transport{
					Resume: true, Policy: retryBroken, MaxAttempts: 2, Backoff: Delay(0), Quota: awsretry.QuotaConfig{Capacity: 8},
					Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
						switch {
						case req.Method == http.MethodGet:
							return o.RoundTrip(req)
						case awsretry.AttemptNumber(req.Context()) == 1:
							return nil, errors.New("broken")
						}
						return tt.other(req)
					}),
				}
				if tt.ctx {
					tr.Backoff = Delay(time.Second) // the wait ends before it
				}
				other, end := context.WithCancel(t.Context())
				defer end()
				if tt.other == nil { // a retry that fails takes the tokens with it
					tt.other = func(*http.Request) (*http.Response, error) { return nil, errors.New("broken") }
				}
				go tr.RoundTrip(httpfake.Request(t, other, http.MethodDelete, nil))
				synctest.Wait()

				ctx := t.Context()
				if tt.ctx {
					var end context.CancelFunc
					ctx, end = context.WithTimeout(ctx, deadline)
					defer end()
				}
				start := time.Now()
				resp, err := tr.RoundTrip(httpfake.Request(t, ctx, http.MethodGet, nil))
				if err != nil {
					t.Fatal(err)
				}
				if tt.close {
					time.AfterFunc(tt.after, func() { resp.Body.Close() })
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
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
				case err != nil || string(got) != letters:
					t.Errorf("%d bytes, %v", len(got), err)
				}
				o.wantClosed(t)
			})
		})
	}
}

func hangingResponse(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}
