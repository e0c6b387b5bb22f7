package interop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/awssdk"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	gocmp "github.com/google/go-cmp/cmp"
)

// The number of attempts is that of the context, of the operation, of the
// client or of the Retryer, in this order. The header of each attempt says it.
func TestRetryerMaxAttempts(t *testing.T) {
	for _, tt := range []struct {
		name              string
		revision          awsretry.Revision
		client, operation int // RetryMaxAttempts
		context           int // WithMaxAttempts, for an applied Retryer
		s3, dynamodb, sfn int // attempts
	}{
		{name: "5 on the client", client: 5, s3: 5, dynamodb: 5, sfn: 5},
		{name: "1 on the operation of a client with 5", client: 5, operation: 1, s3: 1, dynamodb: 1, sfn: 1},
		{name: "3 on the client in 2026", revision: awsretry.Revision2026, client: 3, s3: 3, dynamodb: 3, sfn: 3},
		{name: "4 on the operation in 2026", revision: awsretry.Revision2026, operation: 4, s3: 4, dynamodb: 4, sfn: 4},
		{name: "none in 2026", revision: awsretry.Revision2026, s3: 3, dynamodb: 4, sfn: 3},
		{name: "6 in the context", context: 6, s3: 6, dynamodb: 6, sfn: 6},
		{name: "5 in the context, 2 on the client", client: 2, context: 5, s3: 2, dynamodb: 2, sfn: 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, u retryerUse) {
				if !u.apply {
					if tt.context > 0 {
						tt.s3, tt.dynamodb, tt.sfn = cmp.Or(tt.client, 3), cmp.Or(tt.client, 3), cmp.Or(tt.client, 3)
					}
					if tt.client+tt.operation == 0 {
						tt.dynamodb = 3 // the interface does not say that a call is of DynamoDB
					}
				}
				ctx := t.Context()
				if tt.context > 0 {
					ctx = awsretry.WithMaxAttempts(ctx, tt.context)
				}
				stub := &sdkStub{steps: slices.Repeat([]sdkStep{failed}, 20)}
				var seen recorder
				r := newRetryer(t, awssdk.Config{Revision: tt.revision, Observe: seen.observe})
				cfg := u.config(r, "service.example", stub)
				cfg.RetryMaxAttempts = tt.client
				or := func(attempts *int) { *attempts = cmp.Or(tt.operation, *attempts) }
				_, s3Err := s3.NewFromConfig(cfg).ListBuckets(ctx, nil, func(o *s3.Options) { or(&o.RetryMaxAttempts) })
				_, ddbErr := dynamodb.NewFromConfig(cfg).ListTables(ctx, nil,
					func(o *dynamodb.Options) { or(&o.RetryMaxAttempts) })
				// A module that is older than the SDK's core sets the header itself.
				_, sfnErr := sfn.NewFromConfig(cfg).ListStateMachines(ctx, nil,
					func(o *sfn.Options) { or(&o.RetryMaxAttempts) })
				for _, err := range []error{s3Err, ddbErr, sfnErr} {
					if stopOf(err) != awsretry.StopMaxAttempts {
						t.Errorf("ended as %q: %v", stopOf(err), err)
					}
				}
				var want []string
				stops := []int{tt.s3, tt.dynamodb, tt.sfn}
				for _, attempts := range stops {
					for i := range attempts {
						want = append(want, fmt.Sprintf("attempt=%d; max=%d", i+1, attempts))
					}
				}
				if diff := gocmp.Diff(want, stub.headers("Amz-Sdk-Request")); diff != "" {
					t.Errorf("headers (-want +got):\n%s", diff)
				}
				var stopped []int
				for _, a := range seen.records {
					if a.Stop == awsretry.StopMaxAttempts {
						stopped = append(stopped, a.Number)
					}
				}
				if u.apply && !slices.Equal(stopped, stops) {
					t.Errorf("attempts %v were observed as the last ones, want %v", stopped, stops)
				}
			})
		})
	}
}

