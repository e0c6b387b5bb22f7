package awsretry_test

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

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
	const maxTokens = 500 // as the requests say
	transport := &awsretry.Transport{
		Mode: awsretry.Adaptive,
		RateLimit: awsretry.RateLimitConfig{
			Limits: awsretry.ReadLimits,
			Cost: func(req *http.Request, limit string) float64 {
				prompt := float64(req.ContentLength) / 4 // a token has about four bytes
				switch limit {
				case "tokens":
					return prompt + maxTokens
				case "input-tokens":
					return prompt
				case "output-tokens":
					return maxTokens
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
