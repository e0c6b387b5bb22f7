package awssdk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// record is what TestObserve compares of an Attempt.
func record(a awsretry.Attempt) string {
	return fmt.Sprintf("%d %v %s delay %v stop %q", a.Number, a.Class, a.Code, a.Delay, a.Stop)
}

// Every attempt of a client that Apply configured is observed once, with the
// decision on it.
func TestObserve(t *testing.T) {
	busy, slow, missing := step{status: 500}, step{status: 400, code: "Throttling"}, step{status: 404, code: "NoSuchKey"}
	for _, tt := range []struct {
		name   string
		config Config
		steps  []step
		want   []string
	}{
		{"success", Config{}, []step{{status: 200}}, []string{`1 success  delay 0s stop "success"`}},
		{"permanent", Config{}, []step{missing}, []string{`1 permanent NoSuchKey delay 0s stop "permanent"`}},
		{"saved", Config{}, []step{busy, slow, {status: 200}}, []string{
			`1 transient  delay 1s stop ""`, `2 throttled Throttling delay 2s stop ""`, `3 success  delay 0s stop "success"`,
		}},
		{"attempts used up", Config{MaxAttempts: 2}, []step{busy, busy}, []string{
			`1 transient  delay 1s stop ""`, `2 transient  delay 0s stop "max_attempts"`,
		}},
		{"quota", Config{Quota: awsretry.QuotaConfig{Capacity: 5}}, []step{busy, busy}, []string{
			`1 transient  delay 1s stop ""`, `2 transient  delay 0s stop "quota"`,
		}},
		{"no retry", Config{MaxAttempts: 1}, []step{busy}, []string{`1 transient  delay 0s stop "max_attempts"`}},
	} {
		for _, loop := range []string{"", "true"} {
			t.Run(tt.name+loop, func(t *testing.T) {
				t.Setenv("AWS_NEW_RETRIES_2026", loop)
				synctest.Test(t, func(t *testing.T) {
					var got []string
					tt.config.Observe = func(a awsretry.Attempt) {
						got = append(got, record(a))
						if a.Partition != "S3 us-east-1" || a.Request == nil || a.Start.IsZero() {
							t.Errorf("%+v", a)
						}
					}
					c := &client{service: "S3", operation: "GetObject", apply: true}
					c.call(t.Context(), mustRetryer(t, tt.config), tt.steps...)
					if !slices.Equal(got, tt.want) {
						t.Errorf("observed %q\nwant     %q", got, tt.want)
					}
				})
			})
		}
	}
}

// What the options of a client or an operation say goes before the Config.
func TestClientOptions(t *testing.T) {
	busy := step{status: 500}
	for _, tt := range []struct {
		name string
		wrap func(aws.Retryer) aws.Retryer
		step step
		want int // attempts
	}{
		{"more attempts", func(r aws.Retryer) aws.Retryer { return retry.AddWithMaxAttempts(r, 5) }, busy, 5},
		{"one attempt", func(r aws.Retryer) aws.Retryer { return retry.AddWithMaxAttempts(r, 1) }, busy, 1},
		{"another code", func(r aws.Retryer) aws.Retryer { return retry.AddWithErrorCodes(r, "Custom") },
			step{status: 400, code: "Custom"}, 3},
		{"another retryer", func(aws.Retryer) aws.Retryer { return aws.NopRetryer{} }, busy, 1},
		{"none", nil, busy, 3},
	} {
		for _, apply := range []bool{false, true} {
			for _, loop := range []string{"", "true"} {
				t.Run(tt.name+"/"+name(apply, loop), func(t *testing.T) {
					t.Setenv("AWS_NEW_RETRIES_2026", loop)
					synctest.Test(t, func(t *testing.T) {
						c := &client{service: "S3", operation: "GetObject", apply: apply, wrap: tt.wrap}
						err := c.call(t.Context(), mustRetryer(t, Config{}), tt.step, tt.step, tt.step, tt.step, tt.step)
						if len(c.sent) != tt.want || err == nil {
							t.Errorf("%d attempts, want %d: %v", len(c.sent), tt.want, err)
						}
						var api *smithyhttp.ResponseError
						if !errors.As(err, &api) {
							t.Errorf("%v is not the service's error", err)
						}
					})
				})
			}
		}
	}
}

// The header of each attempt has the attempts that the call can have.
func TestAttemptsInHeader(t *testing.T) {
	for _, tt := range []struct {
		service string
		want    string
	}{{"S3", "attempt=1; max=3"}, {"DynamoDB", "attempt=1; max=4"}} {
		c := &client{service: tt.service, operation: "GetItem", apply: true}
		if err := c.call(t.Context(), mustRetryer(t, Config{Revision: awsretry.Revision2026}), step{status: 200}); err != nil {
			t.Fatal(err)
		}
		if c.max[0] != tt.want {
			t.Errorf("%s: %q, want %q", tt.service, c.max[0], tt.want)
		}
	}
}

// A retry that would come after the deadline is not begun: the service's error
// is returned at once.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
		defer cancel()
		c := &client{service: "S3", operation: "GetObject", apply: true}
		start := time.Now()
		err := c.call(ctx, mustRetryer(t, Config{}), step{status: 503, code: "SlowDown"})
		var api smithy.APIError
		if stopOf(err) != awsretry.StopDeadline || !errors.As(err, &api) || time.Since(start) > 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// A retry that gets no send token in time ends with the service's error too.
func TestRetryWithoutSendToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRetryer(t, Config{Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{FailFast: true}})
		c := &client{service: "S3", operation: "GetObject", apply: true}
		slow := step{status: 503, code: "SlowDown"}
		err := c.call(t.Context(), r, slow, slow, slow)
		var api smithy.APIError
		if !errors.Is(err, awsretry.ErrRateLimited) || !errors.As(err, &api) || len(c.sent) == 3 {
			t.Errorf("%v after %d attempts", err, len(c.sent))
		}
	})
}

// A call whose context is canceled ends at once, in the delay and in the line
// for a send token.
func TestCancel(t *testing.T) {
	for _, apply := range []bool{false, true} {
		t.Run(name(apply, ""), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := mustRetryer(t, Config{Mode: awsretry.Adaptive})
				c := &client{service: "S3", operation: "GetObject", apply: apply}
				slow := step{status: 503, code: "SlowDown"}
				for range 3 {
					ctx, cancel := context.WithCancel(t.Context())
					time.AfterFunc(100*time.Millisecond, cancel)
					start := time.Now()
					err := c.call(ctx, r, slow, slow)
					if !errors.Is(err, context.Canceled) || time.Since(start) != 100*time.Millisecond {
						t.Errorf("%v after %v", err, time.Since(start))
					}
				}
			})
		})
	}
}

// A call within an attempt, such as one for credentials, has decisions and
// buckets of its own, whichever of the two clients Apply configured.
func TestNestedCall(t *testing.T) {
	busy, fine := step{status: 500}, step{status: 200}
	for _, outerApply := range []bool{false, true} {
		for _, innerApply := range []bool{false, true} {
			t.Run(fmt.Sprint(outerApply, innerApply), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := mustRetryer(t, Config{Mode: awsretry.Adaptive})
					inner := &client{service: "STS", operation: "AssumeRole", apply: innerApply}
					outer := &client{service: "S3", operation: "GetObject", apply: outerApply}
					innerCalls := 0
					outer.inside = func(ctx context.Context) error {
						if innerCalls++; innerCalls > 1 {
							return inner.call(ctx, r, busy, fine)
						}
						err := inner.call(ctx, r, busy, busy, busy)
						return &smithy.OperationError{ServiceID: "STS", OperationName: "AssumeRole", Err: err}
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
}

// A stack without the SDK's retry loop, such as that of a presigned request,
// stays as it is.
func TestStackWithoutRetries(t *testing.T) {
	stack := middleware.NewStack("GetObject", smithyhttp.NewStackRequest)
	if err := mustRetryer(t, Config{}).addMiddlewares(stack); err != nil || len(stack.Finalize.List()) != 0 {
		t.Errorf("%v, %v", err, stack.Finalize.List())
	}
}

// The Config's partition counts, and the context's before it.
func TestPartitions(t *testing.T) {
	for _, apply := range []bool{false, true} {
		t.Run(name(apply, ""), func(t *testing.T) {
			c := &client{service: "S3", operation: "GetObject", apply: apply}
			account := func(context.Context) string { return "account" }
			r := mustRetryer(t, Config{Partition: account})
			c.call(t.Context(), r, step{status: 200})
			c.call(awsretry.WithPartition(t.Context(), "table"), r, step{status: 200})
			var got []string
			for name := range r.Partitions() {
				got = append(got, name)
			}
			if want := []string{"table", "account"}; !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// A long-polling call whose retry the bucket refuses sleeps once.
func TestLongPoll(t *testing.T) {
	empty := awsretry.QuotaConfig{Capacity: 1}
	always := func(context.Context) bool { return true }
	for _, tt := range []struct {
		name   string
		config Config
		want   time.Duration
	}{
		{"Classic", Config{Quota: empty}, 0},
		{"Classic with LongPoll", Config{Quota: empty, LongPoll: always}, time.Second},
		{"2026", Config{Quota: empty, Revision: awsretry.Revision2026}, 50 * time.Millisecond},
	} {
		for _, apply := range []bool{false, true} {
			t.Run(tt.name+"/"+name(apply, ""), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := &client{service: "SQS", operation: "ReceiveMessage", apply: apply}
					start := time.Now()
					err := c.call(t.Context(), mustRetryer(t, tt.config), step{status: 500})
					if got := time.Since(start); stopOf(err) != awsretry.StopQuota || got != tt.want {
						t.Errorf("%v after %v, want %v", err, got, tt.want)
					}
				})
			})
		}
	}
}

// An initial cost is spent once for a call that Apply knows.
func TestInitialCost(t *testing.T) {
	for apply, want := range map[bool]int{false: 500 - 2*2 - 5, true: 500 - 2 - 5} {
		synctest.Test(t, func(t *testing.T) {
			r := mustRetryer(t, Config{Quota: awsretry.QuotaConfig{InitialCost: 2}})
			c := &client{service: "S3", operation: "GetObject", apply: apply}
			c.call(t.Context(), r, step{status: 500}, step{status: 404})
			if got := tokens(t, r, "S3 us-east-1"); got != want {
				t.Errorf("apply %v: %d tokens, want %d", apply, got, want)
			}
		})
	}
}
