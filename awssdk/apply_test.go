package awssdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
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

// The initial cost is not drawn for a retry that is only decided on.
func TestInitialCostOfDecision(t *testing.T) {
	for _, apply := range []bool{false, true} {
		t.Run(name(apply, ""), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				quota := awsretry.QuotaConfig{Capacity: 20, InitialCost: 8, RefillPerSecond: 1}
				c := &client{service: "S3", operation: "GetObject", apply: apply}
				err := c.call(t.Context(), mustRetryer(t, Config{Quota: quota}), step{status: 500}, step{status: 200})
				if err != nil || len(c.sent) != 2 {
					t.Errorf("%d attempts: %v", len(c.sent), err)
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
	for _, tt := range []struct {
		name     string
		revision awsretry.Revision
		ctx      func(context.Context) context.Context
		wrap     func(aws.Retryer) aws.Retryer
		want     int
		plain    int
	}{
		{"Config", awsretry.Classic, nil, nil, 3, 3},
		{"context", awsretry.Classic, ofContext, nil, 5, 3},
		{"client", awsretry.Classic, nil, ofClient, 4, 4},
		{"client, 2026", awsretry.Revision2026, nil, ofClient, 4, 4}, // not to be taken for that of DynamoDB
		{"context above client", awsretry.Classic, ofContext, ofClient, 4, 4},
	} {
		for _, apply := range []bool{false, true} {
			for _, loop := range []string{"", "true"} {
				t.Run(tt.name+"/"+name(apply, loop), func(t *testing.T) {
					t.Setenv("AWS_NEW_RETRIES_2026", loop)
					synctest.Test(t, func(t *testing.T) {
						ctx, want := t.Context(), tt.plain
						if tt.ctx != nil {
							ctx = tt.ctx(ctx)
						}
						if apply {
							want = tt.want
						}
						c := &client{service: "S3", operation: "GetObject", apply: apply, wrap: tt.wrap}
						steps := slices.Repeat([]step{{status: 500}}, 9)
						err := c.call(ctx, mustRetryer(t, Config{Revision: tt.revision}), steps...)
						var headers []string
						for i := range want {
							headers = append(headers, fmt.Sprintf("attempt=%d; max=%d", i+1, want))
						}
						if !slices.Equal(c.max, headers) || stopOf(err) != awsretry.StopMaxAttempts {
							t.Errorf("headers %q, want %q; %v", c.max, headers, err)
						}
					})
				})
			}
		}
	}
}

// Of two Retryers the one that the client has last decides alone.
func TestTwoRetryers(t *testing.T) {
	for _, tt := range []struct {
		name  string
		apply bool // the second one
	}{{"Retryer of the client", false}, {"Apply", true}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				observe := func(a awsretry.Attempt) { t.Errorf("the first Retryer observed %q", record(a)) }
				first := mustRetryer(t, Config{Observe: observe})
				second := mustRetryer(t, Config{MaxAttempts: 2, Backoff: awsretry.Exponential{
					Initial: 7 * time.Second, Jitter: awsretry.NoJitter,
				}})
				c := &client{service: "S3", operation: "GetObject", before: first, apply: tt.apply}
				c.wrap = func(r aws.Retryer) aws.Retryer {
					if tt.apply {
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
				if state, ok := first.State("S3 us-east-1"); ok && (tt.apply || state.Tokens != 500) {
					t.Errorf("the first Retryer has a partition: %+v", state)
				}
			})
		})
	}
}

// A request with a body that cannot be sent again is not retried. No delay is
// made and no token drawn for it.
func TestOneShotBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		r := mustRetryer(t, Config{Observe: func(a awsretry.Attempt) { seen = append(seen, record(a)) }})
		c := &client{service: "S3", operation: "PutObject", apply: true, body: io.MultiReader(strings.NewReader("x"))}
		start := time.Now()
		err := c.call(t.Context(), r, step{status: 503, code: "SlowDown"})
		var api smithy.APIError
		if stopOf(err) != awsretry.StopBody || !errors.As(err, &api) || time.Since(start) > 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if want := []string{`1 throttled SlowDown delay 0s stop "body"`}; !slices.Equal(seen, want) {
			t.Errorf("observed %q, want %q", seen, want)
		}
		if got := tokens(t, r, "S3 us-east-1"); got != 500 {
			t.Errorf("%d tokens, want 500", got)
		}
		// One that can be rewound is retried.
		c.body = strings.NewReader("x")
		if err := c.call(t.Context(), r, step{status: 500}, step{status: 200}); err != nil {
			t.Error(err)
		}
	})
}

// The error of a call whose context ends matches the cause, wherever the call
// waits.
func TestCanceledWithCause(t *testing.T) {
	why := errors.New("the caller lost interest")
	for _, tt := range []struct {
		name   string
		config Config
	}{
		{"in the delay", Config{Backoff: awsretry.Exponential{Initial: 15 * time.Second, Jitter: awsretry.NoJitter}}},
		{"in the line for retry tokens",
			Config{Quota: awsretry.QuotaConfig{Capacity: 1, RetryCost: 1, RefillPerSecond: 0.01, Wait: true}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(10*time.Second, func() { cancel(why) })
				c := &client{service: "S3", operation: "GetObject", apply: true}
				start := time.Now()
				busy := step{status: 500}
				err := c.call(ctx, mustRetryer(t, tt.config), busy, busy, busy)
				if !errors.Is(err, why) || !errors.Is(err, context.Canceled) || time.Since(start) != 10*time.Second {
					t.Errorf("%v after %v", err, time.Since(start))
				}
			})
		})
	}
}

// A Policy that returns a class that there is not is named in the error.
func TestInvalidClass(t *testing.T) {
	r := mustRetryer(t, Config{Policy: func(*awsretry.Attempt) awsretry.Class { return 42 }})
	c := &client{service: "S3", operation: "GetObject", apply: true}
	err := c.call(t.Context(), r, step{status: 500})
	var api *smithyhttp.ResponseError
	if len(c.sent) != 1 || !strings.Contains(fmt.Sprint(err), "Policy returned unknown class") || !errors.As(err, &api) {
		t.Errorf("%d attempts: %v", len(c.sent), err)
	}
}
