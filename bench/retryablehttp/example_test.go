package retryablehttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/retryablehttp"
)

// A client that paces its attempts and logs each call that fails.
func Example() {
	var requests atomic.Int64
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
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
	fmt.Println(resp.Status, "after", requests.Load(), "attempts")
	// Output:
	// 200 OK after 3 attempts
}
