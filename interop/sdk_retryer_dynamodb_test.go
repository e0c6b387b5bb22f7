package interop

import (
	"fmt"
	"slices"
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

// A retryerScene is one operation, and what the Retryer makes of it.
type retryerScene struct {
	name    string
	config  awssdk.Config
	steps   []sdkStep
	records []record // of an applied Retryer
	plain   int      // retries of a plain one, if it makes fewer
	tokens  int
}

var dynamoDBScenes = []retryerScene{
	{
		name:   "Classic: a 500, throttling, a reset, then too many",
		config: awssdk.Config{MaxAttempts: 4},
		steps:  []sdkStep{failed, busy, {err: errReset}, failed},
		records: recordsOf(ddbPartition,
			retried(awsretry.Transient, failed.code, time.Second),
			retried(awsretry.Throttled, busy.code, 2*time.Second),
			retried(awsretry.Transient, "", 4*time.Second),
			stopped(awsretry.Transient, failed.code, awsretry.StopMaxAttempts)),
		tokens: 500 - 5 - 10 - 5,
	},
	{
		name:  "Classic: a permanent error",
		steps: []sdkStep{failed, wrong},
		records: recordsOf(ddbPartition,
			retried(awsretry.Transient, failed.code, time.Second),
			stopped(awsretry.Permanent, wrong.code, awsretry.StopPermanent)),
		tokens: 495,
	},
	{
		name:   "Classic: the bucket is empty",
		config: awssdk.Config{Quota: awsretry.QuotaConfig{Capacity: 7}},
		steps:  []sdkStep{failed, failed},
		records: recordsOf(ddbPartition,
			retried(awsretry.Transient, failed.code, time.Second),
			stopped(awsretry.Transient, failed.code, awsretry.StopQuota)),
		tokens: 2,
	},
	{
		name:   "2026: four attempts and 25 ms",
		config: awssdk.Config{Revision: awsretry.Revision2026},
		steps:  []sdkStep{failed, failed, failed, failed},
		records: recordsOf(ddbPartition,
			retried(awsretry.Transient, failed.code, 25*time.Millisecond),
			retried(awsretry.Transient, failed.code, 50*time.Millisecond),
			retried(awsretry.Transient, failed.code, 100*time.Millisecond),
			stopped(awsretry.Transient, failed.code, awsretry.StopMaxAttempts)),
		plain: 2, tokens: 500 - 3*14,
	},
	{
		name:   "2026: throttling",
		config: awssdk.Config{Revision: awsretry.Revision2026},
		steps:  []sdkStep{busy, busy},
		records: recordsOf(ddbPartition,
			retried(awsretry.Throttled, busy.code, time.Second),
			retried(awsretry.Throttled, busy.code, 2*time.Second),
			succeeded),
		tokens: 495,
	},
}

// Each attempt of an operation has the delay, costs the tokens and is observed
// as the rules say.
func TestRetryerRecords(t *testing.T) {
	for _, scene := range dynamoDBScenes {
		t.Run(scene.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, u retryerUse) { scene.test(t, u) })
		})
	}
}

func (s retryerScene) test(t *testing.T, u retryerUse) {
	stub := &sdkStub{steps: s.steps}
	var seen recorder
	s.config.Observe = seen.observe
	r := newRetryer(t, s.config)
	_, err := dynamodb.NewFromConfig(u.config(r, "ddb.example", stub)).ListTables(t.Context(), nil)

	want, tokens := s.records, s.tokens
	var delays []time.Duration
	for _, a := range want[:len(want)-1] {
		delays = append(delays, a.Delay)
	}
	if stop := want[len(want)-1].Stop; stopOf(err) != stop {
		t.Errorf("ended as %q, want %q: %v", stopOf(err), stop, err)
	}
	if !u.apply {
		if s.plain > 0 {
			tokens += (len(delays) - s.plain) * 14
			delays = delays[:s.plain]
		}
	}
	seen.check(t, u, want)
	if got := stub.delays(); !slices.Equal(got, delays) {
		t.Errorf("delays %v, want %v", got, delays)
	}
	wantTokens(t, r, ddbPartition, tokens)
}
