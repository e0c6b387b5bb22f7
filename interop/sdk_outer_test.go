package interop

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"example.com/awsretry"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"
)

// failFirst lets the first n requests of each operation fail.
func failFirst(service *faultyService, n int, f fault) func(*http.Request) fault {
	return func(r *http.Request) fault {
		service.mu.Lock()
		defer service.mu.Unlock()
		if service.count[r.Header.Get(callHeader)] < n {
			return f
		}
		return faultNone
	}
}

// TestSDKRetryerOn leaves the SDK's own retryer on: the server must see what it sees of the SDK alone, not the product of the two.
func TestSDKRetryerOn(t *testing.T) {
	clients := []struct {
		name   string
		answer func(http.ResponseWriter, fault)
		body   string // of a success
		do     func(t *testing.T, addr string, rt http.RoundTripper, retryer aws.Retryer) error
	}{
		{"DynamoDB", answerJSON, "{}", func(t *testing.T, addr string, rt http.RoundTripper, retryer aws.Retryer) error {
			return ddbPut(t.Context(), newDynamoDB(addr, rt, retryer), 1)
		}},
		{"S3", answerXML, "<ListAllMyBucketsResult/>", func(t *testing.T, addr string, rt http.RoundTripper, retryer aws.Retryer) error {
			_, err := newS3(addr, rt, retryer).ListBuckets(t.Context(), &s3.ListBucketsInput{})
			return err
		}},
		{"SQS", answerQueryJSON, "{}", func(t *testing.T, addr string, rt http.RoundTripper, retryer aws.Retryer) error {
			client := sqs.New(sqs.Options{Region: "us-east-1", Credentials: sdkCredentials, Retryer: retryer,
				BaseEndpoint: aws.String("http://" + addr), HTTPClient: &http.Client{Transport: rt}})
			_, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: aws.String("http://" + addr + "/1/queue")})
			return err
		}},
	}
	type result struct {
		Sent int
		OK   bool
	}
	const sdkAttempts = 3
	for _, client := range clients {
		for _, f := range []fault{faultServerError, faultUnavailable, faultBare, faultThrottling, faultReset} {
			for failures := range sdkAttempts + 2 {
				t.Run(fmt.Sprintf("%s/%v %d times", client.name, f, failures), func(t *testing.T) {
					run := func(wrap func(http.RoundTripper) http.RoundTripper) result {
						service := &faultyService{answer: client.answer, next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
							io.WriteString(w, client.body)
						})}
						service.pick = failFirst(service, failures, f)
						addr := startFaulty(t, service, "")
						base := newBase(t)
						base.DisableKeepAlives = true // else net/http itself sends some requests again
						err := client.do(t, addr, wrap(base), retry.NewStandard(func(o *retry.StandardOptions) {
							o.MaxAttempts = sdkAttempts
							o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return time.Millisecond, nil })
						}))
						_, sent, _, _ := service.figures()
						return result{sent, err == nil}
					}
					plain := func(rt http.RoundTripper) http.RoundTripper { return rt }
					stops := newAttemptLog()
					ours := func(nested bool) func(http.RoundTripper) http.RoundTripper {
						return func(rt http.RoundTripper) http.RoundTripper {
							transport := newRetrying(rt, nil)
							transport.MaxAttempts, transport.NestedRetries = 2, nested
							if !nested {
								transport.Observe = stops.observe
							}
							return transport
						}
					}
					alone := run(plain)
					if diff := cmp.Diff(alone, run(ours(false))); diff != "" {
						t.Errorf("with the Transport below (-SDK alone, +both):\n%s", diff)
					}
					if want := min(failures, sdkAttempts); stops.stops[awsretry.StopOuterRetry] != want {
						t.Errorf("%d failures were left to the SDK, want %d", stops.stops[awsretry.StopOuterRetry], want)
					}
					// Told to retry inside the SDK's retries it does, and two attempts in each of three are enough for all of these.
					if diff := cmp.Diff(result{failures + 1, true}, run(ours(true))); diff != "" {
						t.Errorf("with NestedRetries (-want +got):\n%s", diff)
					}
				})
			}
		}
	}
}
