package otelretry_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// took is how long each attempt of a slow Base takes.
const took = 100 * time.Millisecond

func slow(base httpfake.Base) httpfake.Base {
	return func(req *http.Request) (*http.Response, error) {
		time.Sleep(took)
		return base(req)
	}
}

func failsWith(err error) httpfake.Base {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// second is a Backoff with delays of one second.
var second = awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return time.Second })

// get sends a GET to service.example and closes the response.
func get(t testing.TB, ctx context.Context, rt http.RoundTripper) {
	t.Helper()
	send(rt, httpfake.Request(t, ctx, "GET", nil))
}

func request(t testing.TB, ctx context.Context, method, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// send sends a request and closes the response.
func send(rt http.RoundTripper, req *http.Request) (*http.Response, error) {
	resp, err := rt.RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	return resp, err
}
