package clients

import (
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/awssdk"
	"example.com/awsretry/interop/internal/kit"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"
)

// Many requests fail, and no operation does: in each mode, with each use of the
// Retryer.
func TestRetryerDynamoDB(t *testing.T) {
	backend := startDynalite(t)
	for _, mode := range []awsretry.Mode{awsretry.Standard, awsretry.Adaptive} {
		for _, u := range retryerUses {
			u.run(t, ", "+string(mode), func(t *testing.T) { testRetryerDynamoDB(t, u, mode, backend) })
		}
	}
}

func testRetryerDynamoDB(t *testing.T, u retryerUse, mode awsretry.Mode, backend string) {
	kinds := []fault{faultServerError, faultUnavailable, faultBare, faultThrottling, faultReset, faultLost}
	service := &faultyService{pick: randomFaults(0.45, kinds...), fail: failDynamoDB}
	base, addr := startFaulty(t, service, backend)
	base.DisableKeepAlives = true // net/http itself repeats a request if an idle connection breaks
	log := newAttemptLog()
	r := newRetryer(t, awssdk.Config{
		Mode: mode, MaxAttempts: retryAttempts, Observe: log.observe,
		Backoff:   awsretry.Exponential{Initial: time.Millisecond},
		RateLimit: awsretry.RateLimitConfig{MinFillRate: 200}, // a low rate would make the test long
	})
	ddbPutAndGet(t, dynamodb.NewFromConfig(u.config(r, addr, base)), 15)
	calls, sent, most, faults := service.figures()
	t.Logf("%d operations, %d requests, at most %d for one%s", calls, sent, most, faults)
	if most > retryAttempts {
		t.Errorf("%d requests for one operation, want at most %d", most, retryAttempts)
	}
	service.wantFaults(t, kinds...)
	if state, ok := r.State(ddbPartition); !ok || state.Limited != (mode == awsretry.Adaptive) {
		t.Errorf("the state is %+v (%v)", state, ok)
	}
	if !u.apply { // then nothing is observed
		sent, calls = 0, 0
	}
	observed := 0
	for _, n := range log.stops {
		observed += n
	}
	if observed != sent || log.stops[awsretry.StopSuccess] != calls || log.retries != sent-calls {
		t.Errorf("%d requests of %d operations; observed were %v and %d retries", sent, calls, log.stops, log.retries)
	}
}

// An s3Use is an S3 client in a test, with an object that the service has.
type s3Use struct {
	*testing.T
	client *s3.Client
	data   []byte
}

var s3Key = aws.String("there")

// s3Uses are what a client does. The first request of each operation fails.
var s3Uses = []struct {
	name  string
	fault fault
	calls int // operations, each of which takes two requests
	use   func(s3Use) error
}{
	{"PutObject, SlowDown", faultThrottling, 1, func(u s3Use) error { return s3Put(u.Context(), u.client, "new", u.data) }},
	{"GetObject, reset", faultReset, 1, func(u s3Use) error { return s3Get(u.Context(), u.client, "new", u.data) }},
	{"CopyObject, an error in a response with 200", faultHidden, 1, func(u s3Use) error {
		return s3Copy(u.Context(), u.client, *s3Key, "copy")
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
	// Two parts with a call before and after them, and three ranges.
	{"manager", faultServerError, 4 + 3, func(u s3Use) error {
		data := kit.Random(s3PartSize+1, s3PartSize+1)
		if err := s3PutParts(u.Context(), u.client, "parts", data); err != nil {
			return err
		}
		return s3GetParts(u.Context(), u.client, "parts", data)
	}},
}

// Everything that a client of S3 does goes on after a failure.
func TestRetryerS3(t *testing.T) {
	backend := startGofakes3(t)
	data := kit.Random(1, 100_000)
	direct := newS3(backend, kit.Pool(t), aws.NopRetryer{})
	for _, key := range []string{*s3Key, "new", "page/1", "page/2", "page/3"} {
		if err := s3Put(t.Context(), direct, key, data); err != nil {
			t.Fatal(err)
		}
	}
	for _, u := range retryerUses {
		for _, tt := range s3Uses {
			u.run(t, "/"+tt.name, func(t *testing.T) {
				service := &faultyService{fail: failS3}
				service.pick = failFirst(service, 1, tt.fault)
				base, addr := startFaulty(t, service, backend)
				base.DisableKeepAlives = true // net/http itself repeats a request if an idle connection breaks
				r := newRetryer(t, awssdk.Config{Backoff: awsretry.Exponential{Initial: time.Millisecond}})
				pathStyle := func(o *s3.Options) { o.UsePathStyle = true }
				if err := tt.use(s3Use{t, s3.NewFromConfig(u.config(r, addr, base), pathStyle), data}); err != nil {
					t.Fatal(err)
				}
				if calls, sent, most, _ := service.figures(); calls != tt.calls || sent != 2*tt.calls || most != 2 {
					t.Errorf("%d requests for %d operations, at most %d for one; want 2 for each of %d",
						sent, calls, most, tt.calls)
				}
				wantTokens(t, r, "S3 us-east-1", 500)
			})
		}
	}
}
