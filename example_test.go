package awsretry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"example.com/awsretry"
)

// startServer starts a server on loopback that answers with one handler after the other, and with the last from then on.
func startServer(handlers ...http.HandlerFunc) *httptest.Server {
	var n atomic.Int64
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handlers[min(int(n.Add(1)), len(handlers))-1](w, r)
	}))
}

func status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Error(w, body, code) }
}

func echo(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }

// quick makes the examples short; a program has no need of it.
var quick = awsretry.Exponential{Initial: time.Millisecond}

func Example() {
	server := startServer(status(503, "busy"), echo)
	defer server.Close()

	client := &http.Client{Transport: &awsretry.Transport{Backoff: quick}}
	resp, err := client.Post(server.URL, "text/plain", strings.NewReader("sent twice, whole"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Printf("%d %s\n", resp.StatusCode, body)
	// Output: 200 sent twice, whole
}

// A payment is not made twice: a POST is repeated only where it was throttled, was never sent, or has an idempotency key.
func ExampleIdempotentOnly() {
	server := startServer(status(500, "did it work? who knows"), status(200, "paid"))
	defer server.Close()

	client := &http.Client{Transport: &awsretry.Transport{Policy: awsretry.IdempotentOnly(nil), Backoff: quick}}
	resp, err := client.Post(server.URL+"/payments", "application/json", strings.NewReader(`{"amount": 5}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println("without a key:", resp.StatusCode)

	req, _ := http.NewRequest("POST", server.URL+"/payments", strings.NewReader(`{"amount": 5}`))
	req.Header.Set("Idempotency-Key", "7f4c1e")
	if resp, err = client.Do(req); err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println("with a key:", resp.StatusCode)
	// Output:
	// without a key: 500
	// with a key: 200
}

// The settings of the AWS SDKs and the AWS CLI: the environment, then ~/.aws/config. What is set in code goes before both.
func ExampleLoad() {
	environment := map[string]string{"AWS_RETRY_MODE": "adaptive", "AWS_MAX_ATTEMPTS": "5", "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull}
	source := awsretry.Source{Getenv: func(name string) string { return environment[name] }} // the zero Source is this process

	transport, err := awsretry.Load(source)
	if err != nil {
		fmt.Println(err) // names the variable, or file, profile and key, the value, and what is allowed
		return
	}
	transport.AttemptTimeout = 10 * time.Second
	client := &http.Client{Transport: transport}

	settings, _ := source.Resolve()
	fmt.Println(settings.Mode, "from", settings.ModeFrom)
	fmt.Println(settings.MaxAttempts, "attempts from", settings.MaxAttemptsFrom)
	_ = client
	// Output:
	// adaptive from environment AWS_RETRY_MODE
	// 5 attempts from environment AWS_MAX_ATTEMPTS
}

// The answer comes back as it is, and Outcome says why it was not retried again.
func ExampleOutcome() {
	server := startServer(status(503, "down"))
	defer server.Close()

	client := &http.Client{Transport: &awsretry.Transport{Backoff: quick}}
	resp, err := client.Get(server.URL)
	if err != nil {
		var e *awsretry.Error // no answer: Attempts, Stop, and the transport's error in its chain
		fmt.Println(errors.As(err, &e), err)
		return
	}
	defer resp.Body.Close()
	if outcome, ok := awsretry.Outcome(resp); ok {
		fmt.Printf("%s after %d attempts: %s\n", resp.Status, outcome.Number, outcome.Stop)
	}
	// Output: 503 Service Unavailable after 3 attempts: max_attempts
}

// Every attempt can be seen, for one client or for one request.
func ExampleLogTo() {
	server := startServer(status(429, "slow down"), status(200, "ok"))
	defer server.Close()

	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: reproducible}))
	client := &http.Client{Transport: &awsretry.Transport{Observe: awsretry.LogTo(logger), Backoff: quick}}

	ctx := awsretry.WithObserver(context.Background(), func(a awsretry.Attempt) {
		fmt.Println("attempt", a.Number, "was", a.Class)
	})
	req, _ := http.NewRequestWithContext(ctx, "GET", server.URL+"/things?key=secret", nil)
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	// Output:
	// level=DEBUG msg=retrying method=GET url=http://127.0.0.1/things attempt=1 class=throttled status=429
	// attempt 1 was throttled
	// attempt 2 was success
}

// reproducible leaves out what differs from run to run.
func reproducible(_ []string, a slog.Attr) slog.Attr {
	switch a.Key {
	case slog.TimeKey, "elapsed", "delay":
		return slog.Attr{}
	case "url":
		return slog.String("url", "http://127.0.0.1"+a.Value.String()[strings.LastIndex(a.Value.String(), "/"):])
	}
	return a
}

// A signature that goes stale in a long pause is made anew before each attempt.
func ExampleTransport_prepare() {
	server := startServer(status(500, "again"), func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("Authorization")) })
	defer server.Close()

	sign := func(req *http.Request, attempt int) error {
		req.Header.Set("Authorization", fmt.Sprintf("signature of attempt %d", attempt))
		return nil
	}
	client := &http.Client{Transport: &awsretry.Transport{Prepare: sign, Backoff: quick}}
	resp, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Printf("%s\n", body)
	// Output: signature of attempt 2
}

// A file is read in place, however large it is, and each attempt reads it from where it stood.
func ExampleTransport_upload() {
	var received bytes.Buffer
	server := startServer(status(503, "busy"), func(w http.ResponseWriter, r *http.Request) { received.ReadFrom(r.Body) })
	defer server.Close()
	file, err := os.Open("testdata/vectors/exponential.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	size, _ := file.Stat()

	client := &http.Client{Transport: &awsretry.Transport{Backoff: quick}}
	req, _ := http.NewRequest("PUT", server.URL+"/object", file)
	req.ContentLength = size.Size()
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.StatusCode, received.Len() == int(size.Size()))
	// Output: 200 true
}
