package main

import (
	"net/http"
	"testing"
	"testing/synctest"
)

// A script is a Base that gives its answers in turn, and 200 from then on.
type script struct {
	answers []func(*http.Request) (*http.Response, error)
	sent    int
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	s.sent++
	if s.sent <= len(s.answers) {
		return s.answers[s.sent-1](req)
	}
	return answer(req, http.StatusOK, "{}"), nil
}

// Every library sends again what the services here answer with, and only the AWS ones know throttling by its code alone.
func TestEveryLibraryRetries(t *testing.T) {
	timeout := func(*http.Request) (*http.Response, error) { return nil, timeoutError{} }
	down := func(req *http.Request) (*http.Response, error) { return unavailable(req), nil }
	throttles := func(req *http.Request) (*http.Response, error) {
		return answer(req, http.StatusTooManyRequests, throttlingBody), nil
	}
	byCode := func(req *http.Request) (*http.Response, error) {
		return answer(req, http.StatusBadRequest, throttlingBody), nil
	}
	aws := map[string]bool{
		"awsretry standard": true, "awsretry standard, Revision2026": true, adaptiveName: true,
		"aws-sdk-go-v2 standard": true, sdkAdaptiveName: true,
	}
	for _, tt := range []struct {
		name    string
		answer  func(*http.Request) (*http.Response, error)
		awsOnly bool
	}{
		{"503", down, false}, {"429", throttles, false}, {"a time-out", timeout, false}, {"400 with a throttling code", byCode, true},
	} {
		for _, lib := range libraries {
			t.Run(tt.name+"/"+lib.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					base := &script{answers: []func(*http.Request) (*http.Response, error){tt.answer}}
					retries := lib.name == naiveName || lib.name != noRetriesName && (!tt.awsOnly || aws[lib.name])
					want := 1
					if retries {
						want = 2
					}
					if ok := lib.client(base)(); ok != retries || base.sent != want {
						t.Errorf("success: %v, with %d attempts; want %v, %d", ok, base.sent, retries, want)
					}
				})
			})
		}
	}
}

// Each client has a library of its own: what one did says nothing to another.
func TestClientsShareNothing(t *testing.T) {
	for _, lib := range libraries {
		t.Run(lib.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				down := &script{}
				for range 10_000 {
					down.answers = append(down.answers, func(req *http.Request) (*http.Response, error) { return unavailable(req), nil })
				}
				client := lib.client(down)
				for range 200 {
					client()
				}
				up := &script{}
				if !lib.client(up)() || up.sent != 1 {
					t.Errorf("%d attempts by a new client of a service that works", up.sent)
				}
			})
		})
	}
}
