package interop

import (
	"fmt"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/awssdk"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

const ddbPartition = "DynamoDB us-east-1"

// Many requests fail, and no operation does: in each mode, revision and retry
// loop of the SDK.
func TestRetryerDynamoDB(t *testing.T) {
	backend := startDynalite(t)
	createTable(t, backend)
	for _, config := range []awssdk.Config{
		{Mode: awsretry.Standard},
		{Mode: awsretry.Adaptive, Revision: awsretry.Revision2026},
	} {
		for _, u := range retryerUses {
			u.run(t, fmt.Sprintf(", %s, %v", config.Mode, config.Revision), func(t *testing.T) {
				testRetryerDynamoDB(t, u, config, backend)
			})
		}
	}
}

func testRetryerDynamoDB(t *testing.T, u retryerUse, config awssdk.Config, backend string) {
	kinds := []fault{faultServerError, faultUnavailable, faultBare, faultThrottling, faultReset, faultLost}
	service := &faultyService{pick: randomFaults(0.45, kinds...), fail: failDynamoDB}
	base, addr := startFaulty(t, service, backend)
	base.DisableKeepAlives = true // net/http itself repeats a request if an idle connection breaks
	log := newAttemptLog()
	config.MaxAttempts, config.Observe = retryAttempts, log.observe
	config.Backoff = awsretry.Exponential{Initial: time.Millisecond, ThrottlingInitial: time.Millisecond}
	config.RateLimit.MinFillRate = 200 // a low rate would make the test long
	r := newRetryer(t, config)
	client := dynamodb.NewFromConfig(u.config(r, addr, base))
	const items = 15
	ddbPutAndGet(t, client, items)
	if n, err := ddbScan(t.Context(), client); err != nil || n != items {
		t.Errorf("the table has %d items (%v), want %d", n, err, items)
	}
	calls, sent, most, faults := service.figures()
	t.Logf("%d operations, %d requests, at most %d for one%s", calls, sent, most, faults)
	if most > retryAttempts {
		t.Errorf("%d requests for one operation, want at most %d", most, retryAttempts)
	}
	for _, f := range kinds {
		if service.faults[f] == 0 {
			t.Errorf("no request had the fault %q", f)
		}
	}
	if state, ok := r.State(ddbPartition); !ok || state.Limited != (config.Mode == awsretry.Adaptive) {
		t.Errorf("the state is %+v (%v)", state, ok)
	}
	log.checkObserved(t, u, sent, calls)
}

// checkObserved fails unless each of the requests sent was observed once if the
// Retryer was applied, and none otherwise.
func (l *attemptLog) checkObserved(t *testing.T, u retryerUse, sent, calls int) {
	t.Helper()
	if !u.apply {
		sent, calls = 0, 0
	}
	observed := 0
	for _, n := range l.stops {
		observed += n
	}
	if observed != sent || l.stops[awsretry.StopSuccess] != calls || l.retries != sent-calls {
		t.Errorf("%d requests of %d operations were sent; observed were %v and %d retries",
			sent, calls, l.stops, l.retries)
	}
}
