package awssdk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
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
	} {
		t.Run(tt.name, func(t *testing.T) {
			each(t, func(t *testing.T, apply bool) {
				var got []string
				tt.config.Observe = func(a awsretry.Attempt) {
					got = append(got, record(a))
					if a.Partition != "S3 us-east-1" || a.Request == nil || a.Start.IsZero() {
						t.Errorf("%+v", a)
					}
				}
				newClient(apply).call(t.Context(), mustRetryer(t, tt.config), tt.steps...)
				if want := tt.want; apply && !slices.Equal(got, want) || !apply && got != nil {
					t.Errorf("observed %q\nwant     %q", got, want)
				}
			})
		})
	}
}

// The number of attempts of a call is the context's, the client's, or that of
// the Config. The header of each attempt has it.
func TestAttempts(t *testing.T) {
	ofContext := func(ctx context.Context) context.Context { return awsretry.WithMaxAttempts(ctx, 5) }
	ofClient := func(r aws.Retryer) aws.Retryer { return retry.AddWithMaxAttempts(r, 4) }
	nop := func(aws.Retryer) aws.Retryer { return aws.NopRetryer{} }
	moreCodes := func(r aws.Retryer) aws.Retryer { return retry.AddWithErrorCodes(r, "Custom") }
	busy, custom := step{status: 500}, step{status: 400, code: "Custom"}
	for _, tt := range []struct {
		name     string
		service  string
		revision awsretry.Revision
		ctx      func(context.Context) context.Context
		wrap     func(aws.Retryer) aws.Retryer
		step     step
		want     int
		plain    int // without Apply
	}{
		{"Config", "S3", awsretry.Classic, nil, nil, busy, 3, 3},
		{"DynamoDB", "DynamoDB", awsretry.Revision2026, nil, nil, busy, 4, 3},
		{"context", "S3", awsretry.Classic, ofContext, nil, busy, 5, 3},
		{"client", "S3", awsretry.Classic, nil, ofClient, busy, 4, 4},
		{"client, 2026", "S3", awsretry.Revision2026, nil, ofClient, busy, 4, 4}, // not to be taken for that of DynamoDB
		{"another code", "S3", awsretry.Classic, nil, moreCodes, custom, 3, 3},
		{"another retryer", "S3", awsretry.Classic, nil, nop, busy, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			each(t, func(t *testing.T, apply bool) {
				ctx, want := t.Context(), tt.plain
				if tt.ctx != nil {
					ctx = tt.ctx(ctx)
				}
				if apply {
					want = tt.want
				}
				c := &client{service: tt.service, operation: "GetItem", apply: apply, wrap: tt.wrap}
				steps := slices.Repeat([]step{tt.step}, 9)
				err := c.call(ctx, mustRetryer(t, Config{Revision: tt.revision}), steps...)
				var headers []string
				for i := range want {
					headers = append(headers, fmt.Sprintf("attempt=%d; max=%d", i+1, want))
				}
				if !slices.Equal(c.max, headers) {
					t.Errorf("headers %q, want %q", c.max, headers)
				}
				if api := (*smithyhttp.ResponseError)(nil); !errors.As(err, &api) {
					t.Errorf("%v is not the service's error", err)
				}
			})
		})
	}
}

// A call whose context ends ends at once, wherever it waits. Its error matches
// the cause.
func TestCancel(t *testing.T) {
	why := errors.New("the caller lost interest")
	slow := step{status: 503, code: "SlowDown"}
	for _, tt := range []struct {
		name   string
		config Config
	}{
		{"in the delay", Config{}},
		{"in the line for a send token",
			Config{Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{MinFillRate: 0.01}}},
		{"in the line for retry tokens",
			Config{Quota: awsretry.QuotaConfig{Capacity: 1, ThrottlingCost: 1, RefillPerSecond: 0.01, Wait: true}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			each(t, func(t *testing.T, apply bool) {
				r := mustRetryer(t, tt.config)
				for range 3 { // the last ones have no token
					ctx, cancel := context.WithCancelCause(t.Context())
					time.AfterFunc(100*time.Millisecond, func() { cancel(why) })
					start := time.Now()
					err := newClient(apply).call(ctx, r, slow, slow)
					if !errors.Is(err, context.Canceled) || apply && !errors.Is(err, why) ||
						time.Since(start) != 100*time.Millisecond {
						t.Errorf("%v after %v", err, time.Since(start))
					}
				}
			})
		})
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

// A call that LongPoll reports and whose retry the bucket refuses sleeps once, after
// Apply. Without it, the SDK's loop delays the long polls of its own clients only.
// TestVectors has the calls of Revision2026.
func TestLongPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRetryer(t, Config{
			Quota:    awsretry.QuotaConfig{Capacity: 1},
			LongPoll: func(ctx context.Context) bool { return awsmiddleware.GetOperationName(ctx) == "ReceiveMessage" },
		})
		for operation, want := range map[string]time.Duration{"ReceiveMessage": time.Second, "SendMessage": 0} {
			c := &client{service: "SQS", operation: operation, apply: true}
			start := time.Now()
			err := c.call(t.Context(), r, step{status: 500})
			if got := time.Since(start); stopOf(err) != awsretry.StopQuota || got != want {
				t.Errorf("%s: %v after %v, want %v", operation, err, got, want)
			}
		}
	})
}

