package awsretry_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"example.com/awsretry"
)

// throttledOnce starts a server whose first response is a 429 with this header
// and this body.
func throttledOnce(header, value, body string) *httptest.Server {
	first := true
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !first {
			return
		}
		first = false
		w.Header().Set(header, value)
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, body)
	}))
}

// Azure and OpenAI give the delay in milliseconds.
func ExampleTransport_retryAfterMs() {
	server := throttledOnce("Retry-After-Ms", "40", "")
	defer server.Close()

	client := &http.Client{Transport: &awsretry.Transport{
		Backoff: awsretry.Exponential{Initial: time.Millisecond},
		RetryAfter: func(resp *http.Response, _ []byte) (time.Duration, bool) {
			ms, err := strconv.ParseFloat(resp.Header.Get("Retry-After-Ms"), 64)
			if err != nil || ms < 0 || ms > 3.6e6 {
				return 0, false // use the Retry-After header
			}
			return time.Duration(ms * float64(time.Millisecond)), true
		},
	}}
	start := time.Now()
	resp, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, time.Since(start) >= 40*time.Millisecond)
	// Output: 200 true
}

// GitHub gives the end of its limit in X-RateLimit-Reset, in Unix seconds.
func ExampleTransport_retryAfterReset() {
	reset := time.Now().Add(time.Second).Unix() // within the next second
	server := throttledOnce("X-RateLimit-Reset", strconv.FormatInt(reset, 10), "")
	defer server.Close()

	client := &http.Client{Transport: &awsretry.Transport{
		Backoff:       awsretry.Exponential{Initial: time.Millisecond},
		MaxRetryAfter: time.Hour, // as long as GitHub's limits last
		RetryAfter: func(resp *http.Response, _ []byte) (time.Duration, bool) {
			reset, err := strconv.ParseInt(resp.Header.Get("X-RateLimit-Reset"), 10, 64)
			if err != nil || resp.Header.Get("X-RateLimit-Remaining") > "0" {
				return 0, false
			}
			return time.Until(time.Unix(reset, 0)), true
		},
	}}
	resp, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, time.Now().Unix() >= reset)
	// Output: 200 true
}

// Google's APIs have a google.rpc.RetryInfo in the body of an error.
func ExampleTransport_retryInfo() {
	server := throttledOnce("Content-Type", "application/json", `{"error": {"code": 429, "details": [
		{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.040s"}]}}`)
	defer server.Close()

	client := &http.Client{Transport: &awsretry.Transport{
		Backoff: awsretry.Exponential{Initial: time.Millisecond},
		RetryAfter: func(_ *http.Response, body []byte) (time.Duration, bool) {
			var failure struct {
				Error struct {
					Details []struct {
						Type       string `json:"@type"`
						RetryDelay string `json:"retryDelay"`
					} `json:"details"`
				} `json:"error"`
			}
			if json.Unmarshal(body, &failure) != nil {
				return 0, false
			}
			for _, detail := range failure.Error.Details {
				if strings.HasSuffix(detail.Type, "/google.rpc.RetryInfo") {
					delay, err := time.ParseDuration(detail.RetryDelay)
					return delay, err == nil
				}
			}
			return 0, false
		},
	}}
	start := time.Now()
	resp, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, time.Since(start) >= 40*time.Millisecond)
	// Output: 200 true
}
