package services_test

import (
	"bytes"
	"fmt"
	"net/http"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/services"
)

// A payment is executed once, although the request may be sent three times.
func Example() {
	t := &awsretry.Transport{Policy: awsretry.IdempotentOnly(services.Stripe.Policy)}
	services.Stripe.Apply(t)
	client := &http.Client{Transport: t}
	fmt.Println(client.Transport.(*awsretry.Transport).IdempotencyKey != nil)
	// Output: true
}

// Apply sets the fields that are not set.
func ExampleService_Apply() {
	t := &awsretry.Transport{}
	services.GitHub.Apply(t)
	client := &http.Client{Transport: t}
	fmt.Println(client.Transport.(*awsretry.Transport).MaxRetryAfter)
	// Output: 1h1m0s
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
