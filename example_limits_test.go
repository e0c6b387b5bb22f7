package awsretry_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// An API allows two requests in each fifth of a second, and says in each
// response how many are left. The third request waits for the next window
// instead of being refused.
func ExampleReadLimits() {
	server, refused := startLimited(2, 200*time.Millisecond)
	defer server.Close()

	client := &http.Client{Transport: &awsretry.Transport{
		Mode:      awsretry.Adaptive,
		RateLimit: awsretry.RateLimitConfig{Limits: awsretry.ReadLimits},
	}}
	for range 5 {
		resp, err := client.Get(server.URL)
		printStatus(resp, err)
	}
	fmt.Println(*refused, "refused")
	// Output:
	// 200
	// 200
	// 200
	// 200
	// 200
	// 0 refused
}

// startLimited starts a server on loopback that serves that many requests in each
// window. It counts those that it refuses. It is for one request at a time.
func startLimited(quota int, window time.Duration) (server *httptest.Server, refused *int) {
	refused = new(int)
	var ends time.Time
	var used int
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if now := time.Now(); now.After(ends) {
			ends, used = now.Add(window), 0
		}
		used++
		w.Header().Set("RateLimit-Limit", strconv.Itoa(quota))
		w.Header().Set("RateLimit-Remaining", strconv.Itoa(max(quota-used, 0)))
		w.Header().Set("RateLimit-Reset", fmt.Sprintf("%.3f", time.Until(ends).Seconds()))
		if used > quota {
			*refused++
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})), refused
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
