package awsretry_test

import (
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"
	"time"

	"example.com/awsretry"
)

func Example_settings() {
	os.Setenv("AWS_CONFIG_FILE", os.DevNull)
	defer os.Unsetenv("AWS_CONFIG_FILE")
	fmt.Println(withSettings())
	// Output: <nil>
}

func withSettings() error {
	transport, err := awsretry.Load(awsretry.Source{})
	if err != nil {
		return err // names the variable, or file, profile and key, the value, and what is allowed
	}
	transport.AttemptTimeout = 10 * time.Second
	client := &http.Client{Transport: transport}
	_ = client
	return nil
}

func Example_observed() {
	server := startServer(status(503, "down"))
	defer server.Close()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	log.SetFlags(0)
	log.SetOutput(os.Stdout)
	if err := observed(server.URL); err != nil {
		fmt.Println(err)
	}
	// Output: 503 Service Unavailable after 3 attempts: max_attempts
}

func observed(url string) error {
	client := &http.Client{Transport: &awsretry.Transport{Observe: awsretry.LogTo(slog.Default()), Backoff: quick}}
	resp, err := client.Get(url)
	if err != nil {
		return err // an *awsretry.Error: Attempts, Stop, and the transport's error in its chain
	}
	if outcome, ok := awsretry.Outcome(resp); ok {
		log.Printf("%s after %d attempts: %s", resp.Status, outcome.Number, outcome.Stop)
	}
	return resp.Body.Close()
}
