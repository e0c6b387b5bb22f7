package retryablehttp_test

import (
	"fmt"
	"net/http/httptest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/retryablehttp"
	"example.com/awsretry/retrytest"
)

// A client that paces its attempts and logs each call that fails.
func Example() {
	base := retrytest.Statuses(503, 503, 200)
	service := httptest.NewServer(base)
	defer service.Close()

	client := retryablehttp.NewClient()
	client.Transport().Mode = awsretry.Adaptive      // paces attempts at a service that throttles
	client.Transport().Observe = awsretry.LogTo(nil) // one line for each call that fails

	client.Logger, client.RetryWaitMin = nil, time.Millisecond
	resp, err := client.Get(service.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status, "after", len(base.Sent()), "attempts")
	// Output:
	// 200 OK after 3 attempts
}
