package awssdk

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"example.com/awsretry"
	"github.com/aws/aws-sdk-go-v2/aws"
)

const loopVariable = "AWS_NEW_RETRIES_2026"

func TestRunsLoop2026(t *testing.T) {
	for _, value := range []string{"", "true"} {
		t.Setenv(loopVariable, value)
		if got, want := runsLoop2026(), value != ""; got != want {
			t.Errorf("%s=%s: %v, want %v", loopVariable, value, got, want)
		}
	}
}

// A withoutVariable is a Retryer whose methods do not find the variable that the
// SDK's loop reads, as in a version of the SDK that has the loop of 2026 only.
type withoutVariable struct{ aws.RetryerV2 }

func hide() (show func()) {
	value := os.Getenv(loopVariable)
	os.Unsetenv(loopVariable)
	return func() { os.Setenv(loopVariable, value) }
}

func (r withoutVariable) IsErrorRetryable(err error) bool {
	defer hide()()
	return r.RetryerV2.IsErrorRetryable(err)
}

func (r withoutVariable) RetryDelay(attempt int, err error) (time.Duration, error) {
	defer hide()()
	return r.RetryerV2.RetryDelay(attempt, err)
}

func (r withoutVariable) GetRetryToken(ctx context.Context, opErr error) (func(error) error, error) {
	defer hide()()
	put, err := r.RetryerV2.GetRetryToken(ctx, opErr)
	return hiding(put), err
}

func (r withoutVariable) GetAttemptToken(ctx context.Context) (func(error) error, error) {
	defer hide()()
	put, err := r.RetryerV2.GetAttemptToken(ctx)
	return hiding(put), err
}

func hiding(put func(error) error) func(error) error {
	return func(err error) error {
		defer hide()()
		return put(err)
	}
}

// The loop of 2026 is seen by what it does, without the variable that selects
// it, and also if that was set after NewRetryer.
func TestLoopIsSeen(t *testing.T) {
	eachLoop(t, func(t *testing.T, apply bool) {
		show := hide()
		r := mustRetryer(t, Config{Mode: awsretry.Adaptive, Revision: awsretry.Revision2026, MaxAttempts: 4})
		show()
		c := newClient(apply)
		c.wrap = func(r aws.Retryer) aws.Retryer { return withoutVariable{r.(aws.RetryerV2)} }
		busy := step{status: 500}
		asks := step{status: 500, header: map[string]string{"X-Amz-Retry-After": "60000"}}
		if err := c.call(t.Context(), r, busy, busy, asks, step{status: 200}); err != nil {
			t.Fatal(err)
		}
		want := []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 5200 * time.Millisecond}
		if got := c.delays(); !slices.Equal(got, want) {
			t.Errorf("the delays are %v, want %v", got, want)
		}
		if got := tokens(t, r, "S3 us-east-1"); got != 500-2*14 {
			t.Errorf("%d tokens, want %d", got, 500-2*14)
		}
		// The limiter learns of the retries too.
		c.call(t.Context(), r, busy, step{status: 429}, step{status: 404})
		if state, _ := r.State("S3 us-east-1"); !state.Limited {
			t.Errorf("a throttled retry is not seen: %+v", state)
		}
	})
}
