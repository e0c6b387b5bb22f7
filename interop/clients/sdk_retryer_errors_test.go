package clients

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"weak"

	"example.com/awsretry/awssdk"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Where the service has accepted a call with a 2xx, and its response breaks off,
// the call is sent once, as by the SDK's own retryer. If the connection is reset
// meanwhile, both retry.
func TestRetryerAccepted(t *testing.T) {
	for _, op := range []struct {
		name     string
		response string // of a success
		call     func(ctx context.Context, cfg aws.Config) error
	}{
		{"SQS", sqsSent.body, sqsSend},
		// A version that decodes its responses with encoding/json.
		{"Step Functions 1.41", `{"executionArn":"arn:1"}`, func(ctx context.Context, cfg aws.Config) error {
			_, err := sfn.NewFromConfig(cfg).StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: aws.String("arn")})
			return err
		}},
	} {
		for _, cut := range []struct {
			name   string
			half   bool  // of the JSON is sent
			length int64 // -1: chunked
			err    error // of reading the response
			sent   int
		}{
			{"fewer bytes than Content-Length", true, 1000, io.ErrUnexpectedEOF, 1},
			{"nothing of the body", false, 1000, io.ErrUnexpectedEOF, 1},
			{"half of the JSON", true, -1, io.EOF, 1},
			{"reset", false, -1, syscall.ECONNRESET, sdkAttempts},
		} {
			t.Run(op.name+"/"+cut.name, func(t *testing.T) {
				inVirtualTime(t, func(t *testing.T, u retryerUse) {
					sent := 0
					base := httpfake.Base(func(req *http.Request) (*http.Response, error) {
						sent++
						_, err := httpfake.Receive(req)
						text := ""
						if cut.half {
							text = op.response[:len(op.response)/2]
						}
						body := io.MultiReader(strings.NewReader(text), iotest.ErrReader(cut.err))
						resp := httpfake.Response(req, http.StatusOK, io.NopCloser(body))
						resp.ContentLength = cut.length
						resp.Header.Set("Content-Type", req.Header.Get("Content-Type"))
						return resp, err
					})
					own := u.config(newRetryer(t, awssdk.Config{}), "service.example", base)
					theirs := own.Copy()
					theirs.Retryer, theirs.APIOptions = sdkRetryer, nil
					for _, cfg := range []aws.Config{own, theirs} {
						sent = 0
						if err := op.call(t.Context(), cfg); err == nil || sent != cut.sent {
							t.Errorf("%d requests, want %d: %v", sent, cut.sent, err)
						}
					}
				})
			})
		}
	}
}

// An error that a program keeps does not keep the Retryer, its buckets and the
// other attempts of the call.
func TestRetryerIsNotKeptByErrors(t *testing.T) {
	for _, u := range retryerUses {
		t.Run(u.String(), func(t *testing.T) {
			r := newRetryer(t, awssdk.Config{})
			kept := weak.Make(r)
			stub := &sdkStub{steps: []sdkStep{{status: 400, code: "ValidationException"}}}
			_, err := s3.NewFromConfig(u.config(r, "s3.example", stub)).ListBuckets(t.Context(), nil)
			var api *smithyhttp.ResponseError
			if !errors.As(err, &api) {
				t.Fatal(err)
			}
			if !kit.Eventually(func() bool { runtime.GC(); return kept.Value() == nil }) {
				t.Error("the error keeps the Retryer")
			}
			runtime.KeepAlive(err)
		})
	}
}
