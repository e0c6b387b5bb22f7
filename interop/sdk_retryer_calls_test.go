package interop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
		want              int // attempts
	}{
		{name: "5 on the client", client: 5, want: 5},
		{name: "1 on the operation of a client with 5", client: 5, operation: 1, want: 1},
		{name: "3 on the client in 2026", revision: awsretry.Revision2026, client: 3, want: 3},
		{name: "4 on the operation in 2026", revision: awsretry.Revision2026, operation: 4, want: 4},
		{name: "none in 2026", revision: awsretry.Revision2026, want: 3},
		{name: "6 in the context", context: 6, want: 6},
		{name: "5 in the context, 2 on the client", client: 2, context: 5, want: 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, u retryerUse) {
				ctx, want := t.Context(), tt.want
				if tt.context > 0 {
					ctx = awsretry.WithMaxAttempts(ctx, tt.context)
					if !u.apply {
						want = cmp.Or(tt.client, 3)
					}
				}
				ddbWant := want
				if tt.name == "none in 2026" && u.apply { // the interface does not say that a call is of DynamoDB
					ddbWant = 4
				}
				stub := &sdkStub{steps: slices.Repeat([]sdkStep{failed}, 20)}
				cfg := u.config(newRetryer(t, awssdk.Config{Revision: tt.revision}), "service.example", stub)
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
				var headers []string
				for _, attempts := range []int{want, ddbWant, want} {
					for i := range attempts {
						headers = append(headers, fmt.Sprintf("attempt=%d; max=%d", i+1, attempts))
					}
				}
				if diff := gocmp.Diff(headers, stub.headers("Amz-Sdk-Request")); diff != "" {
					t.Errorf("headers (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A delay that the SDK's package retry limits is for the one call only.
func TestRetryerWrapped(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, u retryerUse) {
		stub := &sdkStub{steps: []sdkStep{failed, failed, {}, failed}}
		r := newRetryer(t, awssdk.Config{})
		client := dynamodb.NewFromConfig(u.config(r, "ddb.example", stub))
		_, err := client.ListTables(t.Context(), nil, func(o *dynamodb.Options) {
			o.Retryer = retry.AddWithMaxBackoffDelay(o.Retryer, 0)
		})
		_, next := client.ListTables(t.Context(), nil)
		if got, want := stub.delays(), []time.Duration{0, 0, 0, time.Second}; !slices.Equal(got, want) {
			t.Errorf("the delays are %v, want %v: %v, %v", got, want, err, next)
		}
		wantTokens(t, r, ddbPartition, 495)
	})
}

const sqsPartition = "SQS us-east-1"

var sqsQueue = aws.String("http://sqs.example/1/queue")

// sqsSend sends the message "hello".
func sqsSend(ctx context.Context, cfg aws.Config) error {
	input := &sqs.SendMessageInput{QueueUrl: sqsQueue, MessageBody: aws.String("hello")}
	_, err := sqs.NewFromConfig(cfg).SendMessage(ctx, input)
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
	}{
		{"X-Amzn-Query-Error", "RequestThrottled;Sender", awsretry.Revision2026, awsretry.Throttled, "RequestThrottled",
			time.Second},
		{"X-Amz-Retry-After", "1500", awsretry.Revision2026, awsretry.Transient, failed.code, 1500 * time.Millisecond},
		{"Retry-After", "2", awsretry.Classic, awsretry.Transient, failed.code, 2 * time.Second},
	} {
		t.Run(tt.header, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, u retryerUse) {
				step := failed
				step.header = map[string]string{tt.header: tt.value}
				stub := &sdkStub{steps: []sdkStep{step, sqsSent}}
				var seen recorder
				r := newRetryer(t, awssdk.Config{Revision: tt.revision, Observe: seen.observe})
				err := sqsSend(t.Context(), u.config(r, "sqs.example", stub))
				if got := stub.delays(); err != nil || !slices.Equal(got, []time.Duration{tt.delay}) {
					t.Errorf("delays %v, want %v: %v", got, tt.delay, err)
				}
				seen.check(t, u, recordsOf(sqsPartition, retried(tt.class, tt.code, tt.delay), succeeded))
				wantTokens(t, r, sqsPartition, 500)
			})
		})
	}
}

