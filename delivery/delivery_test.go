package delivery

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

var errWentHome = errors.New("the user went home")

// canceledIn is a Base whose attempt the caller cancels.
func canceledIn(req *http.Request) (*http.Response, error) {
	io.CopyN(io.Discard, req.Body, 3)
	<-req.Context().Done()
	go func() { // as net/http may
		time.Sleep(time.Second)
		req.Body.Close()
	}()
	return nil, req.Context().Err()
}

func TestDeadLetters(t *testing.T) {
	const text = "the request's body"
	type key struct{}
	for _, tt := range []struct {
		name     string
		base     func() http.RoundTripper
		cancel   time.Duration // when the caller gives up, -1: before; 0: not
		attempts int
		reason   string
		status   int
		err      error
	}{
		{name: "permanent", base: always(404), attempts: 1, reason: "permanent", status: 404},
		{name: "exhausted", base: always(503), attempts: 4, reason: "max_attempts", status: 503},
		{name: "no connection", base: always(0), attempts: 4, reason: "max_attempts", err: errRefused},
		{name: "nothing was read", base: fixed(unread), attempts: 4, reason: "max_attempts", err: errRefused},
		{name: "half was read", base: fixed(halfRead), attempts: 4, reason: "max_attempts", status: 503},
		{name: "canceled before", base: always(200), cancel: -1, reason: "canceled", err: errWentHome},
		{name: "canceled in a delay", base: always(503), cancel: 30 * time.Second, attempts: 2, reason: "canceled",
			err: errWentHome},
		{name: "canceled in an attempt", base: fixed(canceledIn), cancel: 5 * time.Second, attempts: 1,
			reason: "canceled", err: context.Canceled},
	} {
		for kind, newRequest := range bodyKinds {
			run(t, tt.name+"/"+kind, func(t *testing.T) {
				req, closed := newRequest(t, text)
				ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "here"))
				defer cancel(nil)
				switch {
				case tt.cancel < 0:
					cancel(errWentHome)
				case tt.cancel > 0:
					time.AfterFunc(tt.cancel, func() { cancel(errWentHome) })
				}
				letters := 0
				tr := &Transport{Base: tt.base(), Jitter: awsretry.NoJitter}
				tr.DeadLetter = func(ctx context.Context, dead DeadLetter) error {
					letters++
					if ctx.Err() != nil || ctx.Value(key{}) != "here" || dead.Request.Context().Err() != nil {
						t.Error("the context has ended or lost its values")
					}
					checkRequest(t, dead.Request, text, req.ContentLength)
					if dead.Request.GetBody == nil && kind != "stream" {
						t.Error("there is no GetBody")
					}
					if dead.Attempts != tt.attempts || dead.Reason != tt.reason ||
						!errors.Is(dead.Err, tt.err) || (dead.Err == nil) != (tt.err == nil) {
						t.Errorf("got %+v", dead)
					}
					if (dead.Response != nil) != (tt.status > 0) || dead.Response != nil &&
						(dead.Response.StatusCode != tt.status || dead.Response.Body != http.NoBody) {
						t.Errorf("the response is %+v", dead.Response)
					}
					return nil
				}
				resp, err := tr.RoundTrip(req.WithContext(ctx))
				if letters != 1 || !errors.Is(err, tt.err) {
					t.Errorf("%d dead letters, %v", letters, err)
				}
				if resp != nil {
					if last, _ := awsretry.Outcome(resp); string(last.Stop) != tt.reason {
						t.Errorf("the outcome of the response is %q", last.Stop)
					}
					body, err := io.ReadAll(resp.Body)
					if err != nil || string(body) != "the response" && tt.name != "half was read" {
						t.Errorf("the response body is %q, %v", body, err)
					}
					resp.Body.Close()
				}
				time.Sleep(time.Minute) // so that Base may close late
				if synctest.Wait(); closed() != 1 {
					t.Errorf("the caller's body was closed %d times", closed())
				}
			})
		}
	}
}

// checkRequest checks the request of a dead letter.
func checkRequest(t *testing.T, req *http.Request, body string, length int64) {
	t.Helper()
	got, err := receive(req)
	if err != nil || got.Body != body {
		t.Errorf("the body is %q, %v", got.Body, err)
	}
	if got.URL != "http://a.example/" || got.Method != "POST" || got.Length != length {
		t.Errorf("got %+v", got)
	}
	if req.GetBody == nil {
		return
	}
	again, err := req.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(again); string(got) != body || err != nil {
		t.Errorf("the body is %q for the second time, %v", got, err)
	}
}

// A request that got a 2xx is delivered, whatever comes after it: a dead letter
// would be sent again.
func TestWhatComesAfterA2xxIsNotADeadLetter(t *testing.T) {
	for name, tr := range map[string]*Transport{
		"Observe panics": {Base: responding(200), Observe: func(awsretry.Attempt) { panic("boom") }},
		"the caller gives up while the response is read": {
			Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
				resp := respond(200, req)
				resp.Body, resp.ContentLength = io.NopCloser(httpfake.UntilDone(req.Context())), -1
				return resp, nil
			}),
		},
	} {
		run(t, name, func(t *testing.T) {
			tr.DeadLetter = func(_ context.Context, dead DeadLetter) error {
				t.Errorf("a dead letter: %s, %v", dead.Reason, dead.Err)
				return nil
			}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			defer cancel()
			defer func() { recover() }()
			// The response to such a request is read for an error code: Amazon
			// S3 may send one with a 200.
			resp, err := tr.RoundTrip(post(t, "http://a.example/?uploadId=7", "x").WithContext(ctx))
			if err == nil {
				resp.Body.Close()
			}
		})
	}
}

