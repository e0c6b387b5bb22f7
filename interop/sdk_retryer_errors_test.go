package interop

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"testing"

	"example.com/awsretry/awssdk"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// typesOf returns which errors a program looks for are in the chain of err.
func typesOf(err error) map[string]bool {
	return map[string]bool{
		"smithy.OperationError":                  errors.As(err, new(*smithy.OperationError)),
		"smithy.APIError":                        errors.As(err, new(smithy.APIError)),
		"http.ResponseError of aws":              errors.As(err, new(*awshttp.ResponseError)),
		"http.ResponseError":                     errors.As(err, new(*smithyhttp.ResponseError)),
		"http.RequestSendError":                  errors.As(err, new(*smithyhttp.RequestSendError)),
		"smithy.DeserializationError":            errors.As(err, new(*smithy.DeserializationError)),
		"MaxAttemptsError":                       errors.As(err, new(*retry.MaxAttemptsError)),
		"ResourceInUseException":                 errors.As(err, new(*types.ResourceInUseException)),
		"ProvisionedThroughputExceededException": errors.As(err, new(*types.ProvisionedThroughputExceededException)),
		"net.Error":                              errors.As(err, new(net.Error)),
	}
}

// The errors of calls have the text and the types of those with the SDK's own
// retryer.
func TestRetryerErrors(t *testing.T) {
	for name, step := range map[string]sdkStep{
		"500":                    failed,
		"a modeled error":        {status: 400, code: "ResourceInUseException"},
		"a modeled throttling":   {status: 400, code: "ProvisionedThroughputExceededException"},
		"no code":                {status: 503},
		"reset":                  {err: errReset},
		"a body that breaks off": {body: `{"TableNames":["it`, cut: true},
	} {
		t.Run(name, func(t *testing.T) {
			call := func(t *testing.T, cfg aws.Config) error {
				cfg.HTTPClient = &http.Client{Transport: &sdkStub{steps: slices.Repeat([]sdkStep{step}, 9)}}
				cfg.BaseEndpoint = aws.String("http://ddb.example")
				_, err := dynamodb.NewFromConfig(cfg).ListTables(t.Context(), nil)
				if err == nil {
					t.Fatal("no error")
				}
				return err
			}
			want := call(t, aws.Config{Region: "us-east-1", Credentials: sdkCredentials, Retryer: sdkRetryer})
			inVirtualTime(t, func(t *testing.T, u retryerUse) {
				got := call(t, u.config(newRetryer(t, awssdk.Config{}), "", nil))
				if got.Error() != want.Error() {
					t.Errorf("%v\nwith the SDK's retryer %v", got, want)
				}
				wantTypes := typesOf(want)
				for name, there := range typesOf(got) {
					if there != wantTypes[name] {
						t.Errorf("a %s: %v, with the SDK's retryer %v", name, there, !there)
					}
				}
			})
		})
	}
}
