package interop

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"example.com/awsretry"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

const sdkAttempts = 3

// sdkRetryer returns the SDK's own retryer, with short delays.
func sdkRetryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = sdkAttempts
		o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return time.Millisecond, nil })
	})
}

// An sdkCall is one operation of an SDK client.
type sdkCall struct {
	name string
	fail func(http.ResponseWriter, fault)
	body string // of a success
	do   func(t *testing.T, addr string, rt http.RoundTripper) error
}

var sdkCalls = []sdkCall{
	{"DynamoDB", failDynamoDB, "{}", func(t *testing.T, addr string, rt http.RoundTripper) error {
		return ddbPut(t.Context(), newDynamoDB(addr, rt, sdkRetryer()), 1)
	}},
	{"S3", failS3, "<ListAllMyBucketsResult/>", func(t *testing.T, addr string, rt http.RoundTripper) error {
		_, err := newS3(addr, rt, sdkRetryer()).ListBuckets(t.Context(), &s3.ListBucketsInput{})
		return err
	}},
	{"SQS", failSQS, "{}", func(t *testing.T, addr string, rt http.RoundTripper) error {
		client := sqs.New(sqs.Options{
			Region: "us-east-1", Credentials: sdkCredentials, Retryer: sdkRetryer(),
			BaseEndpoint: aws.String("http://" + addr), HTTPClient: &http.Client{Transport: rt},
		})
		queue := aws.String("http://" + addr + "/1/queue")
		_, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: queue})
		return err
	}},
}

// A sendCount is how many requests the service saw, and whether the operation
// succeeded.
type sendCount struct {
	sent int
	ok   bool
}

// run makes the call. The service fails so many times.
func (c sdkCall) run(t *testing.T, f fault, failures int, wrap func(http.RoundTripper) http.RoundTripper) sendCount {
	service := &faultyService{fail: c.fail, next: respond(200, c.body)}
	service.pick = failFirst(service, failures, f)
	base, addr := startFaulty(t, service, "")
	base.DisableKeepAlives = true // net/http itself repeats a request if an idle connection breaks
	err := c.do(t, addr, wrap(base))
	_, sent, _, _ := service.figures()
	return sendCount{sent, err == nil}
}

// The SDK's own retryer is on. The service sees what it sees of the SDK alone,
// not the product of the attempts of both.
func TestSDKRetryerOn(t *testing.T) {
	alone := func(rt http.RoundTripper) http.RoundTripper { return rt }
	nested := func(rt http.RoundTripper) http.RoundTripper {
		tr := forFaultyService(rt, nil)
		tr.MaxAttempts, tr.NestedRetries = 2, true
		return tr
	}
	for _, call := range sdkCalls {
		for _, f := range []fault{faultServerError, faultUnavailable, faultBare, faultThrottling, faultReset} {
			for failures := range sdkAttempts + 2 {
				t.Run(fmt.Sprintf("%s/%v %d times", call.name, f, failures), func(t *testing.T) {
					want := call.run(t, f, failures, alone)
					for _, mode := range []awsretry.Mode{awsretry.Standard, awsretry.Adaptive} {
						log := newAttemptLog()
						both := func(rt http.RoundTripper) http.RoundTripper {
							tr := forFaultyService(rt, log.observe)
							tr.Mode, tr.MaxAttempts, tr.RateLimit.MinFillRate = mode, 2, 1000
							return tr
						}
						if got := call.run(t, f, failures, both); got != want {
							t.Errorf("with the %s Transport below %+v, the SDK alone %+v", mode, got, want)
						}
						left := awsretry.StopOuterRetry
						if call.name == "DynamoDB" && f == faultThrottling && mode == awsretry.Standard {
							left = awsretry.StopPermanent // a 400 whose code is in the body, which only the limiter needs
						}
						if want := min(failures, sdkAttempts); log.stops[left] != want {
							t.Errorf("%s: %d failures were left to the SDK, want %d", mode, log.stops[left], want)
						}
					}
					// Two attempts in each of the SDK's three are enough.
					want = sendCount{failures + 1, true}
					if got := call.run(t, f, failures, nested); got != want {
						t.Errorf("with NestedRetries %+v, want %+v", got, want)
					}
				})
			}
		}
	}
}
