package interop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"weak"

	"example.com/awsretry"
	"example.com/awsretry/awssdk"
	"example.com/awsretry/internal/httpfake"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// An sdkSend is an operation that has an effect each time it is sent.
type sdkSend struct {
	name     string
	response string // of a success
	call     func(ctx context.Context, cfg aws.Config) error
}

var sdkSends = []sdkSend{
	{"SQS", sqsSent.body, sqsSend},
	// A version that decodes its responses with encoding/json.
	{"Step Functions 1.41", `{"executionArn":"arn:1","startDate":1700000000}`,
		func(ctx context.Context, cfg aws.Config) error {
			input := &sfn.StartExecutionInput{StateMachineArn: aws.String("arn:aws:states:us-east-1:1:stateMachine:m")}
			_, err := sfn.NewFromConfig(cfg).StartExecution(ctx, input)
			return err
		}},
}

// cuts are the ways in which a response ends in the middle of its body: what is
// sent of the body, and of which length.
var cuts = []struct {
	name   string
	length string // "": chunked
	parts  int    // of the body, of which one is sent
	aborts bool
}{
	{"fewer bytes than Content-Length", "1000", 2, true},
	{"chunked, without its end", "", 2, true},
	{"nothing of the body", "1000", 1000, true},
	{"half of the JSON", "", 2, false},
}

// Where the service has accepted a call with a 2xx, and its response breaks off,
// the call is sent once, as by the SDK's own retryer.
func TestRetryerAccepted(t *testing.T) {
	for _, protocol := range httpfake.Protocols {
		for _, op := range sdkSends {
			for _, cut := range cuts {
				t.Run(protocol+"/"+op.name+"/"+cut.name, func(t *testing.T) {
					inVirtualTime(t, func(t *testing.T, u retryerUse) {
						sent := 0
						srv := httpfake.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
							sent++
							io.Copy(io.Discard, r.Body)
							w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
							if cut.length != "" {
								w.Header().Set("Content-Length", cut.length)
							}
							io.WriteString(w, op.response[:len(op.response)/cut.parts])
							w.(http.Flusher).Flush()
							if cut.aborts {
								panic(http.ErrAbortHandler)
							}
						})
						var seen recorder
						own := u.config(newRetryer(t, awssdk.Config{Observe: seen.observe}), "", srv.Base)
						theirs := own.Copy()
						theirs.Retryer, theirs.APIOptions = sdkRetryer, nil
						for _, cfg := range []aws.Config{own, theirs} {
							cfg.BaseEndpoint = aws.String(srv.URL)
							if err := op.call(t.Context(), cfg); err == nil {
								t.Error("no error")
							}
						}
						if sent != 2 {
							t.Errorf("%d requests of the Retryer and the SDK's, want 1 each", sent)
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
	for _, op := range sdkSends {
		t.Run(op.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, u retryerUse) {
				sent := 0
				cfg := u.config(newRetryer(t, awssdk.Config{}), "service.example", httpfake.Base(
					func(req *http.Request) (*http.Response, error) {
						sent++
						_, err := httpfake.Receive(req)
						return httpfake.Response(req, http.StatusOK, io.NopCloser(iotest.ErrReader(errReset))), err
					}))
				if err := op.call(t.Context(), cfg); stopOf(err) != awsretry.StopMaxAttempts || sent != 3 {
					t.Errorf("%d requests, want 3: %v", sent, err)
				}
				cfg.Retryer, cfg.APIOptions = sdkRetryer, nil
				if err := op.call(t.Context(), cfg); err == nil || sent != 3+sdkAttempts {
					t.Errorf("the SDK's retryer sends %d requests: %v", sent-3, err)
				}
			})
		})
	}
}

// An error that a program keeps does not keep the Retryer, its buckets and the
// other attempts of the call.
func TestRetryerIsNotKeptByErrors(t *testing.T) {
	for _, u := range retryerUses {
		u.run(t, "", func(t *testing.T) {
			r := newRetryer(t, awssdk.Config{})
			kept := weak.Make(r)
			stub := &sdkStub{steps: []sdkStep{{status: 400, code: "ValidationException"}}}
			_, err := s3.NewFromConfig(u.config(r, "s3.example", stub)).ListBuckets(t.Context(), nil)
			var api *smithyhttp.ResponseError
			if !errors.As(err, &api) {
				t.Fatal(err)
			}
			if !eventually(func() bool { runtime.GC(); return kept.Value() == nil }) {
				t.Error("the error keeps the Retryer")
			}
			runtime.KeepAlive(err)
		})
	}
}

// The tests of awssdk pass with a version of the SDK that always runs its loop
// of 2026, without the variable that selects it today.
func TestRetryerWithoutLoopVariable(t *testing.T) {
	takesLong(t) // builds the SDK again
	const sdkModule = "github.com/aws/aws-sdk-go-v2"
	workspace := "GOWORK="
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = "../awssdk", append(os.Environ(), workspace)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	sdk := filepath.Join(t.TempDir(), "sdk")
	if err := os.CopyFS(sdk, os.DirFS(run("list", "-m", "-f", "{{.Dir}}", sdkModule))); err != nil {
		t.Fatal(err)
	}
	standard := filepath.Join(sdk, "aws", "retry", "standard.go")
	source, err := os.ReadFile(standard)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(source),
		`return os.Getenv("AWS_NEW_RETRIES_2026") == "true"`, `_ = os.Getenv; return true`, 1)
	if changed == string(source) {
		t.Skip("this version of the SDK does not ask the variable there")
	}
	writeFile(t, standard, []byte(changed))
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	// A workspace leaves the go.mod files as they are.
	work := filepath.Join(filepath.Dir(sdk), "go.work")
	writeFile(t, work, fmt.Appendf(nil, "go 1.25.0\n\nuse (\n\t%s\n\t%s\n)\n\nreplace %s => %s\n",
		root, filepath.Join(root, "awssdk"), sdkModule, sdk))
	workspace += work
	// TestRunsLoop2026 needs both loops, and TestLongPoll a client that says to
	// this loop that it is long-polling. With -trimpath the build does not depend
	// on the folder, so that the next run finds it in the cache.
	run("test", "-trimpath", "-count=1", "-skip", "TestRunsLoop2026|TestLongPoll", ".")
}
