package delivery

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"testing"

	"example.com/awsretry"
	"example.com/awsretry/delivery/letters"
	"example.com/awsretry/internal/httpfake"
)

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
	panicking := io.MultiReader(oneWay("hel"), httpfake.ReadFunc(func([]byte) (int, error) { panic("boom") }))
	for name, base := range map[string]http.RoundTripper{
		"Base reads it":       responding(200),
		"DeadLetter reads it": httpfake.Base(unread),
	} {
		run(t, name, func(t *testing.T) {
			dir := t.TempDir()
			body := httpfake.NewBody(panicking)
			req := stream(t, body)
			tr := &Transport{Base: base, DeadLetter: (&letters.Dir{Path: dir}).Put}
			if p := httpfake.Recovered(func() { tr.RoundTrip(req) }); p != "boom" || body.Closes() != 1 {
				t.Errorf("recovered %v; the body was closed %d times", p, body.Closes())
			}
			if left := entries(t, dir); len(left) > 0 {
				t.Errorf("%q is left", left)
			}
		})
	}
}