// An initial cost is spent once for a call that Apply knows, and for each
// attempt of another one. It is not drawn for a retry that is only decided on.
func TestInitialCost(t *testing.T) {
	each(t, func(t *testing.T, apply bool) {
		want := 500 - 2*2 - 5
		if apply {
			want = 500 - 2 - 5
		}
		r := mustRetryer(t, Config{Quota: awsretry.QuotaConfig{InitialCost: 2}})
		newClient(apply).call(t.Context(), r, step{status: 500}, step{status: 404})
		if got := tokens(t, r, "S3 us-east-1"); got != want {
			t.Errorf("%d tokens, want %d", got, want)
		}
		c := newClient(apply)
		r = mustRetryer(t, Config{Quota: awsretry.QuotaConfig{Capacity: 20, InitialCost: 8, RefillPerSecond: 1}})
		if err := c.call(t.Context(), r, step{status: 500}, step{status: 200}); err != nil || len(c.sent) != 2 {
			t.Errorf("%d attempts: %v", len(c.sent), err)
		}
	})
}

// Of two Retryers the one that the client has last decides alone.
func TestTwoRetryers(t *testing.T) {
	each(t, func(t *testing.T, apply bool) { // the second one
		observe := func(a awsretry.Attempt) { t.Errorf("the first Retryer observed %q", record(a)) }
		first := mustRetryer(t, Config{Observe: observe})
		second := mustRetryer(t, Config{MaxAttempts: 2, Backoff: awsretry.Exponential{
			Initial: 7 * time.Second, Jitter: awsretry.NoJitter,
		}})
		c := newClient(apply)
		c.before = first
		c.wrap = func(r aws.Retryer) aws.Retryer {
			if apply {
				return r
			}
			return second
		}
		busy := step{status: 500}
		c.call(t.Context(), second, busy, busy, busy)
		if got := c.delays(); !slices.Equal(got, []time.Duration{7 * time.Second}) {
			t.Errorf("the delays are %v, want those of the second Retryer", got)
		}
		if got := tokens(t, second, "S3 us-east-1"); got != 495 {
			t.Errorf("the second Retryer has %d tokens, want 495", got)
		}
		if state, ok := first.State("S3 us-east-1"); ok && (apply || state.Tokens != 500) {
			t.Errorf("the first Retryer has a partition: %+v", state)
		}
	})
}

// A request with a body that can be rewound is retried. TestErrorsOfCalls has one
// that cannot.
func TestBodyThatIsRewound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(true)
		c.body = strings.NewReader("x")
		if err := c.call(t.Context(), mustRetryer(t, Config{}), step{status: 500}, step{status: 200}); err != nil {
			t.Error(err)
		}
	})
}

// The error names a Policy that returns an undefined class.
func TestInvalidClass(t *testing.T) {
	r := mustRetryer(t, Config{Policy: func(*awsretry.Attempt) awsretry.Class { return 42 }})
	c := newClient(true)
	err := c.call(t.Context(), r, step{status: 500})
	var api *smithyhttp.ResponseError
	if len(c.sent) != 1 || !strings.Contains(fmt.Sprint(err), "Policy returned unknown class") || !errors.As(err, &api) {
		t.Errorf("%d attempts: %v", len(c.sent), err)
	}
}
