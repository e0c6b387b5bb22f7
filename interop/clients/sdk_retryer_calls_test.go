package clients

import (
	"context"
	"net/http"
	"testing"
	"time"

	"example.com/awsretry/awssdk"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

const ddbPartition = "DynamoDB us-east-1"

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

// The SDK corrects its clock by the service's, which is an hour ahead, and signs
// the request again.
func TestRetryerClockSkew(t *testing.T) {
	skewed := sdkStep{status: 403, code: "RequestTimeTooSkewed"}
	for _, tt := range []struct {
		name  string
		dates bool // the responses have the service's time
		steps []sdkStep
		sent  int
	}{
		{"corrected", true, []sdkStep{skewed, {}}, 2},
		{"not corrected by that", true, []sdkStep{skewed, skewed, skewed}, 2},
		{"the clock is right", false, []sdkStep{skewed}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, u retryerUse) {
				for i := range tt.steps {
					if tt.dates {
						date := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
						tt.steps[i].header = map[string]string{"Date": date}
					}
				}
				cfg := u.config(newRetryer(t, awssdk.Config{}), "ddb.example", nil)
				theirs := cfg.Copy()
				theirs.Retryer, theirs.APIOptions = sdkRetryer, nil
				for _, cfg := range []aws.Config{cfg, theirs} {
					stub := &sdkStub{steps: tt.steps}
					cfg.HTTPClient = &http.Client{Transport: stub}
					_, err := dynamodb.NewFromConfig(cfg).ListTables(t.Context(), nil)
					if (err == nil) != (tt.name == "corrected") || len(stub.sent) != tt.sent {
						t.Errorf("%d requests, want %d: %v", len(stub.sent), tt.sent, err)
					}
					for i, date := range stub.headers("X-Amz-Date") {
						signed, err := time.Parse(sigFormat, date)
						ahead := signed.Sub(stub.sent[i].at).Round(time.Minute)
						if err != nil || ahead != time.Duration(i)*time.Hour {
							t.Errorf("request %d was signed for %v ahead (%v)", i+1, ahead, err)
						}
					}
				}
			})
		})
	}
}
