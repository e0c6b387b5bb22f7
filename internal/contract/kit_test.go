package contract_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
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

// inBubble runs a subtest in virtual time. It finds goroutines that are left.
func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// An outcome is what Base makes of one attempt. body is for the response, if
// there is one.
type outcome func(req *http.Request, body io.ReadCloser) (*http.Response, error)

var (
	ok        = responds(200)
	busy      = responds(503)
	throttled = responds(429)
	invalid   = responds(400)
)

func responds(status int, header ...string) outcome {
	return func(req *http.Request, body io.ReadCloser) (*http.Response, error) {
		return httpfake.Response(req, status, body, header...), nil
	}
}

func fails(err error) outcome {
	return func(*http.Request, io.ReadCloser) (*http.Response, error) { return nil, err }
}

// hangs fails when the attempt's context ends.
func hangs(req *http.Request, _ io.ReadCloser) (*http.Response, error) {
	<-req.Context().Done()
	return nil, context.Cause(req.Context())
}

func panics(*http.Request, io.ReadCloser) (*http.Response, error) { panic("base") }

// inTurn returns a Base that reads the request and has one outcome after
// another, and the last one from then on. The responses have no body.
func inTurn(outcomes ...outcome) httpfake.Base {
	sends := 0
	return func(req *http.Request) (*http.Response, error) {
		sends++
		return always(outcomes[min(sends, len(outcomes))-1])(req)
	}
}

// always returns a Base with one outcome for every attempt.
func always(o outcome) httpfake.Base {
	return func(req *http.Request) (*http.Response, error) {
		if _, err := httpfake.Receive(req); err != nil {
			return nil, err
		}
		return o(req, http.NoBody)
	}
}

// respondsWith returns a Base with one response for every attempt.
func respondsWith(status int, body io.ReadCloser, header ...string) httpfake.Base {
	return func(req *http.Request) (*http.Response, error) {
		return httpfake.Response(req, status, body, header...), nil
	}
}

// firstThen returns a Base whose first attempt gets a response from first, and
// whose others succeed.
func firstThen(first func(req *http.Request) *http.Response) httpfake.Base {
	sends := 0
	return func(req *http.Request) (*http.Response, error) {
		if sends++; sends > 1 {
			return httpfake.Response(req, 200, http.NoBody), nil
		}
		return first(req), nil
	}
}

// firstThenEchoes returns a Base whose first attempt has its own outcome,
// and whose others send the request's body back.
func firstThenEchoes(first httpfake.Base) httpfake.Base {
	sends := 0
	return func(req *http.Request) (*http.Response, error) {
		if sends++; sends == 1 {
			return first(req)
		}
		got, err := httpfake.Receive(req)
		return httpfake.Response(req, 200, io.NopCloser(strings.NewReader(got))), err
	}
}

