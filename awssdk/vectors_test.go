package awssdk

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/awsproto"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/google/go-cmp/cmp"
)

// A vector is one call of the vectors that Transport is tested with: those of
// the AWS documents, and of the AWS SDK for Go for the 2026 revision.
type vector struct {
	Name        string
	Mode        awsretry.Mode
	Revision    awsretry.Revision
	MaxAttempts int
	Capacity    int
	Target      string
	Answers     []struct {
		Status int
		Header map[string]string
	}
	Pauses []string // before each retry
	Tokens []int    // after each decision
	Stop   awsretry.Stop
}

// dynamoDBDefaults reports whether the attempts of v are DynamoDB's default.
func (v vector) dynamoDBDefaults() bool {
	return v.Revision == awsretry.Revision2026 && strings.HasPrefix(v.Target, "DynamoDB_") && v.MaxAttempts == 0
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
		Quota: awsretry.QuotaConfig{Capacity: v.Capacity}, RetryAfterSpread: -1,
	})
	c := &client{service: "S3", operation: "PutObject", apply: apply}
	prefix, operation, _ := strings.Cut(v.Target, ".")
	for service, target := range targets {
		if target == prefix+"." {
			c.service, c.operation = service, operation
		}
	}
	var left []int
	c.beforeEach = func() { left = append(left, tokens(t, r, c.service+" us-east-1")) }
	var steps []step
	for _, answer := range v.Answers {
		header := make(http.Header)
		for name, value := range answer.Header {
			header.Set(name, value)
		}
		steps = append(steps, step{status: answer.Status, header: answer.Header, code: awsproto.HeaderCode(header)})
	}
	err := c.call(t.Context(), r, steps...)
	c.beforeEach()

	var want []time.Duration
	for _, pause := range v.Pauses {
		d, err := time.ParseDuration(pause)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, d)
	}
	if len(c.steps) > 0 {
		t.Errorf("%d attempts, want %d", len(c.sent), len(v.Answers))
	}
	if diff := cmp.Diff(want, c.delays()); diff != "" {
		t.Errorf("delays (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(v.Tokens, left[1:]); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
	if got := stopOf(err); got != v.Stop {
		t.Errorf("stop %q, want %q: %v", got, v.Stop, err)
	}
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
	if delay, err := r.RetryDelay(0, nil); delay != 50*time.Millisecond || err != nil {
		t.Errorf("delay without an error: %v, %v", delay, err)
	}
}
