package awssdk

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/awsproto"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/google/go-cmp/cmp"
)

// A vector is one of the vectors that Transport is tested with: those of the
// AWS documents, and of the AWS SDKs for the 2026 revision.
type vector struct {
	Name        string
	Mode        awsretry.Mode
	Revision    awsretry.Revision
	MaxAttempts int
	MaxBackoff  string // "" is the default
	Capacity    int
	Target      string
	vectorCall
	Calls      []vectorCall // one after the other, in place of the one call
	Concurrent bool         // the Calls begin at the same time
	Left       int          // tokens after concurrent calls
}

// A vectorCall is one call of a vector.
type vectorCall struct {
	Answers []struct {
		Status int
		Header map[string]string
	}
	Waited string   // for a send token, before the first attempt
	Pauses []string // before each retry
	End    string   // the delay of a long poll, before its response is returned
	Tokens []int    // after each decision
	Stop   awsretry.Stop
}

// dynamoDBDefaults reports whether the attempts of v are DynamoDB's default.
func (v vector) dynamoDBDefaults() bool {
	return v.Revision == awsretry.Revision2026 && strings.HasPrefix(v.Target, "DynamoDB_") && v.MaxAttempts == 0
}

// longPolls reports whether a call of v ends with the delay of a long poll.
func (v vector) longPolls() bool {
	return slices.ContainsFunc(append(v.Calls, v.vectorCall), func(c vectorCall) bool { return c.End != "" })
}

func TestVectors(t *testing.T) {
	data, err := os.ReadFile("../testdata/vectors/retry.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, loop := range []string{"", "true"} {
		for _, apply := range []bool{false, true} {
			for _, v := range vectors {
				t.Run(name(apply, loop)+"/"+v.Name, func(t *testing.T) {
					if !apply && v.dynamoDBDefaults() {
						t.Skip("the interface does not say that a call is of DynamoDB")
					}
					t.Setenv("AWS_NEW_RETRIES_2026", loop)
					if !apply && v.longPolls() && runsLoop2026() {
						t.Skip("the SDK's loop delays the long polls of its own clients only")
					}
					synctest.Test(t, func(t *testing.T) { v.test(t, apply) })
				})
			}
		}
	}
}

func name(apply bool, loop string) string {
	parts := []string{"plain", "Classic loop"}
	if apply {
		parts[0] = "applied"
	}
	if loop != "" {
		parts[1] = "2026 loop"
	}
	return strings.Join(parts, ", ")
}

func (v vector) test(t *testing.T, apply bool) {
	r := mustRetryer(t, Config{
		Mode: v.Mode, Revision: v.Revision, MaxAttempts: v.MaxAttempts,
		Backoff: awsretry.Exponential{Max: duration(t, v.MaxBackoff), Jitter: awsretry.NoJitter},
		Quota:   awsretry.QuotaConfig{Capacity: v.Capacity}, RetryAfterSpread: -1,
	})
	newClient := func() *client {
		c := &client{service: "S3", operation: "PutObject", apply: apply}
		prefix, operation, _ := strings.Cut(v.Target, ".")
		for service, target := range targets {
			if target == prefix+"." {
				c.service, c.operation = service, operation
			}
		}
		return c
	}
	if v.Calls == nil {
		v.vectorCall.test(t, newClient(), r)
		return
	}
	var calls sync.WaitGroup
	for _, c := range v.Calls {
		if !v.Concurrent {
			c.test(t, newClient(), r)
			continue
		}
		calls.Go(func() { c.test(t, newClient(), r) })
	}
	calls.Wait()
	if got := tokens(t, r, newClient().partition()); v.Concurrent && got != v.Left {
		t.Errorf("%d tokens left, want %d", got, v.Left)
	}
}

func (c *client) partition() string { return c.service + " us-east-1" }

func (v vectorCall) test(t *testing.T, c *client, r *Retryer) {
	var left []int
	c.beforeEach = func() { left = append(left, tokens(t, r, c.partition())) }
	var steps []step
	for _, answer := range v.Answers {
		header := make(http.Header)
		for name, value := range answer.Header {
			header.Set(name, value)
		}
		steps = append(steps, step{status: answer.Status, header: answer.Header, code: awsproto.HeaderCode(header)})
	}
	start := time.Now()
	err := c.call(t.Context(), r, steps...)
	c.beforeEach()

	if len(c.steps) > 0 || len(c.sent) != len(v.Answers) {
		t.Errorf("%d attempts, want %d", len(c.sent), len(v.Answers))
		return
	}
	if got, want := c.sent[0].Sub(start), duration(t, v.Waited); got != want {
		t.Errorf("the first attempt waited %v, want %v", got, want)
	}
	var want []time.Duration
	for _, pause := range v.Pauses {
		want = append(want, duration(t, pause))
	}
	if diff := cmp.Diff(want, c.delays()); diff != "" {
		t.Errorf("delays (-want +got):\n%s", diff)
	}
	if got, want := time.Since(c.sent[len(c.sent)-1]), duration(t, v.End); got != want {
		t.Errorf("the call ended %v after the last attempt, want %v", got, want)
	}
	if diff := cmp.Diff(v.Tokens, left[1:]); v.Tokens != nil && diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
	if got := stopOf(err); got != v.Stop {
		t.Errorf("stop %q, want %q: %v", got, v.Stop, err)
	}
}

// duration returns the duration that s says, 0 if s is empty.
func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Error(err)
	}
	return d
}

// stopOf returns why the SDK's call ended.
func stopOf(err error) awsretry.Stop {
	var e *awsretry.Error
	var spent *retry.MaxAttemptsError
	switch {
	case err == nil:
		return awsretry.StopSuccess
	case errors.As(err, &e):
		return e.Stop
	case errors.As(err, &spent):
		return awsretry.StopMaxAttempts
	}
	return awsretry.StopPermanent
}

// The steps of the AWS SDK for Go's own test of its 2026 retryer, which calls
// the methods of the interface one by one.
func TestPublishedSteps(t *testing.T) {
	r := mustRetryer(t, Config{Revision: awsretry.Revision2026})
	failure := step{status: 500}.failure(nil)
	var left []int
	retryToken := release
	for attempt, err := range []error{failure, failure, nil} {
		attemptToken, tokenErr := r.GetAttemptToken(t.Context())
		if tokenErr != nil {
			t.Fatal(tokenErr)
		}
		retryToken(err)
		if attempt == 0 {
			attemptToken(err)
		}
		if err != nil {
			if !r.IsErrorRetryable(err) {
				t.Fatalf("%v is not retryable", err)
			}
			if retryToken, tokenErr = r.GetRetryToken(t.Context(), err); tokenErr != nil {
				t.Fatal(tokenErr)
			}
			delay, delayErr := r.RetryDelay(attempt, err)
			if want := 50 * time.Millisecond << attempt; delay != want || delayErr != nil {
				t.Errorf("delay %v, %v; want %v", delay, delayErr, want)
			}
		}
		left = append(left, tokens(t, r, ""))
	}
	if want := []int{486, 472, 486}; !slices.Equal(left, want) {
		t.Errorf("tokens %v, want %v", left, want)
	}
	throttled := step{status: 400, code: "Throttling"}.failure(nil)
	if delay, err := r.RetryDelay(0, throttled); delay != time.Second || err != nil {
		t.Errorf("delay after throttling, as of a long poll without tokens: %v, %v", delay, err)
	}
	if delay, err := r.RetryDelay(0, nil); delay != 50*time.Millisecond || err != nil {
		t.Errorf("delay without an error: %v, %v", delay, err)
	}
}
