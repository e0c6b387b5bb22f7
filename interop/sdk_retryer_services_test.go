package interop

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/awssdk"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"
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

const s3Partition = "S3 us-east-1"

// pathStyle is for servers whose buckets have no host of their own.
func pathStyle(o *s3.Options) { o.UsePathStyle = true }

// An s3Use is an S3 client in a test, with an object that the service has.
type s3Use struct {
	*testing.T
	client  *s3.Client
	service *faultyService
	seen    *recorder
	data    []byte
}

func (s s3Use) putAndGet() error {
	if err := s3Put(s.Context(), s.client, "new", s.data); err != nil {
		return err
	}
	return s3Get(s.Context(), s.client, "new", s.data)
}

var s3Key = aws.String("there")

// s3Uses are what a client does. The first request of each operation fails.
var s3Uses = []struct {
	name  string
	fault fault
	calls int // operations, each of which takes two requests
	use   func(s3Use) error
}{
	{"PutObject", faultServerError, 2, s3Use.putAndGet},
	{"PutObject, reset", faultReset, 2, s3Use.putAndGet},
	{"GetObject, SlowDown", faultThrottling, 1, func(u s3Use) error {
		return s3Get(u.Context(), u.client, *s3Key, u.data)
	}},
	{"CopyObject, an error in a response with 200", faultHidden, 1, func(u s3Use) error {
		_, err := u.client.CopyObject(u.Context(), &s3.CopyObjectInput{
			Bucket: aws.String(s3Bucket), Key: aws.String("copy"), CopySource: aws.String(s3Bucket + "/" + *s3Key),
		})
		return err
	}},
	{"paginator", faultServerError, 4, func(u s3Use) error {
		pages := s3.NewListObjectsV2Paginator(u.client, &s3.ListObjectsV2Input{
			Bucket: aws.String(s3Bucket), Prefix: aws.String("page/"), MaxKeys: aws.Int32(1),
		})
		var keys []string // gofakes3 has an empty last page
		for pages.HasMorePages() {
			page, err := pages.NextPage(u.Context())
			if err != nil {
				return err
			}
			for _, object := range page.Contents {
				keys = append(keys, *object.Key)
			}
		}
		if diff := cmp.Diff([]string{"page/1", "page/2", "page/3"}, keys); diff != "" {
			u.Errorf("keys (-want +got):\n%s", diff)
		}
		return nil
	}},
}

// Everything that a client of S3 does goes on after a failure.
func TestRetryerS3(t *testing.T) {
	s3rver, gofakes3 := startS3rver(t), startGofakes3(t)
	data := s3Data(100_000)
	for _, backend := range []string{s3rver, gofakes3} {
		direct := newS3(backend, newPool(t), aws.NopRetryer{})
		for _, key := range []string{*s3Key, "page/1", "page/2", "page/3"} {
			if err := s3Put(t.Context(), direct, key, data); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, u := range retryerUses {
		for _, tt := range s3Uses {
			u.run(t, "/"+tt.name, func(t *testing.T) {
				backend := s3rver
				if tt.name == "paginator" { // s3rver makes no continuation tokens with the OpenSSL of today
					backend = gofakes3
				}
				s := startS3Use(t, u, backend, tt.fault)
				s.data = data
				if err := tt.use(s); err != nil {
					t.Fatal(err)
				}
				s.check(u, tt.calls, tt.fault)
			})
		}
	}
}

// startS3Use starts a proxy in front of S3 that makes the first request of each
// operation fail.
func startS3Use(t *testing.T, u retryerUse, backend string, f fault) s3Use {
	t.Helper()
	s := s3Use{T: t, service: &faultyService{fail: failS3}, seen: new(recorder)}
	s.service.pick = failFirst(s.service, 1, f)
	base, addr := startFaulty(t, s.service, backend)
	base.DisableKeepAlives = true // net/http itself repeats a request if an idle connection breaks
	r := newRetryer(t, awssdk.Config{
		Observe: s.seen.observe,
		Backoff: awsretry.Exponential{Initial: time.Millisecond, Jitter: awsretry.NoJitter},
	})
	s.client = s3.NewFromConfig(u.config(r, addr, base), pathStyle)
	t.Cleanup(func() {
		if !t.Failed() {
			wantTokens(t, r, s3Partition, 500)
		}
	})
	return s
}

// check fails unless there were so many operations, each with two attempts, of
// which the first one failed.
func (s s3Use) check(u retryerUse, calls int, f fault) {
	s.Helper()
	if got, sent, most, _ := s.service.figures(); got != calls || sent != 2*calls || most != 2 {
		s.Errorf("%d requests for %d operations, at most %d for one; want 2 for each of %d", sent, got, most, calls)
	}
	first := record{1, awsretry.Transient, "InternalError", time.Millisecond, "", s3Partition}
	switch f {
	case faultThrottling:
		first.Class, first.Code = awsretry.Throttled, "SlowDown"
	case faultReset:
		first.Code = ""
	}
	second := record{2, awsretry.Success, "", 0, awsretry.StopSuccess, s3Partition}
	want := slices.Repeat([]record{first, second}, calls)
	byNumber := func(a, b record) int { return a.Number - b.Number } // parts are sent in parallel
	slices.SortStableFunc(want, byNumber)
	slices.SortStableFunc(s.seen.records, byNumber)
	s.seen.check(s, u, want)
}

// The parts of an upload and a download are operations of their own.
func TestRetryerTransferManager(t *testing.T) {
	backend := startGofakes3(t)
	data := s3Data(s3PartSize + 1)
	for _, u := range []retryerUse{{apply: true}, {apply: false}} {
		u.run(t, "", func(t *testing.T) {
			s := startS3Use(t, u, backend, faultServerError)
			if err := s3PutParts(t.Context(), s.client, "parts", data); err != nil {
				t.Fatal(err)
			}
			if err := s3GetParts(t.Context(), s.client, "parts", data); err != nil {
				t.Error(err)
			}
			const calls = 4 + 3 // two parts with a call before and after them, and three ranges
			s.check(u, calls, faultServerError)
		})
	}
}
