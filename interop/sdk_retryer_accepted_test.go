package interop

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"example.com/awsretry"
	"example.com/awsretry/awssdk"
	"example.com/awsretry/internal/httpfake"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// An sdkSend is an operation that has an effect each time it is sent.
type sdkSend struct {
	name     string
	response string // of a success
	call     func(ctx context.Context, cfg aws.Config) error
}

var sdkSends = []sdkSend{
	{"SQS", sqsSent.body, func(ctx context.Context, cfg aws.Config) error {
		input := &sqs.SendMessageInput{QueueUrl: sqsQueue, MessageBody: aws.String("hello")}
		_, err := sqs.NewFromConfig(cfg).SendMessage(ctx, input)
		return err
	}},
	// A version that decodes its responses with encoding/json.
	{"Step Functions 1.41", `{"executionArn":"arn:1","startDate":1700000000}`,
		func(ctx context.Context, cfg aws.Config) error {
			input := &sfn.StartExecutionInput{StateMachineArn: aws.String("arn:aws:states:us-east-1:1:stateMachine:m")}
			_, err := sfn.NewFromConfig(cfg).StartExecution(ctx, input)
			return err
		}},
}

// cuts are the ways in which a response ends in the middle of its body.
var cuts = []struct {
	name string
	send func(w http.ResponseWriter, body string)
}{
	{"fewer bytes than Content-Length", func(w http.ResponseWriter, body string) {
		w.Header().Set("Content-Length", "1000")
		io.WriteString(w, body[:len(body)/2])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}},
	{"chunked, without its end", func(w http.ResponseWriter, body string) {
		io.WriteString(w, body[:len(body)/2])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}},
	{"nothing of the body", func(w http.ResponseWriter, _ string) {
		w.Header().Set("Content-Length", "1000")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}},
	{"half of the JSON", func(w http.ResponseWriter, body string) { io.WriteString(w, body[:len(body)/2]) }},
}

// Where the service has accepted a call with a 2xx, and its response breaks off,
// the call is sent once, as by the SDK's own retryer.
func TestRetryerAccepted(t *testing.T) {
	for _, protocol := range httpfake.Protocols {
		for _, op := range sdkSends {
			for _, cut := range cuts {
				t.Run(protocol+"/"+op.name+"/"+cut.name, func(t *testing.T) {
					requests := func(t *testing.T, configure func(*httpfake.Server) aws.Config) (n int) {
						srv := httpfake.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
							n++
							io.Copy(io.Discard, r.Body)
							w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
							cut.send(w, op.response)
						})
						cfg := configure(srv)
						cfg.BaseEndpoint = aws.String(srv.URL)
						if err := op.call(t.Context(), cfg); err == nil {
							t.Error("no error")
						}
						return n
					}
					synctest.Test(t, func(t *testing.T) {
						n := requests(t, func(srv *httpfake.Server) aws.Config {
							return aws.Config{
								Region: "us-east-1", Credentials: sdkCredentials, Retryer: sdkRetryer,
								HTTPClient: &http.Client{Transport: srv.Base},
							}
						})
						if n != 1 {
							t.Errorf("the SDK's retryer sends %d requests", n)
						}
					})
					inVirtualTime(t, func(t *testing.T, u retryerUse) {
						var seen recorder
						r := newRetryer(t, awssdk.Config{Observe: seen.observe})
						n := requests(t, func(srv *httpfake.Server) aws.Config { return u.config(r, "", srv.Base) })
						if n != 1 {
							t.Errorf("%d requests, want 1", n)
						}
						if u.apply && (len(seen.records) != 1 || seen.records[0].Stop != awsretry.StopPermanent) {
							t.Errorf("observed %+v", seen.records)
						}
					})
				})
			}
		}
	}
}

// A connection that is reset while the response is read is what the SDK's
// retryer retries whatever the status is.
func TestRetryerAcceptedAndReset(t *testing.T) {
	sent := 0
	reset := httpfake.Base(func(req *http.Request) (*http.Response, error) {
		sent++
		if _, err := httpfake.Receive(req); err != nil {
			return nil, err
		}
		return httpfake.Response(req, http.StatusOK, io.NopCloser(iotest.ErrReader(errReset))), nil
	})
	for _, op := range sdkSends {
		t.Run(op.name, func(t *testing.T) {
			sent = 0
			own := aws.Config{
				Region: "us-east-1", Credentials: sdkCredentials, Retryer: sdkRetryer,
				HTTPClient: &http.Client{Transport: reset}, BaseEndpoint: aws.String("http://service.example"),
			}
			if err := op.call(t.Context(), own); err == nil || sent != sdkAttempts {
				t.Errorf("the SDK's retryer sends %d requests: %v", sent, err)
			}
			inVirtualTime(t, func(t *testing.T, u retryerUse) {
				sent = 0
				cfg := u.config(newRetryer(t, awssdk.Config{}), "service.example", reset)
				if err := op.call(t.Context(), cfg); stopOf(err) != awsretry.StopMaxAttempts || sent != 3 {
					t.Errorf("%d requests, want 3: %v", sent, err)
				}
			})
		})
	}
}