// What the SDK's package retry wraps around a Retryer works, and does not
// affect the next call.
func TestRetryerWrapped(t *testing.T) {
	custom := sdkStep{status: 400, code: "Custom"}
	for _, tt := range []struct {
		name   string
		wrap   func(aws.Retryer) aws.Retryer
		steps  []sdkStep
		stop   awsretry.Stop
		delays []time.Duration
		tokens int
	}{
		{"AddWithErrorCodes", func(r aws.Retryer) aws.Retryer { return retry.AddWithErrorCodes(r, "Custom") },
			[]sdkStep{custom, failed, custom}, awsretry.StopMaxAttempts, []time.Duration{time.Second, 2 * time.Second}, 490},
		{"AddWithMaxAttempts", func(r aws.Retryer) aws.Retryer { return retry.AddWithMaxAttempts(r, 2) },
			[]sdkStep{failed, failed}, awsretry.StopMaxAttempts, []time.Duration{time.Second}, 495},
		{"AddWithMaxBackoffDelay", func(r aws.Retryer) aws.Retryer { return retry.AddWithMaxBackoffDelay(r, 0) },
			[]sdkStep{failed, failed}, awsretry.StopSuccess, []time.Duration{0, 0}, 495},
		{"NopRetryer in its place", func(aws.Retryer) aws.Retryer { return aws.NopRetryer{} },
			[]sdkStep{failed}, awsretry.StopPermanent, nil, 500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, u retryerUse) {
				stub := &sdkStub{steps: tt.steps}
				r := newRetryer(t, awssdk.Config{})
				client := dynamodb.NewFromConfig(u.config(r, "ddb.example", stub))
				_, err := client.ListTables(t.Context(), nil, func(o *dynamodb.Options) { o.Retryer = tt.wrap(o.Retryer) })
				if stopOf(err) != tt.stop || !slices.Equal(stub.delays(), tt.delays) {
					t.Errorf("ended as %q with the delays %v, want %q with %v: %v", stopOf(err), stub.delays(),
						tt.stop, tt.delays, err)
				}
				if state, ok := r.State(ddbPartition); ok && state.Tokens != tt.tokens {
					t.Errorf("%d tokens, want %d", state.Tokens, tt.tokens)
				}
				stub.steps = nil
				if _, err := client.ListTables(t.Context(), nil); err != nil {
					t.Errorf("the next call: %v", err)
				}
			})
		})
	}
}

const sqsPartition = "SQS us-east-1"

var sqsQueue = aws.String("http://sqs.example/1/queue")

// sqsSend sends the message "hello".
func sqsSend(t *testing.T, client *sqs.Client) error {
	input := &sqs.SendMessageInput{QueueUrl: sqsQueue, MessageBody: aws.String("hello")}
	_, err := client.SendMessage(t.Context(), input)
	return err
}

// sqsSent is the response to sqsSend.
var sqsSent = sdkStep{body: `{"MessageId":"1","MD5OfMessageBody":"5d41402abc4b2a76b9719d911017c592"}`}

// The headers of a response of Amazon SQS count: the throttling code of its older
// protocol, and for how long to wait.
func TestRetryerSQSHeaders(t *testing.T) {
	for _, tt := range []struct {
		header, value string
		revision      awsretry.Revision
		class         awsretry.Class
		code          string
		delay         time.Duration
		cost          int
	}{
		{"X-Amzn-Query-Error", "RequestThrottled;Sender", awsretry.Revision2026, awsretry.Throttled, "RequestThrottled",
			time.Second, 5},
		{"X-Amz-Retry-After", "1500", awsretry.Revision2026, awsretry.Transient, failed.code, 1500 * time.Millisecond, 14},
		{"Retry-After", "2", awsretry.Classic, awsretry.Transient, failed.code, 2 * time.Second, 5},
	} {
		t.Run(tt.header, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, u retryerUse) {
				step := failed
				step.header = map[string]string{tt.header: tt.value}
				stub := &sdkStub{steps: []sdkStep{step, sqsSent, step, step}}
				var seen recorder
				r := newRetryer(t, awssdk.Config{Revision: tt.revision, MaxAttempts: 2, Observe: seen.observe})
				client := sqs.NewFromConfig(u.config(r, "sqs.example", stub))
				if err := sqsSend(t, client); err != nil {
					t.Fatal(err)
				}
				if got := stub.delays(); !slices.Equal(got, []time.Duration{tt.delay}) {
					t.Errorf("delays %v, want %v", got, tt.delay)
				}
				seen.check(t, u, recordsOf(sqsPartition, retried(tt.class, tt.code, tt.delay), succeeded))
				if err := sqsSend(t, client); stopOf(err) != awsretry.StopMaxAttempts {
					t.Errorf("after two failures: %v", err)
				}
				wantTokens(t, r, sqsPartition, 500-tt.cost)
			})
		})
	}
}

