package retrytest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/retrytest"
)

// fetch is the code under test.
func fetch(ctx context.Context, client *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", errors.New(resp.Status)
	}
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// newClient is what the program under test makes its client with.
func newClient(base http.RoundTripper) *http.Client {
	return &http.Client{Transport: &awsretry.Transport{Base: base}}
}

// A call is retried twice, and then succeeds.
func Example() {
	base := &retrytest.Base{Script: []retrytest.Step{
		{Status: 503}, {Err: io.ErrUnexpectedEOF}, {Status: 200, Body: "17 orders"},
	}}
	client := &http.Client{Transport: retrytest.NoWait(&awsretry.Transport{Base: base})}

	body, err := fetch(context.Background(), client, "http://service.example/orders")
	fmt.Println(body, err)
	for _, req := range base.Sent() {
		fmt.Println(req.Attempt, req.Method, req.URL)
	}
	// Output:
	// 17 orders <nil>
	// 1 GET http://service.example/orders
	// 2 GET http://service.example/orders
	// 3 GET http://service.example/orders
}

// NoWait leaves the other settings of a Transport as they are.
func ExampleNoWait() {
	base := retrytest.Statuses(503, 503, 503, 503, 503)
	transport := &awsretry.Transport{Base: base, MaxAttempts: 5}
	client := &http.Client{Transport: retrytest.NoWait(transport)}

	_, err := fetch(context.Background(), client, "http://service.example/orders")
	fmt.Println(err, "after", len(base.Sent()), "attempts")
	// Output: 503 Service Unavailable after 5 attempts
}

// Throttling with an error code, as DynamoDB's, and with Retry-After.
func ExampleBase_throttling() {
	base := &retrytest.Base{Script: []retrytest.Step{
		{Status: 400, Code: "ThrottlingException"},
		{Status: 429, Header: http.Header{"Retry-After": {"2"}}},
		{Status: 200},
	}}
	observe := func(a awsretry.Attempt) { fmt.Printf("%d %s %q\n", a.Number, a.Class, a.Code) }
	client := &http.Client{Transport: retrytest.NoWait(&awsretry.Transport{Base: base, Observe: observe})}

	_, err := fetch(context.Background(), client, "http://service.example/orders")
	fmt.Println(err)
	// Output:
	// 1 throttled "ThrottlingException"
	// 2 throttled ""
	// 3 success ""
	// <nil>
}

// The script of a server, for code that makes its own client.
func ExampleBase_ServeHTTP() {
	base := &retrytest.Base{Script: []retrytest.Step{{Status: 503}, {Status: 200, Body: "17 orders"}}}
	server := httptest.NewServer(base)
	defer server.Close()
	client := &http.Client{Transport: retrytest.NoWait(&awsretry.Transport{})}

	body, err := fetch(context.Background(), client, server.URL)
	fmt.Println(body, err, len(base.Sent()))
	// Output: 17 orders <nil> 2
}

// A download that breaks off, and continues.
func ExampleStep() {
	etag := http.Header{"Etag": {`"v1"`}}
	base := &retrytest.Base{Script: []retrytest.Step{
		{Status: 200, Header: etag, Body: "17 or", Err: io.ErrUnexpectedEOF},
		{Status: 206, Header: http.Header{"Etag": {`"v1"`}, "Content-Range": {"bytes 5-8/9"}}, Body: "ders"},
	}}
	client := &http.Client{Transport: retrytest.NoWait(&awsretry.Transport{Base: base, Resume: true})}

	body, err := fetch(context.Background(), client, "http://service.example/orders")
	fmt.Println(body, err, base.Sent()[1].Header["Range"])
	// Output: 17 orders <nil> [bytes=5-]
}

func TestGivesUp(t *testing.T) {
	base := retrytest.Statuses(503, 503, 503)
	client := &http.Client{Transport: retrytest.NoWait(&awsretry.Transport{Base: base})}

	if _, err := fetch(t.Context(), client, "http://service.example/orders"); err == nil {
		t.Error("no error after three failures")
	}
	if n := len(base.Sent()); n != 3 {
		t.Errorf("%d attempts, want 3", n)
	}
}

func TestReason(t *testing.T) {
	base := retrytest.Statuses(503, 503, 503)
	client := &http.Client{Transport: retrytest.NoWait(&awsretry.Transport{Base: base})}

	resp, err := client.Get("http://service.example/orders")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if outcome, _ := awsretry.Outcome(resp); outcome.Stop != awsretry.StopMaxAttempts {
		t.Errorf("the call ended by %q", outcome.Stop)
	}
}

func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := retrytest.Statuses(503, 503, 200)
		if _, err := fetch(t.Context(), newClient(base), "http://service.example/orders"); err != nil {
			t.Fatal(err)
		}
		sent := base.Sent()
		if d := sent[2].Time.Sub(sent[0].Time); d > 3*time.Second {
			t.Errorf("the delays took %v, more than 1 s and 2 s", d)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &retrytest.Base{Script: []retrytest.Step{
			{Status: 429, Header: http.Header{"Retry-After": {"20"}}}, {Status: 200},
		}}
		begin := time.Now()
		if _, err := fetch(t.Context(), newClient(base), "http://service.example/orders"); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin); d < 20*time.Second || d > 25*time.Second {
			t.Errorf("retried after %v, want 20 s and a random part of up to 5 s", d)
		}
	})
}

func TestSlowService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &retrytest.Base{Script: []retrytest.Step{{Status: 200, Delay: time.Minute}}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()

		if _, err := fetch(ctx, newClient(base), "http://service.example/orders"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
	})
}

func TestWorkersSlowDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &retrytest.Base{Script: []retrytest.Step{{Status: 200}, {Status: 429}, {Status: 200}, {Status: 200}}}
		client := &http.Client{Transport: &awsretry.Transport{Base: base, Mode: awsretry.Adaptive}}
		for range 3 {
			if _, err := fetch(t.Context(), client, "http://service.example/orders"); err != nil {
				t.Fatal(err)
			}
		}
		sent := base.Sent()
		if d := sent[3].Time.Sub(sent[2].Time); d == 0 {
			t.Error("the next call was not held back")
		}
	})
}
