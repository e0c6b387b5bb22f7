package services_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/services"
)

// quick keeps the examples short. A program does not need it.
var quick = awsretry.Exponential{Initial: time.Millisecond}

// The service knows that a 403 is throttling. The policy knows that a POST must not
// be executed twice.
func Example() {
	server := httptest.NewServer(gitHub())
	defer server.Close()
	url := server.URL

	t := &awsretry.Transport{Policy: awsretry.IdempotentOnly(nil), Backoff: quick}
	services.GitHub.Apply(t) // if it is GitHub
	client := &http.Client{Transport: t}
	resp, err := client.Get(url)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.Status)

	resp, err = client.Post(url, "application/json", strings.NewReader(`{"title": "an issue"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.Status)
	// Output:
	// 200 OK
	// 502 Bad Gateway
}

// gitHub limits the first GET. It executes each POST, and loses its response.
func gitHub() http.HandlerFunc {
	limited := false
	return func(w http.ResponseWriter, req *http.Request) {
		switch {
		case req.Method == "POST":
			w.WriteHeader(502)
		case !limited:
			limited = true
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(403)
			io.WriteString(w, `{"message": "You have exceeded a secondary rate limit"}`)
		}
	}
}

// Apply sets the fields that are not set. A payment is executed once, although the
// request may be sent three times.
func ExampleService_Apply() {
	t := &awsretry.Transport{MaxRetryAfter: time.Hour}
	services.Stripe.Apply(t)
	fmt.Println(t.IdempotencyKey != nil, t.MaxRetryAfter)
	// Output: true 1h0m0s
}

// Many workers share what GitHub's secondary limits allow.
func ExampleService_Apply_workers() {
	t := &awsretry.Transport{
		Mode:      awsretry.Adaptive,
		RateLimit: awsretry.RateLimitConfig{ScaleConstant: 1e-8}, // five to ten minutes until the old rate
	}
	services.GitHub.Apply(t)
	fmt.Println(t.MaxAttempts, t.ShareRetryAfter)
	// Output: 6 true
}

// A service responds with 200 and {"status":"busy"}, has a limit for each
// tenant, and wants five seconds between two attempts.
func ExampleService() {
	warehouse := services.Service{
		Policy: func(a *awsretry.Attempt) awsretry.Class {
			if bytes.HasPrefix(a.Body, []byte(`{"status":"busy"`)) {
				return awsretry.Throttled
			}
			return awsretry.DefaultPolicy(a)
		},
		RetryAfter: func(*http.Response, []byte) (time.Duration, bool) { return 5 * time.Second, true },
		Partition:  func(req *http.Request) string { return req.URL.Host + " " + req.Header.Get("X-Tenant") },
		Peek:       func(_ *http.Response, body []byte) (more bool) { return len(body) < len(`{"status":"busy"`) },
	}
	t := &awsretry.Transport{}
	warehouse.Apply(t)
	fmt.Println(t.Validate())
	// Output: <nil>
}
