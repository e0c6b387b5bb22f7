package contract_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
)

type transport = awsretry.Transport

var (
	errReset = errors.New("connection reset by a test")
	errGone  = errors.New("the caller has gone")
)

// noJitter is the backoff of a Transport's mode and revision without its
// jitter: b = 1 in the AWS documents' examples.
var noJitter = awsretry.Exponential{Jitter: awsretry.NoJitter}

// An outcome is what Base makes of one attempt. body is for the response, if
// there is one.
type outcome func(req *http.Request, body io.ReadCloser) (*http.Response, error)

func responds(status int, header ...string) outcome {
	return func(req *http.Request, body io.ReadCloser) (*http.Response, error) {
		return httpfake.Response(req, status, body, header...), nil
	}
}

func fails(err error) outcome {
	return func(*http.Request, io.ReadCloser) (*http.Response, error) { return nil, err }
}

// respondsWith returns a Base with one response for every attempt.
func respondsWith(status int, body io.ReadCloser, header ...string) httpfake.Base {
	return func(req *http.Request) (*http.Response, error) {
		return httpfake.Response(req, status, body, header...), nil
	}
}

// hangs fails when the attempt's context ends.
func hangs(req *http.Request, _ io.ReadCloser) (*http.Response, error) {
	<-req.Context().Done()
	return nil, context.Cause(req.Context())
}

func panics(*http.Request, io.ReadCloser) (*http.Response, error) { panic("base") }

// always returns a Base with one outcome for every attempt.
func always(o outcome) httpfake.Base {
	return func(req *http.Request) (*http.Response, error) {
		if _, err := httpfake.Receive(req); err != nil {
			return nil, err
		}
		return o(req, http.NoBody)
	}
}

// retrying returns a Transport that retries without delay.
func retrying(base httpfake.Base) *transport {
	return &transport{Base: base, Backoff: contract.Delay(0)}
}

// failsWith returns a Base that always fails.
func failsWith(err error) httpfake.Base {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// once returns a Transport that does not retry.
func once(base httpfake.Base) *transport { return &transport{Base: base, MaxAttempts: 1} }

// unpaid returns a Transport that reads error bodies ahead, because a retry may
// follow, and does not retry: it has too few tokens.
func unpaid(base httpfake.Base) *transport {
	return &transport{Base: base, Quota: awsretry.QuotaConfig{Capacity: 1}}
}

// get sends a GET through rt.
func get(t testing.TB, rt http.RoundTripper) (*http.Response, error) {
	t.Helper()
	return rt.RoundTrip(httpfake.Request(t, t.Context(), "GET", nil))
}

// wantNotSent fails unless err ended a call before its first attempt.
func wantNotSent(t *testing.T, err error, stop awsretry.Stop, causes ...error) {
	t.Helper()
	e := new(awsretry.Error)
	if !errors.As(err, &e) || e.Attempts != 0 || e.Stop != stop {
		t.Errorf("%v, want it stopped by %q before the first attempt", err, stop)
	}
	for _, cause := range causes {
		if !errors.Is(err, cause) {
			t.Errorf("%v does not match %v", err, cause)
		}
	}
}

// tryRoundTrip reports whether RoundTrip panicked. An error of the runtime goes
// through: it is a fault of the code.
func tryRoundTrip(rt http.RoundTripper, req *http.Request) (resp *http.Response, err error, panicked bool) {
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(error); ok {
				panic(p)
			}
			panicked = true
		}
	}()
	resp, err = rt.RoundTrip(req)
	return resp, err, false
}

// ways are contexts with which requests over a foreign Base take the fast path,
// and with which they do not.
var ways = map[string]func(context.Context) (context.Context, context.CancelFunc){
	"fast path": func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, time.Hour)
	},
	"attempts with contexts of their own": context.WithCancel,
}

// until returns a reader that fails once ctx has ended, as the body of a
// response fails after its request.
func until(ctx context.Context, r io.Reader) io.Reader {
	return httpfake.ReadFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return r.Read(p)
	})
}

// hangUntil returns a reader whose Read ends when the channel is closed.
func hangUntil(end <-chan struct{}) io.Reader {
	return httpfake.ReadFunc(func([]byte) (int, error) { <-end; return 0, io.EOF })
}

// failAfter returns a reader whose Read hangs until ctx has ended, and fails.
func failAfter(ctx context.Context) io.Reader {
	return httpfake.ReadFunc(func([]byte) (int, error) { <-ctx.Done(); return 0, context.Cause(ctx) })
}

// closeAfter returns a channel for Request.Cancel that is closed after d.
func closeAfter(d time.Duration) chan struct{} {
	c := make(chan struct{})
	time.AfterFunc(d, func() { close(c) })
	return c
}
