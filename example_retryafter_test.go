package awsretry_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"example.com/awsretry"
)

// Azure and OpenAI give the delay in milliseconds.
func ExampleTransport_retryAfterMs() {
	server := startServer(statusWith(429, "Retry-After-Ms", "40"), status(200, "ok"))
	defer server.Close()

	client := &http.Client{Transport: &awsretry.Transport{
		Backoff: quick,
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
	printStatus(resp, err, time.Since(start) >= 40*time.Millisecond)
	// Output: 200 true
}

// Google's APIs have a google.rpc.RetryInfo in the body of an error.
func ExampleTransport_retryInfo() {
	server := startServer(status(429, `{"error": {"code": 429, "details": [
		{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.040s"}]}}`), status(200, "ok"))
	defer server.Close()

	client := &http.Client{Transport: &awsretry.Transport{
		Backoff: quick,
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
	printStatus(resp, err, time.Since(start) >= 40*time.Millisecond)
	// Output: 200 true
}
