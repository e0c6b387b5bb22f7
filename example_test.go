package awsretry_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"example.com/awsretry"
)

// startServer starts a server on loopback. Its first request goes to the first
// handler, its second to the second, and so on; the last handler gets the rest.
func startServer(handlers ...http.HandlerFunc) *httptest.Server {
	var n atomic.Int64
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handlers[min(int(n.Add(1)), len(handlers))-1](w, r)
	}))
}

func status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Error(w, body, code) }
}

// printStatus closes a response and prints its status, and what else is given.
func printStatus(resp *http.Response, err error, more ...any) {
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(append([]any{resp.StatusCode}, more...)...)
}

// quick keeps the examples short. A program does not need it.
var quick = awsretry.Exponential{Initial: time.Millisecond}

// A request that is safe to repeat is sent again when the service fails.
func Example() {
	server := startServer(status(503, "busy"), status(200, "ok"))
	defer server.Close()
	url := server.URL

	client := &http.Client{Transport: &awsretry.Transport{Policy: awsretry.IdempotentOnly(nil), Backoff: quick}}
	resp, err := client.Get(url)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.StatusCode)
	// Output: 200
}

// A payment is not made twice: a POST is retried only if it was throttled, was
// never sent, or has an idempotency key.
func ExampleIdempotentOnly() {
	server := startServer(status(500, "paid, perhaps"), status(200, "paid"))
	defer server.Close()
	const key = "7f4c1e"

	client := &http.Client{Transport: &awsretry.Transport{Policy: awsretry.IdempotentOnly(nil), Backoff: quick}}
	resp, err := client.Post(server.URL+"/payments", "application/json", strings.NewReader(`{"amount": 5}`))
	printStatus(resp, err, "without a key")

	req, _ := http.NewRequest("POST", server.URL+"/payments", strings.NewReader(`{"amount": 5}`))
	req.Header.Set("Idempotency-Key", key)
	resp, err = client.Do(req)
	printStatus(resp, err, "with a key")
	// Output:
	// 500 without a key
	// 200 with a key
}

// The last response comes back as it is. Outcome says why it was not retried.
func ExampleOutcome() {
	server := startServer(status(503, "down"))
	defer server.Close()

	client := &http.Client{Transport: &awsretry.Transport{Backoff: quick}}
	resp, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err) // an *awsretry.Error: Attempts, Stop, and the transport's error
		return
	}
	defer resp.Body.Close()

	defer logTo(os.Stdout)()
	if outcome, ok := awsretry.Outcome(resp); ok {
		log.Printf("%s after %d attempts: %s", resp.Status, outcome.Number, outcome.Stop)
	}
	// Output: 503 Service Unavailable after 3 attempts: max_attempts
}

// An observer sees every attempt, of one client or of one request.
func ExampleWithObserver() {
	server := startServer(status(429, "slow down"), status(200, "ok"))
	defer server.Close()

	ctx := awsretry.WithObserver(context.Background(), func(a awsretry.Attempt) {
		fmt.Println("attempt", a.Number, "was", a.Class)
	})
	client := &http.Client{Transport: &awsretry.Transport{Backoff: quick}}
	req, _ := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
	resp, err := client.Do(req)
	printStatus(resp, err)
	// Output:
	// attempt 1 was throttled
	// attempt 2 was success
	// 200
}

// slog's default level is info: retries, which are logged at level debug, show
// after it is lowered.
func ExampleLogTo() {
	server := startServer(status(503, "busy"), status(200, "ok"), status(503, "busy"), status(200, "ok"))
	defer server.Close()
	defer logTo(beginnings{})()
	defer slog.SetLogLoggerLevel(slog.LevelInfo)

	client := &http.Client{Transport: &awsretry.Transport{Observe: awsretry.LogTo(slog.Default()), Backoff: quick}}
	for _, call := range []string{"first", "second"} {
		resp, err := client.Get(server.URL)
		printStatus(resp, err, call, "call")
		slog.SetLogLoggerLevel(slog.LevelDebug)
	}
	// Output:
	// 200 first call
	// DEBUG retrying method=GET
	// 200 second call
}

// logTo has the log package write to w, without the time, until the function
// that it returns is called.
func logTo(w io.Writer) (restore func()) {
	log.SetFlags(0)
	log.SetOutput(w)
	return func() {
		log.SetFlags(log.LstdFlags)
		log.SetOutput(os.Stderr)
	}
}

// beginnings prints the part of each line that is the same in every run.
type beginnings struct{}

func (beginnings) Write(line []byte) (int, error) {
	begin, _, _ := strings.Cut(string(line), " url=")
	fmt.Println(begin)
	return len(line), nil
}

// A signature that expires in a long delay is made for each attempt.
func ExampleTransport_prepare() {
	server := startServer(status(500, "again"), func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("Authorization"))
	})
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
