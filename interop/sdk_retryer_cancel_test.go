package interop

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/awssdk"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
)

// A call ends at once if its context is canceled: during the delay, while an
// attempt waits for a send token, and during an attempt.
func TestRetryerCancel(t *testing.T) {
	slow := sdkStep{takes: time.Minute}
	for _, tt := range []struct {
		name   string
		before []sdkStep // of calls before
		steps  []sdkStep // of the call that is canceled
		after  time.Duration
		sent   int // of its requests
		tokens int // of an applied Retryer
		plain  int // tokens of a plain one
	}{
		{"during the delay", nil, []sdkStep{failed}, 100 * time.Millisecond, 1, 500, 495},
		{"during the attempt", nil, []sdkStep{slow}, 100 * time.Millisecond, 1, 500, 500},
		{"during the second attempt", nil, []sdkStep{failed, slow}, 1100 * time.Millisecond, 2, 495, 495},
		{"in line for a send token", []sdkStep{busy}, nil, 100 * time.Millisecond, 0, 500, 500},
		{"in line for a send token, a retry", []sdkStep{busy}, []sdkStep{failed}, 101 * time.Second, 1, 500, 495},
		{"before the call", []sdkStep{{}}, nil, 0, 0, 500, 500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, u retryerUse) {
				stub := &sdkStub{steps: slices.Concat(tt.before, tt.steps)}
				r := newRetryer(t, awssdk.Config{
					Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{MinFillRate: 0.01}, // a token each 100 s
				})
				client := dynamodb.NewFromConfig(u.config(r, "ddb.example", stub))
				for range tt.before {
					client.ListTables(awsretry.WithoutRetry(t.Context()), nil)
				}
				before := len(stub.sent)
				ctx, cancel := context.WithCancel(t.Context())
				if tt.after == 0 {
					cancel()
				}
				time.AfterFunc(tt.after, cancel)
				start := time.Now()
				_, err := client.ListTables(ctx, nil)
				if took := time.Since(start); took != tt.after || !errors.Is(err, context.Canceled) {
					t.Errorf("after %v: %v; want context.Canceled after %v", took, err, tt.after)
				}
				if sent := len(stub.sent) - before; sent != tt.sent {
					t.Errorf("%d requests, want %d", sent, tt.sent)
				}
				tokens := tt.tokens
				if !u.apply {
					tokens = tt.plain
				}
				wantTokens(t, r, ddbPartition, tokens)
			})
		})
	}
}

// A delay that would end after the deadline is not begun. The error is that of
// the service, and says why there was no retry.
func TestRetryerDeadline(t *testing.T) {
	for name, step := range map[string]sdkStep{"500": failed, "throttling": busy, "reset": {err: errReset}} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, u retryerUse) {
				stub := &sdkStub{steps: []sdkStep{step, step}}
				var seen recorder
				r := newRetryer(t, awssdk.Config{Observe: seen.observe})
				const timeout = 2500 * time.Millisecond // the second delay is 2 s
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				start := time.Now()
				_, err := dynamodb.NewFromConfig(u.config(r, "ddb.example", stub)).ListTables(ctx, nil)
				took := time.Since(start)
				if !u.apply { // the interface does not say which delay it is
					if took != timeout || !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("after %v: %v; want context.DeadlineExceeded", took, err)
					}
					return
				}
				var e *awsretry.Error
				if took != time.Second || !errors.As(err, &e) || e.Stop != awsretry.StopDeadline || e.Attempts != 2 {
					t.Errorf("after %v: %v; want StopDeadline without the second delay", took, err)
				}
				var api smithy.APIError
				if step.err == nil && (!errors.As(err, &api) || api.ErrorCode() != step.code) ||
					step.err != nil && !errors.Is(err, step.err) {
					t.Errorf("%v does not have the service's error", err)
				}
				if errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v is of the deadline, which has not passed", err)
				}
				if last := seen.records[len(seen.records)-1]; last.Stop != awsretry.StopDeadline || last.Delay != 0 {
					t.Errorf("the last record is %+v, want StopDeadline", last)
				}
			})
		})
	}
}
