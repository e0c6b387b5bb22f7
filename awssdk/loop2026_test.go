package awssdk

import (
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"example.com/awsretry"
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

// The loop of 2026 is seen by what it does, also if the variable that selects it
// was set after NewRetryer. TestRetryerWithoutLoopVariable of interop hides it.
func TestLoopIsSeen(t *testing.T) {
	eachLoop(t, func(t *testing.T, apply bool) {
		value := os.Getenv(loopVariable)
		os.Unsetenv(loopVariable)
		r := mustRetryer(t, Config{Mode: awsretry.Adaptive, Revision: awsretry.Revision2026, MaxAttempts: 4})
		os.Setenv(loopVariable, value)
		c := newClient(apply)
		busy := step{status: 500}
		asks := step{status: 500, header: map[string]string{"X-Amz-Retry-After": "60000"}}
		if err := c.call(t.Context(), r, step{err: sending(io.EOF)}, busy, asks, step{status: 200}); err != nil {
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
