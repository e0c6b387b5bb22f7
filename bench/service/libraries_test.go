package main

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// A script is a Base that returns its responses in turn, and 200 from then on.
type script struct {
	responses []func(*http.Request) (*http.Response, error)
	sent      int
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	s.sent++
	if s.sent <= len(s.responses) {
		return s.responses[s.sent-1](req)
	}
	return respond(http.StatusOK, "{}")(req)
}

func respond(status int, body string) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: status, Status: http.StatusText(status),
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header:        http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
			Body:          io.NopCloser(strings.NewReader(body)),
			ContentLength: int64(len(body)),
			Request:       req,
		}, nil
	}
}

// A timeoutError has the methods of net/http's error for a response that does
// not come in time.
type timeoutError struct{}

func (timeoutError) Error() string   { return "timeout awaiting response headers" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

func newRequest() *http.Request {
	target := &url.URL{Scheme: "http", Host: "service.example", Path: "/"}
	return (&http.Request{
		Method: http.MethodGet, URL: target, Host: target.Host, Header: http.Header{},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(context.Background())
}

func succeeds(rt http.RoundTripper) bool {
	resp, err := rt.RoundTrip(newRequest())
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Every library retries the failures of the services here. Only the AWS ones
// know throttling by its code alone.
func TestEveryLibraryRetries(t *testing.T) {
	const throttled = `{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",` +
		`"message":"slow down"}`
	aws := []string{
		standardName, "awsretry standard, Revision2026", adaptiveName, "aws-sdk-go-v2 standard", sdkAdaptiveName,
		scaledName,
	}
	for _, r := range retryers {
		aws = append(aws, r.name)
	}
	for _, tt := range []struct {
		name    string
		failure func(*http.Request) (*http.Response, error)
		awsOnly bool
	}{
		{"503", respond(http.StatusServiceUnavailable, `{"message":"unavailable"}`), false},
		{"503 without a body", respond(http.StatusServiceUnavailable, ""), false},
		{"429", respond(http.StatusTooManyRequests, throttled), false},
		{"timeout", func(*http.Request) (*http.Response, error) { return nil, timeoutError{} }, false},
		{"400 with a throttling code", respond(http.StatusBadRequest, throttled), true},
	} {
		for _, lib := range slices.Concat(libraries, []library{scaledPacing}, retryers) {
			t.Run(tt.name+"/"+lib.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					base := &script{responses: []func(*http.Request) (*http.Response, error){tt.failure}}
					retries := lib.name == naiveName ||
						lib.name != noRetriesName && (!tt.awsOnly || slices.Contains(aws, lib.name))
					want := 1
					if retries {
						want = 2
					}
					if ok := succeeds(lib.over(base)); ok != retries || base.sent != want {
						t.Errorf("success: %v, with %d attempts; want %v, %d", ok, base.sent, retries, want)
					}
				})
			})
		}
	}
}
