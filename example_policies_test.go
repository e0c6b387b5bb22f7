package awsretry_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// Amazon S3 and DynamoDB need no policy. The default policy knows SlowDown, a
// 200 whose body is an error, and DynamoDB's throttling, which has status 400.
// This policy adds the conflict of two conditional writes to S3. A write with
// If-None-Match may be sent again (Amazon S3 API Reference, "PutObject"); a
// write with If-Match has to fetch the object's new ETag first.
func ExamplePolicy_s3() {
	conflicts := func(a *awsretry.Attempt) awsretry.Class {
		if a.Code == "ConditionalRequestConflict" && a.Request.Header.Get("If-None-Match") != "" {
			return awsretry.Transient
		}
		return awsretry.DefaultPolicy(a)
	}
	client := &http.Client{Transport: &awsretry.Transport{Policy: conflicts, Backoff: quick}}

	send := func(first http.HandlerFunc, method, name, value string) {
		server := startServer(first, status(200, "ok"))
		defer server.Close()
		req, _ := http.NewRequest(method, server.URL+"/bucket/key", strings.NewReader("content"))
		req.Header.Set(name, value)
		resp, err := client.Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		fmt.Printf("%d %s\n", resp.StatusCode, strings.TrimSpace(string(body)))
	}
	const (
		slowDown  = "<Error><Code>SlowDown</Code></Error>"
		internal  = "<Error><Code>InternalError</Code></Error>"
		conflict  = "<Error><Code>ConditionalRequestConflict</Code></Error>"
		throttled = `{"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}`
	)
	send(status(503, slowDown), "PUT", "Content-Type", "text/plain")
	send(status(200, internal), "PUT", "X-Amz-Copy-Source", "/bucket/other")
	send(status(400, throttled), "POST", "X-Amz-Target", "DynamoDB_20120810.GetItem")
	send(status(409, conflict), "PUT", "If-None-Match", "*")
	send(status(409, conflict), "PUT", "If-Match", `"etag"`)
	// Output:
	// 200 ok
	// 200 ok
	// 200 ok
	// 200 ok
	// 409 <Error><Code>ConditionalRequestConflict</Code></Error>
}

// Amazon SimpleDB, "API error retries", recommends longer delays than those of
// the AWS SDKs: random, up to 4^n * 100 ms, with n from 1. The default policy
// knows its errors, REST and SOAP.
func ExampleExponential_simpleDB() {
	longest := awsretry.Exponential{Initial: 400 * time.Millisecond, Factor: 4, Jitter: awsretry.NoJitter}
	for n := range 3 {
		fmt.Println(longest.Delay(n, awsretry.Transient, 0))
	}
	// Output:
	// 400ms
	// 1.6s
	// 6.4s
}

// Discord gives the delay in the body, in seconds.
func ExampleTransport_retryAfter() {
	server := startServer(status(429, `{"message": "You are being rate limited.", "retry_after": 0.04}`), status(200, "ok"))
	defer server.Close()

	client := &http.Client{Transport: &awsretry.Transport{
		Backoff: quick,
		RetryAfter: func(_ *http.Response, body []byte) (time.Duration, bool) {
			var limited struct {
				RetryAfter float64 `json:"retry_after"`
			}
			if json.Unmarshal(body, &limited) != nil || limited.RetryAfter <= 0 || limited.RetryAfter > 3600 {
				return 0, false // use the headers
			}
			return time.Duration(limited.RetryAfter * float64(time.Second)), true
		},
	}}
	start := time.Now()
	resp, err := client.Get(server.URL)
	printStatus(resp, err, time.Since(start) >= 40*time.Millisecond)
	// Output: 200 true
}

// An API says that no request is left in the present fifth of a second. The next
// request waits for its end, instead of being refused.
func ExampleReadLimits() {
	server := startServer(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("RateLimit-Limit", "1")
		w.Header().Set("RateLimit-Remaining", "0")
		w.Header().Set("RateLimit-Reset", "0.2")
	}, status(200, "ok"))
	defer server.Close()

	client := &http.Client{Transport: &awsretry.Transport{
		Mode:      awsretry.Adaptive,
		RateLimit: awsretry.RateLimitConfig{Limits: awsretry.ReadLimits},
	}}
	start := time.Now()
	for range 2 {
		resp, err := client.Get(server.URL)
		printStatus(resp, err, "waited:", time.Since(start) >= 200*time.Millisecond)
	}
	// Output:
	// 200 waited: false
	// 200 waited: true
}

// A client of a language model knows about how many tokens a request takes, and
// leaves a tenth of each limit to others. State shows the limits, with the request
// that is in flight taken off.
func ExampleRateLimitConfig() {
	const expected = 500 // tokens of a response
	transport := &awsretry.Transport{
		Mode: awsretry.Adaptive,
		RateLimit: awsretry.RateLimitConfig{
			Limits: awsretry.ReadLimits,
			Cost: func(req *http.Request, limit string) float64 {
				prompt := float64(req.ContentLength) / 4 // a token has about four bytes
				switch limit {
				case "tokens":
					return prompt + expected // tokens of the response
				case "input-tokens":
					return prompt
				case "output-tokens":
					return expected
				}
				return 1
			},
			Reserve: 0.1,
		},
	}
	transport.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
		state, _ := transport.State("models.example")
		for _, limit := range state.Limits {
			fmt.Println(limit.Name, limit.Remaining, "of", limit.Quota)
		}
		return httpfake.Response(req, 200, http.NoBody,
			"X-RateLimit-Limit-Requests", "500", "X-RateLimit-Remaining-Requests", "500", "X-RateLimit-Reset-Requests", "0s",
			"X-RateLimit-Limit-Tokens", "30000", "X-RateLimit-Remaining-Tokens", "30000", "X-RateLimit-Reset-Tokens", "0s"), nil
	})
	client := &http.Client{Transport: transport}

	for range 2 {
		prompt := strings.NewReader(`{"prompt": "Hello!"}`)
		resp, err := client.Post("https://models.example/v1/chat", "application/json", prompt)
		printStatus(resp, err)
	}
	// Output:
	// 200
	// requests 499 of 500
	// tokens 29495 of 30000
	// 200
}