// failsWith returns a Base that always fails.
func failsWith(err error) httpfake.Base {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// notSent returns a Base that must not be called.
func notSent(t *testing.T) httpfake.Base {
	return func(*http.Request) (*http.Response, error) { t.Error("sent"); return nil, errReset }
}

// retrying returns a Transport that retries without delay.
func retrying(base httpfake.Base) *transport {
	return &transport{Base: base, Backoff: delayed(0)}
}

// retryingOver returns a Transport that retries without delay over connections
// to a server.
func retryingOver(srv *httpfake.Server) *transport {
	return &transport{Base: srv.Base, Backoff: delayed(0)}
}

// once returns a Transport that does not retry.
func once(base httpfake.Base) *transport { return &transport{Base: base, MaxAttempts: 1} }

// unpaid returns a Transport that reads error bodies ahead, because a retry may
// follow, and does not retry: it has too few tokens.
func unpaid(base httpfake.Base) *transport {
	return &transport{Base: base, Quota: awsretry.QuotaConfig{Capacity: 1}}
}

func longDelay(tr *transport) { tr.Backoff = delayed(time.Hour) }

func adaptive(tr *transport) { tr.Mode = awsretry.Adaptive }

func failFast(tr *transport) { tr.Mode, tr.RateLimit.FailFast = awsretry.Adaptive, true }

// preparePanics makes Prepare panic before the attempt of that number.
func preparePanics(on int) func(*transport) {
	return prepares(on, func(*http.Request) error { panic("prepare") })
}

// prepareFails makes Prepare fail before the attempt of that number.
func prepareFails(on int) func(*transport) {
	return prepares(on, func(*http.Request) error { return errors.New("no key to sign with") })
}

// prepares sets the Prepare of the attempt of that number.
func prepares(on int, prepare func(*http.Request) error) func(*transport) {
	return func(tr *transport) {
		tr.Prepare = func(req *http.Request, n int) error {
			if n != on {
				return nil
			}
			return prepare(req)
		}
	}
}

// A result is what RoundTrip returned, why it stopped, and how long it took.
type result struct {
	*http.Response
	err  error
	stop awsretry.Stop
	took time.Duration
}

// send sends req through rt.
func send(rt http.RoundTripper, req *http.Request) result {
	start := time.Now()
	resp, err := rt.RoundTrip(req)
	return result{resp, err, stopOf(resp, err), time.Since(start)}
}

// sendGet sends a GET through rt.
func sendGet(t testing.TB, rt http.RoundTripper) result {
	t.Helper()
	return send(rt, httpfake.Request(t, t.Context(), "GET", nil))
}

// get sends a GET through rt.
func get(t testing.TB, rt http.RoundTripper) (*http.Response, error) {
	t.Helper()
	r := sendGet(t, rt)
	return r.Response, r.err
}

// response returns the response. Without one it ends the test.
func (r result) response(t testing.TB) *http.Response {
	t.Helper()
	if r.err != nil {
		t.Fatal(r)
	}
	return r.Response
}

func (r result) String() string {
	what := fmt.Sprint(r.err)
	if r.Response != nil {
		what = fmt.Sprint(r.StatusCode, ", ", r.err)
	}
	return fmt.Sprintf("%s; stopped by %q after %v", what, r.stop, r.took)
}

// want fails unless the call ended so. The status of an error is 0.
func (r result) want(t testing.TB, status int, stop awsretry.Stop, took time.Duration) {
	t.Helper()
	got := 0
	if r.Response != nil {
		got = r.StatusCode
	}
	if got != status || (r.err == nil) != (status > 0) || r.stop != stop || r.took != took {
		t.Errorf("got %v; want %d, stopped by %q after %v", r, status, stop, took)
	}
}

// wantBody fails unless the response has that body.
func (r result) wantBody(t testing.TB, want string) {
	t.Helper()
	if r.Response == nil {
		t.Errorf("got %v; want a response", r)
	} else if got := httpfake.ReadAll(t, r.Response); got != want {
		t.Errorf("read %d bytes, want %d: %.40q", len(got), len(want), got)
	}
}

// wantIs fails unless the error matches all of these.
func (r result) wantIs(t testing.TB, want ...error) {
	t.Helper()
	for _, want := range want {
		if !errors.Is(r.err, want) {
			t.Errorf("%v does not match %v", r.err, want)
		}
	}
}

// wantNotSent fails unless err ended a call before its first attempt.
func wantNotSent(t *testing.T, err error, stop awsretry.Stop, causes ...error) {
	t.Helper()
	e := new(awsretry.Error)
	if !errors.As(err, &e) || e.Attempts != 0 || e.Stop != stop {
		t.Errorf("%v, want it stopped by %q before the first attempt", err, stop)
	}
	result{err: err}.wantIs(t, causes...)
}

// wantTokens fails unless the host of httpfake.Request has so many retry tokens
// left.
func wantTokens(t testing.TB, tr *transport, want int) {
	t.Helper()
	if got := tokensOf(t, tr); got != want {
		t.Errorf("%d tokens, want %d", got, want)
	}
}

// wantClosed fails unless body was closed once, and not during a Read.
func wantClosed(t *testing.T, body *httpfake.Body) {
	t.Helper()
	if body.Closes() != 1 || body.ClosesDuringRead() > 0 {
		t.Errorf("closed %d times, %d times during a Read", body.Closes(), body.ClosesDuringRead())
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

// canceledAfter returns a function that cancels its context after d.
func canceledAfter(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
	return func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		if d == 0 {
			cancel()
		} else {
			time.AfterFunc(d, cancel)
		}
		return ctx, cancel
	}
}

// within returns a context that ends after d, or with the test if d is 0.
func within(t testing.TB, d time.Duration) context.Context {
	if d == 0 {
		return t.Context()
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
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

// delayed returns a Backoff whose every delay is d.
func delayed(d time.Duration) awsretry.Backoff {
	return awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return d })
}

// stopOf returns why no further attempt was made, as the error says it or else
// the record of the response. It is "" if neither says anything.
func stopOf(resp *http.Response, err error) awsretry.Stop {
	if e := new(awsretry.Error); errors.As(err, &e) {
		return e.Stop
	}
	record, _ := awsretry.Outcome(resp)
	return record.Stop
}

// tokensOf returns how many retry tokens the host of httpfake.Request has left.
func tokensOf(t testing.TB, tr *awsretry.Transport) int {
	t.Helper()
	state, ok := tr.State("service.example")
	if !ok {
		t.Fatal("there is no partition for service.example")
	}
	return state.Tokens
}
