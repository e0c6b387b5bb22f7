// Package retryablehttp compares this repository's retryablehttp with the
// original: go test -bench . -benchmem ./retryablehttp
package retryablehttp

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry/internal/httpfake"
	ours "example.com/awsretry/retryablehttp"
	original "github.com/hashicorp/go-retryablehttp"
)

// A client sends a request with a body, which may be nil.
type client func(method, url string, body any) (*http.Response, error)

// clients are both, silent and with short delays. They send through base.
var clients = map[string]func(base http.RoundTripper) client{
	"ours": func(base http.RoundTripper) client {
		c := ours.NewClient()
		c.HTTPClient, c.Logger = &http.Client{Transport: base}, nil
		c.RetryWaitMin, c.RetryWaitMax = time.Millisecond, time.Millisecond
		return func(method, url string, body any) (*http.Response, error) {
			req, err := ours.NewRequest(method, url, body)
			if err != nil {
				return nil, err
			}
			return c.Do(req)
		}
	},
	"original": func(base http.RoundTripper) client {
		c := original.NewClient()
		c.HTTPClient, c.Logger = &http.Client{Transport: base}, nil
		c.RetryWaitMin, c.RetryWaitMax = time.Millisecond, time.Millisecond
		return func(method, url string, body any) (*http.Response, error) {
			req, err := original.NewRequest(method, url, body)
			if err != nil {
				return nil, err
			}
			return c.Do(req)
		}
	},
}

func respond(req *http.Request, status int) (*http.Response, error) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		req.Body.Close()
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: req, ProtoMajor: 1}, nil
}

func get(b *testing.B, c client) {
	resp, err := c("GET", "http://service.test/", nil)
	if err != nil {
		b.Fatal(err)
	}
	resp.Body.Close()
}

// A request that succeeds, over a stub.
func BenchmarkSuccess(b *testing.B) {
	for name, of := range clients {
		b.Run(name, func(b *testing.B) {
			c := of(httpfake.Base(func(req *http.Request) (*http.Response, error) { return respond(req, 200) }))
			b.ReportAllocs()
			for b.Loop() {
				get(b, c)
			}
		})
	}
}

// A request with one retry, after 1 ms.
func BenchmarkRetry(b *testing.B) {
	for name, of := range clients {
		b.Run(name, func(b *testing.B) {
			n := 0
			c := of(httpfake.Base(func(req *http.Request) (*http.Response, error) {
				n++
				return respond(req, []int{503, 200}[(n+1)%2])
			}))
			b.ReportAllocs()
			for b.Loop() {
				get(b, c)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// An upload of 64 MiB from an io.Reader, to a server on loopback.
func BenchmarkUpload(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
	defer s.Close()
	for name, of := range clients {
		b.Run(name, func(b *testing.B) {
			c := of(nil)
			b.ReportAllocs()
			b.SetBytes(64 << 20)
			var peak uint64
			for b.Loop() {
				resp, err := c("PUT", s.URL, io.LimitReader(zeros{}, 64<<20))
				if err != nil {
					b.Fatal(err)
				}
				resp.Body.Close()
				var stats runtime.MemStats
				runtime.ReadMemStats(&stats)
				peak = max(peak, stats.HeapSys)
			}
			b.ReportMetric(float64(peak>>20), "MiB-heap")
		})
	}
}

// 1,000 callers, of 5 calls each, of a service that is down: how many attempts it
// gets for each call.
func BenchmarkOutage(b *testing.B) {
	for name, of := range clients {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				var attempts atomic.Int64
				c := of(httpfake.Base(func(req *http.Request) (*http.Response, error) {
					attempts.Add(1)
					return respond(req, 503)
				}))
				var callers sync.WaitGroup
				for range 1000 {
					callers.Go(func() {
						for range 5 {
							if resp, err := c("GET", "http://service.test/", nil); err == nil {
								resp.Body.Close()
							}
						}
					})
				}
				callers.Wait()
				b.ReportMetric(float64(attempts.Load())/5000, "attempts/call")
			}
		})
	}
}