// The SDK corrects its clock by the service's, which is an hour ahead, and signs
// the request again.
func TestRetryerClockSkew(t *testing.T) {
	const code = "RequestTimeTooSkewed"
	once := retried(awsretry.Transient, code, time.Second)
	givenUp := stopped(awsretry.Permanent, code, awsretry.StopPermanent)
	for _, tt := range []struct {
		name    string
		dates   bool // the responses have the service's time
		steps   []sdkStep
		records []record
	}{
		{"corrected", true, []sdkStep{{status: 403, code: code}, {}}, recordsOf(ddbPartition, once, succeeded)},
		{"not corrected by that", true, slices.Repeat([]sdkStep{{status: 403, code: code}}, 3),
			recordsOf(ddbPartition, once, givenUp)},
		{"the clock is right", false, []sdkStep{{status: 403, code: code}}, recordsOf(ddbPartition, givenUp)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, u retryerUse) {
				for i := range tt.steps {
					if tt.dates {
						date := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
						tt.steps[i].header = map[string]string{"Date": date}
					}
				}
				var seen recorder
				cfg := u.config(newRetryer(t, awssdk.Config{Observe: seen.observe}), "ddb.example", nil)
				theirs := cfg.Copy()
				theirs.Retryer, theirs.APIOptions = sdkRetryer, nil
				for _, cfg := range []aws.Config{cfg, theirs} {
					stub := &sdkStub{steps: tt.steps}
					cfg.HTTPClient = &http.Client{Transport: stub}
					_, err := dynamodb.NewFromConfig(cfg).ListTables(t.Context(), nil)
					if (err == nil) != (tt.name == "corrected") || len(stub.sent) != len(tt.records) {
						t.Errorf("%d requests, want %d: %v", len(stub.sent), len(tt.records), err)
					}
					for i, date := range stub.headers("X-Amz-Date") {
						signed, err := time.Parse(sigFormat, date)
						ahead := signed.Sub(stub.sent[i].at).Round(time.Minute)
						if err != nil || ahead != time.Duration(i)*time.Hour {
							t.Errorf("request %d was signed for %v ahead (%v)", i+1, ahead, err)
						}
					}
				}
				seen.check(t, u, tt.records)
			})
		})
	}
}

// A call that the bucket has no tokens for, whose turn would come after its
// deadline, or that is canceled, sends nothing.
func TestRetryerRefuses(t *testing.T) {
	slow := awsretry.RateLimitConfig{MinFillRate: 0.01} // a send token each 100 s
	for stop, config := range map[awsretry.Stop]awssdk.Config{
		awsretry.StopQuota:     {Quota: awsretry.QuotaConfig{Capacity: 5, InitialCost: 5}},
		awsretry.StopRateLimit: {Mode: awsretry.Adaptive, RateLimit: slow},
		awsretry.StopCanceled:  {},
	} {
		t.Run(string(stop), func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, u retryerUse) {
				stub := &sdkStub{steps: []sdkStep{{status: 400, code: "ThrottlingException"}}}
				client := dynamodb.NewFromConfig(u.config(newRetryer(t, config), "ddb.example", stub))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				client.ListTables(awsretry.WithoutRetry(ctx), nil)
				if stop == awsretry.StopCanceled {
					cancel()
				}
				_, err := client.ListTables(ctx, nil)
				if err == nil || len(stub.sent) != 1 || u.apply && stopOf(err) != stop {
					t.Errorf("%d requests, ended as %q, want %q: %v", len(stub.sent), stopOf(err), stop, err)
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
