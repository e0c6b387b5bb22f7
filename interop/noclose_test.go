package interop

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/adaptivethrottler"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/fallback"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/failsafe-go/failsafe-go/timeout"
)

// A carelessCase is a request through a Base that does not close request bodies, or not when it should.
type carelessCase struct {
	name    string
	base    func(http.RoundTripper) http.RoundTripper
	service []http.HandlerFunc // in turn
	sent    int                // requests that the service is to see
	status  int                // of the response, or else
	err     error              // what is found in the error
	seeks   bool               // it moves a file to its beginning while it still reads it for another request
}

// run sends a body of each kind, and wants RoundTrip to return, every attempt's body whole, and the caller's closed once.
func (c carelessCase) run(t *testing.T) {
	kinds := []bodyKind{{name: "pipe", content: content, open: openPipe}}
	for _, kind := range bodyKinds {
		if kind.name == "stream of known length" || kind.name == "file" && !c.seeks {
			kinds = append(kinds, kind)
		}
	}
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			service := newThrottler(t, c.service...)
			transport := retrying(c.base(newPool(t)))
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPut, service.URL, kind.open(t))
			if err != nil {
				t.Fatal(err)
			}
			var closes atomic.Int32
			kind.finish(req, &closes)
			resp, err := transport.RoundTrip(req)
			switch {
			case ctx.Err() != nil:
				t.Fatalf("RoundTrip returned only when the context had ended: %v", err)
			case c.err != nil && !errors.Is(err, c.err):
				t.Errorf("the error is %v, want %v", err, c.err)
			case c.err == nil && (err != nil || resp.StatusCode != c.status):
				t.Errorf("%v, %v, want status %d", resp, err, c.status)
			}
			if resp != nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			bodies := service.requests()
			if len(bodies) != c.sent || slices.ContainsFunc(bodies, func(r sentRequest) bool { return r.body != string(content) }) {
				t.Errorf("the service received %d bodies, want %d, or one was not whole", len(bodies), c.sent)
			}
			if !eventually(func() bool { return closes.Load() > 0 }) || closes.Load() != 1 {
				t.Errorf("the caller's body was closed %d times", closes.Load())
			}
		})
	}
}

// openPipe returns what a goroutine writes, in pieces.
func openPipe(testing.TB) io.Reader {
	body, w := io.Pipe()
	go func() {
		for piece := range slices.Chunk(content, 10_000) {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
		w.Close()
	}()
	return body
}

// TestFailsafeBelow has failsafe-go's policies send what a Transport retries. They read a request body whole before they do
// anything else, and never close it.
func TestFailsafeBelow(t *testing.T) {
	policies := func(all ...answerPolicy) func(http.RoundTripper) http.RoundTripper {
		return func(b http.RoundTripper) http.RoundTripper { return failsafehttp.NewRoundTripper(b, all...) }
	}
	busy, ok := answer(503, "busy"), answer(200, "{}")
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	slow := func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(time.Second):
			ok(w, r)
		case <-r.Context().Done():
		}
	}
	openBreaker := func(b http.RoundTripper) http.RoundTripper {
		breaker := circuitbreaker.NewWithDefaults[*http.Response]()
		breaker.Open()
		return policies(breaker)(b)
	}
	breakerFor := func(b http.RoundTripper) http.RoundTripper { return policies(breaker())(b) }
	fullBulkhead := func(b http.RoundTripper) http.RoundTripper {
		full := bulkhead.New[*http.Response](1)
		full.TryAcquirePermit()
		return policies(full)(b)
	}
	spentLimiter := func(b http.RoundTripper) http.RoundTripper {
		return policies(ratelimiter.NewBursty[*http.Response](1, time.Hour))(b)
	}
	fallBack := func(b http.RoundTripper) http.RoundTripper {
		return policies(fallback.NewBuilderWithFunc(func(failsafe.Execution[*http.Response]) (*http.Response, error) {
			return &http.Response{StatusCode: 203, Header: make(http.Header), Body: io.NopCloser(strings.NewReader("fallback"))}, nil
		}).HandleIf(func(resp *http.Response, err error) bool { return err != nil || resp.StatusCode >= 500 }).Build())(b)
	}
	for _, c := range []carelessCase{
		{name: "circuit breaker, closed", base: breakerFor, service: []http.HandlerFunc{busy, ok}, sent: 2, status: 200},
		{name: "circuit breaker, closed, no retry", base: breakerFor, service: []http.HandlerFunc{ok}, sent: 1, status: 200},
		{name: "circuit breaker, permanent failure", base: breakerFor, service: []http.HandlerFunc{answer(400, "{}")}, sent: 1, status: 400},
		{name: "circuit breaker, opening", base: breakerFor, service: []http.HandlerFunc{busy, busy}, sent: 2, err: circuitbreaker.ErrOpen},
		{name: "circuit breaker, open", base: openBreaker, service: []http.HandlerFunc{ok}, sent: 0, err: circuitbreaker.ErrOpen},
		{name: "bulkhead, full", base: fullBulkhead, service: []http.HandlerFunc{ok}, sent: 0, err: bulkhead.ErrFull},
		{name: "rate limiter, spent", base: spentLimiter, service: []http.HandlerFunc{busy}, sent: 1, err: ratelimiter.ErrExceeded},
		{name: "time-out", base: policies(timeout.New[*http.Response](300 * time.Millisecond)), service: []http.HandlerFunc{hang, ok}, sent: 2, status: 200},
		{name: "hedge", base: policies(hedgepolicy.NewWithDelay[*http.Response](100 * time.Millisecond)), service: []http.HandlerFunc{slow, ok}, sent: 2, status: 200, seeks: true},
		{name: "fallback", base: fallBack, service: []http.HandlerFunc{busy}, sent: 1, status: 203},
		{name: "retry", base: policies(failsafeRetry(lastFailure)), service: []http.HandlerFunc{busy, busy, busy, ok}, sent: 4, status: 200},
		{name: "adaptive limiter", base: policies(adaptivelimiter.NewWithDefaults[*http.Response]()), service: []http.HandlerFunc{busy, ok}, sent: 2, status: 200},
		{name: "adaptive throttler", base: policies(adaptivethrottler.NewWithDefaults[*http.Response]()), service: []http.HandlerFunc{busy, ok}, sent: 2, status: 200},
	} {
		t.Run(c.name, c.run)
	}
	if left := goroutinesOf("example.com/awsretry."); left != "" {
		t.Errorf("goroutines left behind:\n%s", left)
	}
}