// skewed returns a response of a service whose clock is an hour ahead.
func skewed(step sdkStep) sdkStep {
	step.header = map[string]string{"Date": time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}
	return step
}

// The SDK corrects its clock by the service's, and signs the request again.
func TestRetryerClockSkew(t *testing.T) {
	const code = "RequestTimeTooSkewed"
	for _, tt := range []struct {
		name    string
		steps   func() []sdkStep
		records []record
	}{
		{
			"corrected",
			func() []sdkStep { return []sdkStep{skewed(sdkStep{status: 403, code: code}), skewed(sdkStep{})} },
			recordsOf(ddbPartition, retried(awsretry.Transient, code, time.Second), succeeded),
		},
		{
			"not corrected by that",
			func() []sdkStep {
				late := skewed(sdkStep{status: 403, code: code})
				return []sdkStep{late, late, late}
			},
			recordsOf(ddbPartition, retried(awsretry.Transient, code, time.Second),
				stopped(awsretry.Permanent, code, awsretry.StopPermanent)),
		},
		{
			"the clock is right",
			func() []sdkStep { return []sdkStep{{status: 403, code: code}} },
			recordsOf(ddbPartition, stopped(awsretry.Permanent, code, awsretry.StopPermanent)),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, u retryerUse) {
				call := func(cfg aws.Config, stub *sdkStub) bool {
					_, err := dynamodb.NewFromConfig(cfg).ListTables(t.Context(), nil)
					dates := stub.headers("X-Amz-Date")
					for i, date := range dates {
						signed, parseErr := time.Parse("20060102T150405Z", date)
						ahead := signed.Sub(stub.sent[i].at).Round(time.Minute)
						if parseErr != nil || ahead != time.Duration(i)*time.Hour {
							t.Errorf("request %d was signed for %v ahead (%v)", i+1, ahead, parseErr)
						}
					}
					return err == nil
				}
				stub, own := &sdkStub{steps: tt.steps()}, &sdkStub{steps: tt.steps()}
				var seen recorder
				r := newRetryer(t, awssdk.Config{Observe: seen.observe})
				ok := call(u.config(r, "ddb.example", stub), stub)
				cfg := u.config(r, "ddb.example", own)
				cfg.Retryer, cfg.APIOptions = sdkRetryer, nil
				if wantOK := call(cfg, own); ok != wantOK || len(stub.sent) != len(own.sent) {
					t.Errorf("%d requests, success %v; with the SDK's retryer %d, %v",
						len(stub.sent), ok, len(own.sent), wantOK)
				}
				seen.check(t, u, tt.records)
			})
		})
	}
}

