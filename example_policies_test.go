package awsretry_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"example.com/awsretry"
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
