package awsretry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
)

// stalled is a body whose Read takes its time.
func stalled(d time.Duration) io.Reader {
	return readFunc(func([]byte) (int, error) { time.Sleep(d); return 0, io.EOF })
}

// readAside reads and closes the body of an attempt on another goroutine, as net/http does.
func readAside(req *http.Request) {
	go func() { io.Copy(io.Discard, req.Body); req.Body.Close() }()
	time.Sleep(time.Millisecond)
}

// What ends a call ends the wait for a Read of the caller's body too, and the wait does not outlast the answer.
func TestWaitForAReadEnds(t *testing.T) {
	tests := []struct {
		name string
		tr   awsretry.Transport
		base baseFunc
		with func(*http.Request) *http.Request
		most time.Duration
		stop awsretry.Stop
	}{
		{
			name: "Request.Cancel after a transport error",
			base: func(req *http.Request) (*http.Response, error) { readAside(req); return nil, io.ErrUnexpectedEOF },
			with: func(req *http.Request) *http.Request {
				cancel := make(chan struct{})
				time.AfterFunc(time.Second, func() { close(cancel) })
				req.Cancel = cancel //lint:ignore SA1019 it is what is tested
				return req
			},
			most: time.Second, stop: awsretry.StopCanceled,
		},
		{
			name: "a deadline, with an answer",
			base: func(req *http.Request) (*http.Response, error) {
				readAside(req)
				return respond(req, 503, http.NoBody), nil
			},
			with: func(req *http.Request) *http.Request {
				ctx, cancel := context.WithTimeout(req.Context(), 500*time.Millisecond)
				time.AfterFunc(time.Hour, cancel)
				return req.WithContext(ctx)
			},
			most: 300 * time.Millisecond, stop: awsretry.StopBody,
		},
		{
			name: "AttemptTimeout",
			tr:   awsretry.Transport{AttemptTimeout: 5 * time.Second},
			base: func(req *http.Request) (*http.Response, error) {
				readAside(req)
				<-req.Context().Done()
				return nil, req.Context().Err()
			},
			with: func(req *http.Request) *http.Request { return req },
			most: 7 * time.Second, stop: awsretry.StopBody,
		},
	}
	for i := range tests {
		tt := &tests[i]
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tt.tr.Base, tt.tr.Backoff = tt.base, pauseOf(0)
				req := tt.with(request(t, t.Context(), "PUT", struct{ io.Reader }{stalled(10 * time.Hour)}))
				start := time.Now()
				resp, err := tt.tr.RoundTrip(req)
				if took := time.Since(start); took > tt.most {
					t.Errorf("came back after %v, want %v at most", took, tt.most)
				}
				if stop := stopOf(resp, err); stop != tt.stop {
					t.Errorf("stopped by %q (%v), want %q", stop, err, tt.stop)
				}
				time.Sleep(20 * time.Hour)
			})
		})
	}
}

// An answer that is kept twice, for the pause and for a Read, has all of its AttemptTimeout left behind both.
func TestAnswerIsKeptTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data := letters(1000)
		tr := &awsretry.Transport{
			Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{FailFast: true}, AttemptTimeout: 5 * time.Second,
			Backoff: pauseOf(10 * time.Second), MaxBodyBuffer: 10,
			Base: baseFunc(func(req *http.Request) (*http.Response, error) {
				readAside(req)
				rest := strings.NewReader(data)
				return respond(req, 503, io.NopCloser(readFunc(func(p []byte) (int, error) {
					if req.Context().Err() != nil {
						return 0, req.Context().Err()
					}
					return rest.Read(p)
				})), "Content-Type", "image/png"), nil
			}),
		}
		reads := 0
		source := readFunc(func(p []byte) (int, error) {
			if reads++; reads > 5 {
				return 0, io.EOF
			}
			time.Sleep(time.Second)
			return copy(p, letters(20)), nil
		})
		resp, err := tr.RoundTrip(request(t, t.Context(), "PUT", struct{ io.Reader }{source}))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := whole(t, resp); got != data || stopOf(resp, nil) != awsretry.StopBody {
			t.Errorf("%d of %d bytes, stopped by %q", len(got), len(data), stopOf(resp, nil))
		}
	})
}

func TestRequestCancelEndsTheWaitForAHiddenError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pr, pw := io.Pipe()
		tr := &awsretry.Transport{Base: baseFunc(func(req *http.Request) (*http.Response, error) {
			go io.WriteString(pw, "<?xml version='1.0'?>\n")
			return respond(req, 200, pr), nil
		})}
		cancel := make(chan struct{})
		time.AfterFunc(2*time.Second, func() { close(cancel) })
		req := request(t, t.Context(), "POST", nil)
		req.URL.RawQuery = "uploadId=1"
		req.Cancel = cancel //lint:ignore SA1019 it is what is tested
		start := time.Now()
		resp, err := tr.RoundTrip(req)
		if took := time.Since(start); took != 2*time.Second || stopOf(resp, err) != awsretry.StopCanceled || !errors.Is(err, context.Canceled) {
			t.Fatalf("%v, %v after %v", resp, err, took)
		}
	})
}

// A caller who goes before the first attempt is made has nothing sent, whatever was passed already.
func TestNothingIsSentForACallerWhoHasGone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	sent := 0
	tr := &awsretry.Transport{
		Partition: func(*http.Request) string { cancel(); return "" },
		Base:      baseFunc(func(req *http.Request) (*http.Response, error) { sent++; return respond(req, 200, http.NoBody), nil }),
	}
	if _, err := tr.RoundTrip(request(t, ctx, "GET", nil)); !errors.Is(err, context.Canceled) || sent > 0 {
		t.Errorf("%v; sent %d times", err, sent)
	}
}
