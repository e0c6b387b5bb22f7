package interop

import (
	"context"
	"slices"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/awssdk"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"
)

const sqsPartition = "SQS us-east-1"

var sqsQueue = aws.String("http://sqs.example/1/queue")

// sqsSend sends the message "hello".
func sqsSend(t *testing.T, client *sqs.Client) error {
	input := &sqs.SendMessageInput{QueueUrl: sqsQueue, MessageBody: aws.String("hello")}
	_, err := client.SendMessage(t.Context(), input)
	return err
}

// sqsReceive receives messages, of which there are none.
func sqsReceive(t *testing.T, client *sqs.Client) error {
	_, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: sqsQueue})
	return err
}

// sqsSent is the response to sqsSend.
var sqsSent = sdkStep{body: `{"MessageId":"1","MD5OfMessageBody":"5d41402abc4b2a76b9719d911017c592"}`}

// The delay before the retry is what the response asks for, if the revision
// knows its header.
func TestRetryerSQSDelay(t *testing.T) {
	short := awsretry.Exponential{
		Initial: 50 * time.Millisecond, ThrottlingInitial: time.Second, Jitter: awsretry.NoJitter,
	}
	for _, tt := range []struct {
		name     string
		revision awsretry.Revision
		step     sdkStep
		class    awsretry.Class
		code     string
		delay    time.Duration
		cost     int
	}{
		{"a 500", awsretry.Classic, failed, awsretry.Transient, "InternalServerError", 50 * time.Millisecond, 5},
		{
			"a throttling code in X-Amzn-Query-Error", awsretry.Classic,
			sdkStep{
				status: 403, code: "SomethingElse",
				header: map[string]string{"X-Amzn-Query-Error": "RequestThrottled;Sender"},
			},
			awsretry.Throttled, "RequestThrottled", time.Second, 10,
		},
		{
			"X-Amz-Retry-After in 2026", awsretry.Revision2026,
			sdkStep{status: 500, header: map[string]string{"X-Amz-Retry-After": "1500"}},
			awsretry.Transient, "UnknownError", 1500 * time.Millisecond, 14,
		},
		{
			"X-Amz-Retry-After of a minute in 2026", awsretry.Revision2026,
			sdkStep{status: 500, header: map[string]string{"X-Amz-Retry-After": "60000"}},
			awsretry.Transient, "UnknownError", 5050 * time.Millisecond, 14,
		},
		{
			"X-Amz-Retry-After in Classic", awsretry.Classic,
			sdkStep{status: 500, header: map[string]string{"X-Amz-Retry-After": "1500"}},
			awsretry.Transient, "UnknownError", 50 * time.Millisecond, 5,
		},
		{
			"Retry-After in Classic", awsretry.Classic,
			sdkStep{status: 503, header: map[string]string{"Retry-After": "1"}},
			awsretry.Transient, "UnknownError", time.Second, 5,
		},
		{
			"Retry-After in 2026", awsretry.Revision2026,
			sdkStep{status: 503, header: map[string]string{"Retry-After": "1"}},
			awsretry.Transient, "UnknownError", time.Second, 14,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, u retryerUse) {
				stub := &sdkStub{steps: []sdkStep{tt.step, sqsSent, tt.step, tt.step}}
				var seen recorder
				r := newRetryer(t, awssdk.Config{
					Revision: tt.revision, MaxAttempts: 2, Backoff: short, Observe: seen.observe,
				})
				client := sqs.NewFromConfig(u.config(r, "sqs.example", stub))
				if err := sqsSend(t, client); err != nil {
					t.Fatal(err)
				}
				if got := stub.delays(); !slices.Equal(got, []time.Duration{tt.delay}) {
					t.Errorf("delays %v, want %v", got, tt.delay)
				}
				want := recordsOf(sqsPartition,
					record{Class: tt.class, Code: tt.code, Delay: tt.delay},
					record{Class: awsretry.Success, Stop: awsretry.StopSuccess})
				if !u.apply {
					want = nil
				}
				if diff := cmp.Diff(want, seen.records); diff != "" {
					t.Errorf("records (-want +got):\n%s", diff)
				}
				wantTokens(t, r, sqsPartition, 500)
				if err := sqsSend(t, client); stopOf(err) != awsretry.StopMaxAttempts {
					t.Errorf("after two failures: %v", err)
				}
				wantTokens(t, r, sqsPartition, 500-tt.cost)
			})
		})
	}
}

// A call that the caller repeats in a loop of its own sleeps before it returns
// if there are no tokens, once.
func TestRetryerLongPoll(t *testing.T) {
	asked := sdkStep{status: 500, header: map[string]string{"X-Amz-Retry-After": "1500"}}
	for _, tt := range []struct {
		name   string
		call   func(*testing.T, *sqs.Client) error
		marked bool // by Config.LongPoll
		step   sdkStep
		takes  time.Duration
	}{
		{"ReceiveMessage", sqsReceive, false, failed, 50 * time.Millisecond},
		{"ReceiveMessage with LongPoll", sqsReceive, true, failed, 50 * time.Millisecond},
		{"ReceiveMessage, throttled", sqsReceive, false, busy, time.Second},
		{"ReceiveMessage, X-Amz-Retry-After", sqsReceive, false, asked, 1500 * time.Millisecond},
		{"ReceiveMessage, a permanent error", sqsReceive, false, wrong, 0},
		{"SendMessage", sqsSend, false, failed, 0},
		{"SendMessage with LongPoll", sqsSend, true, failed, 50 * time.Millisecond},
		{"SendMessage, X-Amz-Retry-After", sqsSend, false, asked, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, u retryerUse) {
				stub := &sdkStub{steps: []sdkStep{tt.step}}
				var seen recorder
				config := awssdk.Config{
					Revision: awsretry.Revision2026, Quota: awsretry.QuotaConfig{Capacity: 4}, Observe: seen.observe,
				}
				if tt.marked {
					config.LongPoll = func(context.Context) bool { return true }
				}
				r := newRetryer(t, config)
				start := time.Now()
				err := tt.call(t, sqs.NewFromConfig(u.config(r, "sqs.example", stub)))
				if took := time.Since(start); took != tt.takes || len(stub.sent) != 1 {
					t.Errorf("%d requests in %v, want 1 in %v", len(stub.sent), took, tt.takes)
				}
				stop := awsretry.StopQuota
				if tt.step.code == wrong.code {
					stop = awsretry.StopPermanent
				}
				if stopOf(err) != stop {
					t.Errorf("ended as %q, want %q: %v", stopOf(err), stop, err)
				}
				if u.apply && (len(seen.records) != 1 || seen.records[0].Delay != tt.takes || seen.records[0].Stop != stop) {
					t.Errorf("records %+v, want one with the delay %v", seen.records, tt.takes)
				}
				wantTokens(t, r, sqsPartition, 4)
			})
		})
	}
}
