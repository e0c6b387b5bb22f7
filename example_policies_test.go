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

// GitHub throttles with 403 as well as 429. Its secondary rate limits say in Retry-After when to come back; the primary one is over at
// X-RateLimit-Reset, up to an hour away, and its answer goes back at once.
func ExamplePolicy_gitHub() {
	github := func(a *awsretry.Attempt) awsretry.Class {
		if r := a.Response; r != nil && r.StatusCode == http.StatusForbidden && r.Header.Get("Retry-After") != "" {
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
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
		fmt.Println(resp.StatusCode)
		server.Close()
	}
	// Output:
	// 200
	// 403
}

// A Base may say in Retry-After what a service says in a header of its own: the pause is then long enough, or, where it were longer than
// MaxRetryAfter, the answer goes back. Here GitHub's primary rate limit.
func ExampleTransport_rateLimitReset() {
	reset := baseFunc(func(req *http.Request) (*http.Response, error) {
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err == nil && resp.Header.Get("X-RateLimit-Remaining") == "0" {
			if at, err := strconv.ParseInt(resp.Header.Get("X-RateLimit-Reset"), 10, 64); err == nil {
				resp.Header.Set("Retry-After", time.Unix(at, 0).UTC().Format(http.TimeFormat))
			}
		}
		return resp, err
	})
	throttled := func(a *awsretry.Attempt) awsretry.Class {
		if r := a.Response; r != nil && r.StatusCode == http.StatusForbidden && r.Header.Get("Retry-After") != "" {
			return awsretry.Throttled
		}
		return awsretry.DefaultPolicy(a)
	}
	client := &http.Client{Transport: &awsretry.Transport{Base: reset, Policy: throttled, Backoff: quick}}

	soon := time.Now().Unix() + 1
	server := startServer(statusWith(403, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", strconv.FormatInt(soon, 10)), status(200, "ok"))
	defer server.Close()
	resp, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.StatusCode, time.Now().Unix() >= soon)
	// Output: 200 true
}

// OpenAI and Anthropic say in X-Should-Retry whether to retry, and retry 409 themselves, a lock that was not had in time. 429, 529
// (overloaded) and 5xx are the default's.
func ExamplePolicy_openAI() {
	models := func(a *awsretry.Attempt) awsretry.Class {
		class := awsretry.DefaultPolicy(a)
		switch r := a.Response; {
		case r != nil && r.Header.Get("X-Should-Retry") == "false":
			return awsretry.Permanent
		case r != nil && class == awsretry.Permanent && (r.Header.Get("X-Should-Retry") == "true" || r.StatusCode == http.StatusConflict):
			return awsretry.Transient
		}
		return class
	}
	client := &http.Client{Transport: &awsretry.Transport{Policy: models, Backoff: quick}}

	for _, first := range []http.HandlerFunc{
		statusWith(529), statusWith(409), statusWith(404, "X-Should-Retry", "true"), statusWith(429, "X-Should-Retry", "false"),
	} {
		server := startServer(first, status(200, "Hello!"))
		resp, err := client.Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"messages": []}`))
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
		fmt.Println(resp.StatusCode)
		server.Close()
	}
	// Output:
	// 200
	// 200
	// 200
	// 429
}

// Stripe says in Stripe-Should-Retry whether to retry, and answers 409 when another request holds the object's lock. A payment is
// repeated only with its idempotency key, which stripe-go sends with every POST.
func ExamplePolicy_stripe() {
	stripe := awsretry.IdempotentOnly(func(a *awsretry.Attempt) awsretry.Class {
		class := awsretry.DefaultPolicy(a)
		switch r := a.Response; {
		case r != nil && r.Header.Get("Stripe-Should-Retry") == "false":
			return awsretry.Permanent
		case r != nil && class == awsretry.Permanent && (r.Header.Get("Stripe-Should-Retry") == "true" || r.StatusCode == http.StatusConflict):
			return awsretry.Transient
		}
		return class
	})
	client := &http.Client{Transport: &awsretry.Transport{Policy: stripe, Backoff: quick}}

	pay := func(first http.HandlerFunc, key string) {
		server := startServer(first, status(200, "paid"))
		defer server.Close()
		req, _ := http.NewRequest("POST", server.URL+"/v1/payment_intents", strings.NewReader("amount=500&currency=eur"))
		if key != "" {
			req.Header.Set("Idempotency-Key", key)
		}
		resp, err := client.Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
		fmt.Println(resp.StatusCode)
	}
	pay(statusWith(409), "7f4c1e")
	pay(statusWith(500), "7f4c1e")
	pay(statusWith(500), "")
	pay(statusWith(500, "Stripe-Should-Retry", "false"), "7f4c1e") // the first answer is kept for the key
	// Output:
	// 200
	// 200
	// 500
	// 500
}

// Amazon S3 and DynamoDB need no policy: SlowDown, a 200 that holds an error, and DynamoDB's throttling, which travels with status 400, are
// the default's. One for S3's conditional writes adds the conflict of two writers, after which a write with If-None-Match may be tried
// again (Amazon S3 API Reference, "PutObject"); with If-Match the object's new ETag has to be fetched first.
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
	send(status(503, "<Error><Code>SlowDown</Code></Error>"), "PUT")
	send(status(200, "<Error><Code>InternalError</Code></Error>"), "PUT", "X-Amz-Copy-Source", "/bucket/other")
	send(status(400, `{"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}`), "POST")
	send(status(409, "<Error><Code>ConditionalRequestConflict</Code></Error>"), "PUT", "If-None-Match", "*")
	send(status(409, "<Error><Code>ConditionalRequestConflict</Code></Error>"), "PUT", "If-Match", `"etag"`)
	// Output:
	// 200 ok
	// 200 ok
	// 200 ok
	// 200 ok
	// 409 <Error><Code>ConditionalRequestConflict</Code></Error>
}

// statusWith answers with a status and headers, names and values in turn.
func statusWith(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}
