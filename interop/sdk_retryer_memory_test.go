package interop

import (
	"errors"
	"runtime"
	"testing"
	"time"
	"weak"

	"example.com/awsretry/awssdk"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// An error that a program keeps does not keep the Retryer, its buckets and the
// other attempts of the call.
func TestRetryerIsNotKeptByErrors(t *testing.T) {
	for _, u := range retryerUses {
		u.run(t, "", func(t *testing.T) {
			r := newRetryer(t, awssdk.Config{})
			kept := weak.Make(r)
			stub := &sdkStub{steps: []sdkStep{wrong}}
			_, err := s3.NewFromConfig(u.config(r, "s3.example", stub)).ListBuckets(t.Context(), nil)
			var api *smithyhttp.ResponseError
			if !errors.As(err, &api) {
				t.Fatal(err)
			}
			for range 100 {
				if runtime.GC(); kept.Value() == nil {
					break
				}
				time.Sleep(time.Millisecond)
			}
			if kept.Value() != nil {
				t.Error("the error keeps the Retryer")
			}
			runtime.KeepAlive(err)
		})
	}
}