// A 2xx for another request, which Base sends with the same context, is not the
// delivery's.
func TestOtherDeliveriesOfBaseDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal, letters := &Transport{Base: responding(200)}, 0
		tr := &Transport{
			Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
				send(t, journal, post(t, "http://journal.example/", "x").WithContext(req.Context()))
				return respond(404, req), nil
			}),
			DeadLetter: func(context.Context, DeadLetter) error { letters++; return nil },
		}
		resp, err := tr.RoundTrip(post(t, "http://a.example/", "x"))
		if err != nil || resp.StatusCode != 404 || letters != 1 {
			t.Errorf("got %v, %v, and %d dead letters", resp, err, letters)
		}
	})
}

func TestDeadLetterWithoutABody(t *testing.T) {
	for _, body := range []io.ReadCloser{nil, http.NoBody} {
		req := post(t, "http://a.example/", "")
		req.Body, req.GetBody = body, nil
		var dead DeadLetter
		tr := &Transport{Base: responding(400)}
		tr.DeadLetter = func(_ context.Context, d DeadLetter) error { dead = d; return nil }
		if send(t, tr, req); dead.Request.Body != http.NoBody {
			t.Errorf("of %T: a %T", body, dead.Request.Body)
		}
	}
}

// An error of DeadLetter is returned in place of the response. Its panic goes on.
func TestDeadLetterThatFails(t *testing.T) {
	full := errors.New("disk full")
	for _, tt := range []struct {
		name   string
		status int
		end    any    // the panic of DeadLetter, or the error that it returns
		text   string // of the error of RoundTrip
	}{
		{"a server error", 503, full,
			"delivery: got 503 Service Unavailable; and the dead letter was not taken: disk full"},
		{"no connection", 0, full, "connection refused; and the dead letter was not taken: disk full"},
		{"it panics", 404, "boom", ""},
	} {
		run(t, tt.name, func(t *testing.T) {
			end := responding(tt.status)
			tr := &Transport{Base: end, DeadLetter: func(context.Context, DeadLetter) error {
				if tt.end == full {
					return full
				}
				panic(tt.end)
			}}
			req, closed := bodyKinds["stream"](t, "x")
			var resp *http.Response
			var err error
			panicked := httpfake.Recovered(func() { resp, err = tr.RoundTrip(req) })
			refused := tt.status == 0
			switch {
			case resp != nil:
				t.Errorf("got %v", resp)
			case tt.end != full:
				if panicked != tt.end {
					t.Errorf("recovered %v", panicked)
				}
			case !errors.Is(err, full) || !strings.HasSuffix(err.Error(), tt.text):
				t.Errorf("got %v", err)
			case errors.Is(err, errRefused) != refused || errors.As(err, new(*awsretry.Error)) != refused:
				t.Errorf("%v names a failure that was not there, or does not name it", err)
			}
			for n, body := range end.bodies {
				if body.Closes() != 1 {
					t.Errorf("response %d was closed %d times", n, body.Closes())
				}
			}
			if closed() != 1 {
				t.Errorf("the request's body was closed %d times", closed())
			}
		})
	}
}

// If Base or a hook panics, the dead letter is handed over and the panic goes
// on.
func TestPanicsLeaveDeadLetters(t *testing.T) {
	const text = "the request's body"
	for _, tt := range []struct {
		name     string
		base     func() http.RoundTripper
		observe  func(awsretry.Attempt)
		attempts int
		value    any
	}{
		{"Base that has read", fixed(func(req *http.Request) (*http.Response, error) {
			io.CopyN(io.Discard, req.Body, 3)
			panic("boom")
		}), nil, 1, "boom"},
		{"Observe of the second attempt", always(503, 404), func(a awsretry.Attempt) {
			if a.Number == 2 {
				panic("boom")
			}
		}, 2, "boom"},
		{"the end of the goroutine", fixed(func(*http.Request) (*http.Response, error) {
			runtime.Goexit()
			return nil, nil
		}), nil, 1, nil},
	} {
		run(t, tt.name, func(t *testing.T) {
			letters := 0
			tr := &Transport{Base: tt.base(), Observe: tt.observe}
			tr.DeadLetter = func(_ context.Context, dead DeadLetter) error {
				letters++
				if got, err := receive(dead.Request); err != nil || got.Body != text {
					t.Errorf("the body is %q, %v", got.Body, err)
				}
				if dead.Reason != "panic" || dead.Attempts != tt.attempts || dead.Err == nil || dead.Response != nil {
					t.Errorf("got %+v", dead)
				}
				return errors.New("disk full")
			}
			req, closed := bodyKinds["stream"](t, text)
			if p := httpfake.Recovered(func() { tr.RoundTrip(req) }); p != tt.value {
				t.Errorf("recovered %v", p)
			}
			if letters != 1 || closed() != 1 {
				t.Errorf("%d dead letters; the body was closed %d times", letters, closed())
			}
		})
	}
}

// If the body's reader panics, so does RoundTrip, and the body is lost.
func TestPanicOfTheBody(t *testing.T) {
	panicking := httpfake.ReadFunc(func([]byte) (int, error) { panic("boom") })
	for name, base := range map[string]http.RoundTripper{
		"Base reads it":       responding(200),
		"DeadLetter reads it": httpfake.Base(unread),
	} {
		run(t, name, func(t *testing.T) {
			body := httpfake.NewBody(io.MultiReader(oneWay("hel"), panicking))
			req := stream(t, body)
			tr := &Transport{Base: base, DeadLetter: readAll}
			if p := httpfake.Recovered(func() { tr.RoundTrip(req) }); p != "boom" || body.Closes() != 1 {
				t.Errorf("recovered %v; the body was closed %d times", p, body.Closes())
			}
		})
	}
}
