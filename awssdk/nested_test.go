package awssdk

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"github.com/aws/smithy-go"
)

// A call within an attempt, such as one for credentials, has decisions and
// its own buckets, whichever of the two clients Apply configured, and
// whether or not its client clears the stack values of the attempt.
func TestNestedCall(t *testing.T) {
	busy, fine := step{status: 500}, step{status: 200}
	for i := range 8 {
		outerApply, innerApply, keepsStack := i&4 != 0, i&2 != 0, i&1 != 0
		t.Run(fmt.Sprint(outerApply, innerApply, keepsStack), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := mustRetryer(t, Config{Mode: awsretry.Adaptive})
				inner := &client{service: "STS", operation: "AssumeRole", apply: innerApply, keepsStack: keepsStack}
				outer := newClient(outerApply)
				innerCalls := 0
				outer.inside = func(ctx context.Context) error {
					if innerCalls++; innerCalls > 1 {
						return inner.call(ctx, r, busy, fine)
					}
					return operationError(inner.call(ctx, r, busy, busy, busy))
				}
				if err := outer.call(t.Context(), r, busy, fine); err != nil || len(outer.sent) != 3 {
					t.Errorf("%d attempts: %v", len(outer.sent), err)
				}
				// Each of the two loses a retry's tokens but the last one's.
				if s3, sts := tokens(t, r, "S3 us-east-1"), tokens(t, r, "STS us-east-1"); s3 != 495 || sts != 490 {
					t.Errorf("S3 has %d tokens, want 495; STS %d, want 490", s3, sts)
				}
			})
		})
	}
}

// operationError is what the SDK's clients make of the error of a call.
func operationError(err error) error {
	return &smithy.OperationError{ServiceID: "STS", OperationName: "AssumeRole", Err: err}
}

// A nested call may go on in its own goroutine when the attempt that began
// it has ended. The race detector sees if it uses the Loop of that call.
func TestNestedCallOutlivesAttempt(t *testing.T) {
	each(t, func(t *testing.T, apply bool) {
		r := mustRetryer(t, Config{})
		inner := &client{service: "STS", operation: "AssumeRole", apply: apply, keepsStack: true}
		outer := newClient(true)
		var wg sync.WaitGroup
		var innerErr error
		outer.inside = func(ctx context.Context) error {
			wg.Go(func() { innerErr = inner.call(ctx, r, step{status: 500}, step{status: 200}) })
			return nil
		}
		if err := outer.call(t.Context(), r, step{status: 404}); err == nil {
			t.Error("no error")
		}
		wg.Wait()
		if innerErr != nil || len(inner.sent) != 2 {
			t.Errorf("%d attempts: %v", len(inner.sent), innerErr)
		}
	})
}

// Many calls may fail with the error of one call for credentials. None takes it
// for that of an attempt of its own.
func TestSharedError(t *testing.T) {
	each(t, func(t *testing.T, apply bool) {
		r := mustRetryer(t, Config{})
		inner := &client{service: "STS", operation: "AssumeRole", apply: true}
		busy := step{status: 500}
		shared := inner.call(t.Context(), r, busy, busy, busy)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				outer := newClient(apply)
				outer.inside = func(context.Context) error { return shared }
				err := outer.call(t.Context(), r)
				if len(outer.sent) != 3 || stopOf(err) != awsretry.StopMaxAttempts {
					t.Errorf("%d attempts, want 3: %v", len(outer.sent), err)
				}
			})
		}
		wg.Wait()
		if got := tokens(t, r, "S3 us-east-1"); got != 500-8*2*5 {
			t.Errorf("%d tokens, want %d", got, 500-8*2*5)
		}
	})
}

// Where the service of a nested call throttles, the attempt is repeated, but
// its own service is not taken for one that throttles.
func TestNestedThrottling(t *testing.T) {
	slow := step{status: 503, code: "SlowDown", header: map[string]string{"Retry-After": "30"}}
	each(t, func(t *testing.T, apply bool) {
		r := mustRetryer(t, Config{Mode: awsretry.Adaptive, ShareRetryAfter: true, RetryAfterSpread: -1})
		c := newClient(apply)
		c.inside = func(context.Context) error { return operationError(slow.failure(nil)) }
		if err := c.call(t.Context(), r); stopOf(err) != awsretry.StopMaxAttempts || len(c.sent) != 3 {
			t.Errorf("%d attempts, want 3: %v", len(c.sent), err)
		}
		if state, _ := r.State("S3 us-east-1"); state.Limited {
			t.Errorf("the limiter of S3 limits: %+v", state)
		}
		c.inside = nil
		start := time.Now()
		if err := c.call(t.Context(), r, step{status: 200}); err != nil || time.Since(start) > 0 {
			t.Errorf("%v, the next call took %v", err, time.Since(start))
		}
	})
}
