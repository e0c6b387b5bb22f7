package awssdk

import (
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"example.com/awsretry"
)

// loopVariable is what selects the loop of 2026 before v1.48 of the SDK.
const loopVariable = "AWS_NEW_RETRIES_2026"

// The loops of the SDK's versions, which the README has a table of.
var (
	loopBefore2026 = traits{}
	loopOfVariable = traits{from0: true, header: true, firstOnly: true}
	loop2026       = traits{header: true}
)

// The traits are those of one of the loops, and the revision follows them.
func TestTraits(t *testing.T) {
	for value, loops := range map[string]map[traits]awsretry.Revision{
		"":     {loopBefore2026: awsretry.Classic, loop2026: awsretry.Revision2026},
		"true": {loopOfVariable: awsretry.Revision2026, loop2026: awsretry.Revision2026},
	} {
		t.Setenv(loopVariable, value)
		seen := seeTraits()
		revision, ok := loops[seen]
		r, err := NewRetryer(Config{})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.transport.Revision; !ok || got != revision {
			t.Errorf("%s=%s: the loop has %+v, the zero Revision is %v", loopVariable, value, seen, got)
		}
	}
}

// The loop is seen by what it does, also if the variable that selects it was set
// after NewRetryer.
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
