package awsretry_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/poll"
)

// The examples of README.md and docs that no other file has.

// Adaptive mode holds nothing back before a service throttles.
func Example_adaptive() {
	server := startServer(status(200, "ok"))
	defer server.Close()

	client := &http.Client{Transport: &awsretry.Transport{Mode: awsretry.Adaptive}}
	resp, err := client.Get(server.URL)
	for _, state := range client.Transport.(*awsretry.Transport).Partitions() {
		printStatus(resp, err, "held back:", state.Limited)
	}
	// Output: 200 held back: false
}

// Scaled pacing suits low rates and slow services.
func Example_scaledPacing() {
	transport := &awsretry.Transport{
		Mode:      awsretry.Adaptive,
		RateLimit: awsretry.RateLimitConfig{Pacing: awsretry.ScaledPacing},
	}
	fmt.Println(transport.Validate(), transport.RateLimit.Pacing)
	// Output: <nil> scaled
}

// Each tenant has its own token bucket and rate limiter.
func ExampleWithPartition() {
	server := startServer(status(503, "busy"), status(200, "ok"))
	defer server.Close()
	transport := &awsretry.Transport{Backoff: quick}
	client := &http.Client{Transport: transport}

	for _, tenant := range []string{"alice", "bob"} {
		ctx := context.Background()
		ctx = awsretry.WithPartition(ctx, tenant)
		req, _ := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
		resp, err := client.Do(req)
		printStatus(resp, err)
	}
	for partition, state := range transport.Partitions() {
		fmt.Println(partition, state.Tokens)
	}
	// Output:
	// 200
	// 200
	// bob 500
	// alice 500
}

// A profile of the shared AWS config file has the settings of a batch job.
func Example_profile() {
	os.Setenv("AWS_CONFIG_FILE", "testdata/readme/config")
	os.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	defer os.Unsetenv("AWS_CONFIG_FILE")
	defer os.Unsetenv("AWS_SHARED_CREDENTIALS_FILE")

	if err := loadBatch(); err != nil {
		fmt.Println(err)
	}
	// Output: adaptive mode, 8 attempts
}

func loadBatch() error {
	transport, err := awsretry.Load(awsretry.Source{Profile: "batch"})
	if err != nil {
		return err // names the setting, its value, where it is, and what is allowed
	}
	client := &http.Client{Transport: transport}

	_ = client
	fmt.Printf("%s mode, %d attempts\n", transport.Mode, transport.MaxAttempts)
	return nil
}

// A response body that breaks off is continued at the byte where it broke.
func Example_resume() {
	const object = "all of the object"
	halfOfIt := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Etag", `"v1"`)
		w.Header().Set("Content-Length", fmt.Sprint(len(object)))
		io.WriteString(w, object[:8])
	}
	theRest := func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Header.Get("Range"), "of", r.Header.Get("If-Range"))
		w.Header().Set("Etag", `"v1"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(object))
	}
	server := startServer(halfOfIt, theRest)
	defer server.Close()
	var file strings.Builder

	if err := download(server.URL, &file); err != nil {
		fmt.Println(err)
	}
	fmt.Println(file.String())
	// Output:
	// bytes=8- of "v1"
	// all of the object
}

func download(url string, file io.Writer) error {
	client := &http.Client{Transport: &awsretry.Transport{Resume: true, Backoff: quick}}
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept-Encoding", "identity") // net/http asks for gzip by itself
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(file, resp.Body)
	return err
}

// An operation that runs in the service is asked for its state until
// it is done.
func Example_polling() {
	states := []string{"CREATING", "CREATING", "ACTIVE"}
	tableStatus := func(context.Context) (string, error) {
		status := states[0]
		states = states[1:]
		fmt.Println(status)
		return status, nil
	}
	ctx := context.Background()

	err := poll.Until(ctx, poll.Config{MaxAttempts: 10, Backoff: quick}, func(ctx context.Context) (poll.State, error) {
		status, err := tableStatus(ctx)
		switch {
		case err != nil:
			return poll.ServerError, err
		case status != "ACTIVE":
			return poll.NotReady, nil
		}
		return poll.Done, nil
	})
	fmt.Println(err)
	// Output:
	// CREATING
	// CREATING
	// ACTIVE
	// <nil>
}
