package interop

import (
	"slices"
	"testing"

	"example.com/awsretry/awssdk"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	gocmp "github.com/google/go-cmp/cmp"
)

// A service module that is older than the SDK's core sets the header of each
// attempt itself. It has the attempts of the call too.
func TestRetryerHeaderOfOlderModule(t *testing.T) {
	for _, tt := range []struct {
		name        string
		ofOperation int // RetryMaxAttempts
		want        []string
	}{
		{"the Retryer's", 0, []string{"attempt=1; max=3", "attempt=2; max=3", "attempt=3; max=3"}},
		{"the operation's", 2, []string{"attempt=1; max=2", "attempt=2; max=2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, u retryerUse) {
				stub := &sdkStub{steps: slices.Repeat([]sdkStep{failed}, 9)}
				client := sfn.NewFromConfig(u.config(newRetryer(t, awssdk.Config{}), "sfn.example", stub))
				input := &sfn.DescribeStateMachineInput{StateMachineArn: aws.String("arn:aws:states:us-east-1:1:stateMachine:m")}
				client.DescribeStateMachine(t.Context(), input, func(o *sfn.Options) {
					o.RetryMaxAttempts = tt.ofOperation
				})
				if diff := gocmp.Diff(tt.want, stub.headers("Amz-Sdk-Request")); diff != "" {
					t.Errorf("headers (-want +got):\n%s", diff)
				}
			})
		})
	}
}