// TestCarelessBases has Bases that leave a request body open, or close it too early or too late.
func TestCarelessBases(t *testing.T) {
	errAuth := errors.New("no credentials")
	busy, ok := answer(503, "busy"), answer(200, "{}")
	unavailable := func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 503, Header: make(http.Header), Body: http.NoBody, Request: req}, nil
	}
	// first makes a Base whose first attempts are made by f.
	first := func(attempts int, f serviceFunc) func(http.RoundTripper) http.RoundTripper {
		return func(b http.RoundTripper) http.RoundTripper {
			return serviceFunc(func(req *http.Request) (*http.Response, error) {
				if awsretry.AttemptNumber(req.Context()) <= attempts {
					return f(req)
				}
				return b.RoundTrip(req)
			})
		}
	}
	for _, c := range []carelessCase{
		{name: "auth that fails", base: first(9, func(*http.Request) (*http.Response, error) { return nil, errAuth }),
			service: []http.HandlerFunc{ok}, err: errAuth},
		{name: "auth that fails once", base: first(1, func(*http.Request) (*http.Response, error) { return nil, errAuth }),
			service: []http.HandlerFunc{ok}, sent: 1, status: 200},
		{name: "answers without the body", base: first(2, unavailable), service: []http.HandlerFunc{ok}, sent: 1, status: 200},
		{name: "reads the body", base: first(2, func(req *http.Request) (*http.Response, error) {
			io.Copy(io.Discard, req.Body)
			return unavailable(req)
		}), service: []http.HandlerFunc{ok}, sent: 1, status: 200},
		{name: "reads a part of the body", base: first(2, func(req *http.Request) (*http.Response, error) {
			io.CopyN(io.Discard, req.Body, 30_000)
			return unavailable(req)
		}), service: []http.HandlerFunc{ok}, sent: 1, status: 200},
		{name: "closes the bodies while the last one is read", base: func(b http.RoundTripper) http.RoundTripper {
			var old []io.ReadCloser
			return serviceFunc(func(req *http.Request) (*http.Response, error) {
				if awsretry.AttemptNumber(req.Context()) <= 2 {
					io.CopyN(io.Discard, req.Body, 30_000)
					old = append(old, req.Body)
					return unavailable(req)
				}
				req = req.Clone(req.Context())
				req.Body = &interruptedReader{req.Body, old}
				return b.RoundTrip(req)
			})
		}, service: []http.HandlerFunc{ok}, sent: 1, status: 200},
		{name: "reads on during the next attempt", base: first(2, func(req *http.Request) (*http.Response, error) {
			go func() {
				io.Copy(io.Discard, req.Body)
				req.Body.Close()
			}()
			return unavailable(req)
		}), service: []http.HandlerFunc{ok}, sent: 1, status: 200},
		{name: "sends a deep copy, and closes nothing", base: func(b http.RoundTripper) http.RoundTripper {
			return serviceFunc(func(req *http.Request) (*http.Response, error) {
				body := req.Body
				req = req.Clone(req.Context())
				req.Body = io.NopCloser(body)
				return b.RoundTrip(req)
			})
		}, service: []http.HandlerFunc{busy, busy, ok}, sent: 3, status: 200},
		{name: "closes the body, then sends it", base: func(b http.RoundTripper) http.RoundTripper {
			return serviceFunc(func(req *http.Request) (*http.Response, error) {
				req.Body.Close()
				return b.RoundTrip(req)
			})
		}, service: []http.HandlerFunc{busy, ok}, sent: 2, status: 200},
	} {
		t.Run(c.name, c.run)
	}
	if left := goroutinesOf("example.com/awsretry."); left != "" {
		t.Errorf("goroutines left behind:\n%s", left)
	}
}

// An interruptedReader closes other readers before it reads, and after it has read something.
type interruptedReader struct {
	io.ReadCloser
	others []io.ReadCloser
}

func (r *interruptedReader) Read(p []byte) (int, error) {
	r.others[0].Close()
	n, err := r.ReadCloser.Read(p[:min(len(p), 1000)])
	r.others[1].Close()
	return n, err
}