// A call ends with the reason that its error says: where it has no time, no
// tokens or no caller. The interface of a plain Retryer says less, and its call
// fails too.
func TestRetryerEndings(t *testing.T) {
	const slowest = 0.01 // a send token each 100 s
	adaptive := awssdk.Config{Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{MinFillRate: slowest}}
	capacity := func(n, initial int) awssdk.Config {
		return awssdk.Config{Quota: awsretry.QuotaConfig{Capacity: n, InitialCost: initial}}
	}
	longPoll := capacity(4, 0)
	longPoll.Revision, longPoll.LongPoll = awsretry.Revision2026, func(context.Context) bool { return true }
	first, none := []sdkStep{failed, failed}, []sdkStep(nil)
	for _, tt := range []struct {
		name             string
		config           awssdk.Config
		before, steps    []sdkStep     // of another call, and of this one
		deadline, cancel time.Duration // 0: never; negative: before
		stop             awsretry.Stop
		took             time.Duration
		sent             int
	}{
		{"a delay beyond the deadline", awssdk.Config{}, none, first, 2500 * time.Millisecond, 0,
			awsretry.StopDeadline, time.Second, 2},
		{"canceled before the call", awssdk.Config{}, none, none, 0, -1, awsretry.StopCanceled, 0, 0},
		{"canceled in the delay", awssdk.Config{}, none, first, 0, time.Second / 2,
			awsretry.StopPermanent, time.Second / 2, 1},
		{"canceled in line", adaptive, []sdkStep{busy}, none, 0, time.Second, awsretry.StopCanceled, time.Second, 0},
		{"a line beyond the deadline", adaptive, []sdkStep{busy}, none, time.Second, 0, awsretry.StopRateLimit, 0, 0},
		{"an empty bucket", capacity(4, 0), none, first, 0, 0, awsretry.StopQuota, 0, 1},
		{"a long poll with an empty bucket", longPoll, none, first, 0, 0, awsretry.StopQuota, 25 * time.Millisecond, 1},
		{"an empty bucket before the call", capacity(5, 5), first[:1], none, 0, 0, awsretry.StopQuota, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, u retryerUse) {
				stub := &sdkStub{steps: slices.Concat(tt.before, tt.steps)}
				var seen recorder
				tt.config.Observe = seen.observe
				r := newRetryer(t, tt.config)
				client := dynamodb.NewFromConfig(u.config(r, "ddb.example", stub))
				ctx, cancel := context.WithCancel(awsretry.WithPartition(t.Context(), "tenant"))
				defer cancel()
				for range tt.before {
					client.ListTables(awsretry.WithoutRetry(ctx), nil)
				}
				before := len(stub.sent)
				if tt.deadline > 0 {
					ctx, cancel = context.WithTimeout(ctx, tt.deadline)
					defer cancel()
				}
				if tt.cancel < 0 {
					cancel()
				} else if tt.cancel > 0 {
					time.AfterFunc(tt.cancel, cancel)
				}
				start := time.Now()
				_, err := client.ListTables(ctx, nil)
				took := time.Since(start)
				if err == nil || tt.cancel != 0 && !errors.Is(err, context.Canceled) {
					t.Errorf("the error is %v", err)
				}
				if sent := len(stub.sent) - before; sent != tt.sent {
					t.Errorf("%d requests, want %d", sent, tt.sent)
				}
				if u.apply && (stopOf(err) != tt.stop || took != tt.took) {
					t.Errorf("ended as %q after %v, want %q after %v: %v", stopOf(err), took, tt.stop, tt.took, err)
				}
				partitions := maps.Collect(r.Partitions())
				if _, ok := partitions["tenant"]; u.apply && tt.cancel >= 0 && (!ok || len(partitions) != 1) {
					t.Errorf("the partitions are %v", partitions)
				}
			})
		})
	}
}

// A client that has the Retryer of Apply without the rest of it makes the
// attempts of most services.
func TestRetryerHalfApplied(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, u retryerUse) {
		stub := &sdkStub{steps: slices.Repeat([]sdkStep{failed}, 9)}
		cfg := u.config(newRetryer(t, awssdk.Config{Revision: awsretry.Revision2026}), "ddb.example", stub)
		cfg.APIOptions = nil
		_, err := dynamodb.NewFromConfig(cfg).ListTables(t.Context(), nil)
		var api smithy.APIError
		if stopOf(err) != awsretry.StopMaxAttempts || !errors.As(err, &api) || len(stub.sent) != 3 {
			t.Errorf("%d requests, want 3: %v", len(stub.sent), err)
		}
	})
}
