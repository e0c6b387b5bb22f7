package awsretry_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"example.com/awsretry"
)

// GitHub throttles with 403 as well as with 429. Its secondary rate limits send
// a Retry-After header. Its primary rate limit ends at X-RateLimit-Reset, up to
// an hour later, so that response is returned at once.
func ExamplePolicy_gitHub() {
	github := func(a *awsretry.Attempt) awsretry.Class {
		r := a.Response
		if r != nil && r.StatusCode == http.StatusForbidden && r.Header.Get("Retry-After") != "" {
			return awsretry.Throttled
		}
		return awsretry.DefaultPolicy(a)
	}
	client := &http.Client{Transport: &awsretry.Transport{Policy: github, Backoff: quick}}

	for _, limited := range []http.HandlerFunc{
		statusWith(403, "Retry-After", "1"),
		statusWith(403, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "4102444800"),
	} {
		server := startServer(limited, status(200, "ok"))
		resp, err := client.Get(server.URL)
		printStatus(resp, err)
		server.Close()
	}
	// Output:
	// 200
	// 403
}

// A Base can translate a service's own header to Retry-After. The delay is then
// long enough, or the response is returned if that would take longer than
// MaxRetryAfter. Here it is the header of GitHub's primary rate limit.
func ExampleTransport_rateLimitReset() {
	reset := exampleBase(func(req *http.Request) (*http.Response, error) {
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err == nil && resp.Header.Get("X-RateLimit-Remaining") == "0" {
			if at, err := strconv.ParseInt(resp.Header.Get("X-RateLimit-Reset"), 10, 64); err == nil {
				resp.Header.Set("Retry-After", time.Unix(at, 0).UTC().Format(http.TimeFormat))
			}
		}
		return resp, err
	})
	throttled := func(a *awsretry.Attempt) awsretry.Class {
		r := a.Response
		if r != nil && r.StatusCode == http.StatusForbidden && r.Header.Get("Retry-After") != "" {
			return awsretry.Throttled
		}
		return awsretry.DefaultPolicy(a)
	}
	client := &http.Client{Transport: &awsretry.Transport{Base: reset, Policy: throttled, Backoff: quick}}

	soon := time.Now().Unix() + 1
	server := startServer(
		statusWith(403, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", strconv.FormatInt(soon, 10)),
		status(200, "ok"),
	)
	defer server.Close()
	resp, err := client.Get(server.URL)
	printStatus(resp, err, time.Now().Unix() >= soon)
	// Output: 200 true
}

// An exampleBase is a function used as a RoundTripper.
type exampleBase func(*http.Request) (*http.Response, error)

func (f exampleBase) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// OpenAI and Anthropic say in X-Should-Retry whether to retry. Their own
// clients also retry 409, which is a lock that was not free in time. The
// default policy knows 429, 529 (overloaded) and 5xx.
func ExamplePolicy_openAI() {
	models := func(a *awsretry.Attempt) awsretry.Class {
		class := awsretry.DefaultPolicy(a)
		if a.Response == nil {
			return class
		}
		should := a.Response.Header.Get("X-Should-Retry")
		locked := a.Response.StatusCode == http.StatusConflict
		switch {
		case should == "false":
			return awsretry.Permanent
		case class == awsretry.Permanent && (should == "true" || locked):
			return awsretry.Transient
		}
		return class
	}
	client := &http.Client{Transport: &awsretry.Transport{Policy: models, Backoff: quick}}

	for _, first := range []http.HandlerFunc{
		statusWith(529),
		statusWith(409),
		statusWith(404, "X-Should-Retry", "true"),
		statusWith(429, "X-Should-Retry", "false"),
	} {
		server := startServer(first, status(200, "Hello!"))
		prompt := strings.NewReader(`{"messages": []}`)
		resp, err := client.Post(server.URL+"/v1/chat/completions", "application/json", prompt)
		printStatus(resp, err)
		server.Close()
	}
	// Output:
	// 200
	// 200
	// 200
	// 429
}

// Stripe says in Stripe-Should-Retry whether to retry. A 409 means that another
// request has locked the object. A payment is retried only with its idempotency
// key, which stripe-go sends with every POST.
func ExamplePolicy_stripe() {
	stripe := awsretry.IdempotentOnly(func(a *awsretry.Attempt) awsretry.Class {
		class := awsretry.DefaultPolicy(a)
		if a.Response == nil {
			return class
		}
		should := a.Response.Header.Get("Stripe-Should-Retry")
		locked := a.Response.StatusCode == http.StatusConflict
		switch {
		case should == "false":
			return awsretry.Permanent
		case class == awsretry.Permanent && (should == "true" || locked):
			return awsretry.Transient
		}
		return class
	})
	client := &http.Client{Transport: &awsretry.Transport{Policy: stripe, Backoff: quick}}

	pay := func(first http.HandlerFunc, key string) {
		server := startServer(first, status(200, "paid"))
		defer server.Close()
		payment := strings.NewReader("amount=500&currency=eur")
		req, _ := http.NewRequest("POST", server.URL+"/v1/payment_intents", payment)
		if key != "" {
			req.Header.Set("Idempotency-Key", key)
		}
		resp, err := client.Do(req)
		printStatus(resp, err)
	}
	pay(statusWith(409), "7f4c1e")
	pay(statusWith(500), "7f4c1e")
	pay(statusWith(500), "")
	pay(statusWith(500, "Stripe-Should-Retry", "false"), "7f4c1e") // Stripe repeats this response for the key
	// Output:
	// 200
	// 200
	// 500
	// 500
}

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

	send := func(first http.HandlerFunc, method string, header ...string) {
		server := startServer(first, status(200, "ok"))
		defer server.Close()
		req, _ := http.NewRequest(method, server.URL+"/bucket/key", strings.NewReader("content"))
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
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
	send(status(503, slowDown), "PUT")
	send(status(200, internal), "PUT", "X-Amz-Copy-Source", "/bucket/other")
	send(status(400, throttled), "POST")
	send(status(409, conflict), "PUT", "If-None-Match", "*")
	send(status(409, conflict), "PUT", "If-Match", `"etag"`)
	// Output:
	// 200 ok
	// 200 ok
	// 200 ok
	// 200 ok
	// 409 <Error><Code>ConditionalRequestConflict</Code></Error>
}

// statusWith responds with a status and headers. header has names and values in
// turn.
func statusWith(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}
