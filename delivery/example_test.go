package delivery_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"example.com/awsretry/delivery"
	"example.com/awsretry/retrytest"
)

// What cannot be delivered is handed to a function, which keeps it.
func Example() {
	server := httptest.NewServer(retrytest.Statuses(503, 503, 503, 503))
	defer server.Close()

	policy, err := delivery.Parse([]byte(`{"healthyRetryPolicy": {"numRetries": 3, "numNoDelayRetries": 3}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	keep := func(_ context.Context, dead delivery.DeadLetter) error {
		body, err := io.ReadAll(dead.Request.Body)
		fmt.Printf("%s %s: %s, after %d attempts\n", dead.Request.Method, body, dead.Reason, dead.Attempts)
		return err
	}
	client := &http.Client{
		Transport: &delivery.Transport{Policy: policy, DeadLetter: keep},
		// A redirect is a failed delivery like any other.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Post(server.URL, "application/json", strings.NewReader(`{"Message": "hello"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.Status)
	// Output:
	// POST {"Message": "hello"}: max_attempts, after 4 attempts
	// 503 Service Unavailable
}

func ExampleParse() {
	_, err := delivery.Parse([]byte(`{"healthyRetryPolicy": {"numRetries": 101}}`))
	fmt.Println(err)
	_, err = delivery.Parse([]byte(`{"healthyRetryPolicy": {"retries": 3}, "throttlePolicy": {}}`))
	fmt.Println(err)
	// Output:
	// delivery: healthyRetryPolicy.numRetries is 101; it must be a whole number, 0 to 100
	// delivery: "healthyRetryPolicy.retries" is not an attribute of a delivery policy; allowed here: backoffFunction, maxDelayTarget, minDelayTarget, numMaxDelayRetries, numMinDelayRetries, numNoDelayRetries, numRetries
}
