package delivery_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"example.com/awsretry/delivery"
	"example.com/awsretry/delivery/letters"
	"example.com/awsretry/retrytest"
)

// A message is delivered later, when its endpoint is up again.
func Example() {
	server := httptest.NewServer(retrytest.Statuses(503, 503, 503, 503, 200))
	defer server.Close()
	dir, err := os.MkdirTemp("", "letters")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	policy, err := delivery.Parse([]byte(`{"healthyRetryPolicy": {"numRetries": 3, "numNoDelayRetries": 3}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	queue := &letters.Dir{Path: dir}
	client := &http.Client{
		Transport: &delivery.Transport{Policy: policy, DeadLetter: queue.Put},
		// A redirect is a failed delivery like any other.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Post(server.URL, "application/json", strings.NewReader(`{"Message": "hello"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	for letter, err := range queue.List() {
		fmt.Println(letter.Method, letter.Status, letter.Attempts, letter.Reason, err)
	}

	done, err := queue.Redrive(context.Background(), &delivery.Transport{Policy: policy}, letters.RedriveOptions{})
	fmt.Println(done.Delivered, done.Kept, err)
	// Output:
	// POST 503 4 max_attempts <nil>
	// 1 0 <nil>
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
