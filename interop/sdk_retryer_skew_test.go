package interop

import (
	"net/http"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/awssdk"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"
)

// skewed returns a response of a service whose clock is an hour ahead.
func skewed(step sdkStep) sdkStep {
	step.header = map[string]string{"Date": time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}
	return step
}

// The SDK corrects its clock by the service's, and signs the request again.
func TestRetryerClockSkew(t *testing.T) {
	const code = "RequestTimeTooSkewed"
	for _, tt := range []struct {
		name    string
		steps   func() []sdkStep
		records []record
	}{
		{
			"corrected",
			func() []sdkStep { return []sdkStep{skewed(sdkStep{status: 403, code: code}), skewed(sdkStep{})} },
			recordsOf(ddbPartition,
				record{Class: awsretry.Transient, Code: code, Delay: time.Second},
				record{Class: awsretry.Success, Stop: awsretry.StopSuccess}),
		},
		{
			"not corrected by that",
			func() []sdkStep {
				late := skewed(sdkStep{status: 403, code: code})
				return []sdkStep{late, late, late}
			},
			recordsOf(ddbPartition,
				record{Class: awsretry.Transient, Code: code, Delay: time.Second},
				record{Class: awsretry.Permanent, Code: code, Stop: awsretry.StopPermanent}),
		},
		{
			"the clock is right",
			func() []sdkStep { return []sdkStep{{status: 403, code: code}} },
			recordsOf(ddbPartition, record{Class: awsretry.Permanent, Code: code, Stop: awsretry.StopPermanent}),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, u retryerUse) {
				call := func(cfg aws.Config, stub *sdkStub) bool {
					_, err := dynamodb.NewFromConfig(cfg).ListTables(t.Context(), nil)
					dates := stub.headers("X-Amz-Date")
					for i, date := range dates {
						signed, parseErr := time.Parse("20060102T150405Z", date)
						ahead := signed.Sub(stub.sent[i].at).Round(time.Minute)
						if parseErr != nil || ahead != time.Duration(i)*time.Hour {
							t.Errorf("request %d was signed for %v ahead (%v)", i+1, ahead, parseErr)
						}
					}
					return err == nil
				}
				stub, own := &sdkStub{steps: tt.steps()}, &sdkStub{steps: tt.steps()}
				var seen recorder
				r := newRetryer(t, awssdk.Config{Observe: seen.observe})
				ok := call(u.config(r, "ddb.example", stub), stub)
				cfg := u.config(r, "ddb.example", own)
				cfg.Retryer, cfg.APIOptions = sdkRetryer, nil
				if wantOK := call(cfg, own); ok != wantOK || len(stub.sent) != len(own.sent) {
					t.Errorf("%d requests, success %v; with the SDK's retryer %d, %v",
						len(stub.sent), ok, len(own.sent), wantOK)
				}
				want := tt.records
				if !u.apply {
					want = nil
				}
				if diff := cmp.Diff(want, seen.records); diff != "" {
					t.Errorf("records (-want +got):\n%s", diff)
				}
			})
		})
	}
}
