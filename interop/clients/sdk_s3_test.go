package clients

//lint:file-ignore SA1019 the successor of feature/s3/manager has no stable version

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/awssdk"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/feature/s3/manager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// s3Bucket is the bucket that the servers have.
const s3Bucket = "interop"

// startGofakes3 starts an S3 server in this process.
func startGofakes3(t testing.TB) (addr string) {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket(s3Bucket); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	server.Config.ErrorLog = kit.Quiet
	server.Start()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// newS3 returns an SDK client for the service at addr.
func newS3(addr string, rt http.RoundTripper, retryer aws.Retryer) *s3.Client {
	return s3.New(s3.Options{
		Region:       "us-east-1",
		Credentials:  sdkCredentials,
		BaseEndpoint: aws.String("http://" + addr),
		UsePathStyle: true,
		HTTPClient:   &http.Client{Transport: rt},
		Retryer:      retryer,
		// A trailer with a checksum would hide whether the body is whole.
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
	})
}

func s3Put(ctx context.Context, client *s3.Client, key string, data []byte) error {
	_, err := client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: aws.String(s3Bucket), Key: &key, Body: bytes.NewReader(data),
	})
	return err
}

// s3Get reads an object back and compares it.
func s3Get(ctx context.Context, client *s3.Client, key string, want []byte) error {
	out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(s3Bucket), Key: &key})
	if err != nil {
		return err
	}
	defer out.Body.Close()
	got, err := io.ReadAll(out.Body)
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("%d bytes were read back, which differ from the %d that were written", len(got), len(want))
	}
	return err
}

// s3PutParts uploads data in parts of 5 MiB.
func s3PutParts(ctx context.Context, client *s3.Client, key string, data []byte) error {
	body := kit.StreamOf(data) // it cannot be rewound, unlike the parts
	_, err := manager.NewUploader(client).
		Upload(ctx, &s3.PutObjectInput{Bucket: aws.String(s3Bucket), Key: &key, Body: body})
	return err
}

// failS3 responds as S3 does.
func failS3(w http.ResponseWriter, f fault) {
	status, code := http.StatusInternalServerError, "InternalError"
	switch f {
	case faultThrottling:
		status, code = http.StatusServiceUnavailable, "SlowDown"
	case faultHidden:
		status = http.StatusOK
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"+
		"<Error><Code>%s</Code><Message>a fault of the test</Message></Error>", code)
}

// Objects are written and read back while four requests in ten fail. The end of
// a multipart upload fails only before the service has done it. Afterwards, a
// service responds to any retry with NoSuchUpload.
func TestS3(t *testing.T) {
	kinds := []fault{faultServerError, faultBare, faultThrottling, faultEarly, faultReset, faultLost}
	always, before := randomFaults(0.4, kinds...), randomFaults(0.9, faultHidden, faultReset)
	service := &faultyService{fail: failS3, pick: func(r *http.Request) fault {
		if r.Method == http.MethodPost && r.URL.Query().Has("uploadId") {
			return before(r)
		}
		return always(r)
	}}
	base, addr := startFaulty(t, service, startGofakes3(t))
	tr := forFaultyService(base)
	tr.MaxAttempts = 20    // with 10, one operation in 10^4 would fail
	tr.Quota.Capacity = -1 // the quota protects a service that fails so often
	client := newS3(addr, tr, aws.NopRetryer{})
	for _, object := range []struct {
		size, times int
		put         func(context.Context, *s3.Client, string, []byte) error
	}{{0, 40, s3Put}, {1<<20 + 1, 4, s3Put}, {10<<20 + 1, 1, s3PutParts}} {
		data := kit.Random(object.size, object.size)
		kit.InParallel(object.times, 4, func(i int) {
			key := fmt.Sprint(object.size, "/", i)
			if err := object.put(t.Context(), client, key, data); err != nil {
				t.Errorf("put %s: %v", key, err)
			} else if err := s3Get(t.Context(), client, key, data); err != nil {
				t.Errorf("get %s: %v", key, err)
			}
		})
	}
	service.check(t, tr.MaxAttempts, append(kinds, faultHidden)...)
}

// What a client of S3 does with the Retryer goes on after a failure.
func TestRetryerS3(t *testing.T) {
	data := kit.Random(1, 100_000)
	for _, tt := range []struct {
		name  string
		fault fault
		use   func(context.Context, *s3.Client) error
	}{
		{"PutObject", faultThrottling, func(ctx context.Context, c *s3.Client) error { return s3Put(ctx, c, "new", data) }},
		{"GetObject", faultReset, func(ctx context.Context, c *s3.Client) error { return s3Get(ctx, c, "there", data) }},
		{"CopyObject", faultHidden, func(ctx context.Context, c *s3.Client) error {
			_, err := c.CopyObject(ctx, &s3.CopyObjectInput{
				Bucket: aws.String(s3Bucket), Key: aws.String("copy"), CopySource: aws.String(s3Bucket + "/there"),
			})
			return err
		}},
	} {
		for _, u := range retryerUses {
			t.Run(u.String()+"/"+tt.name, func(t *testing.T) {
				backend := startGofakes3(t)
				if err := s3Put(t.Context(), newS3(backend, kit.Pool(t), aws.NopRetryer{}), "there", data); err != nil {
					t.Fatal(err)
				}
				service := &faultyService{fail: failS3}
				service.pick = failFirst(service, 1, tt.fault)
				base, addr := startFaulty(t, service, backend)
				r := newRetryer(t, awssdk.Config{Backoff: awsretry.Exponential{Initial: time.Millisecond}})
				pathStyle := func(o *s3.Options) { o.UsePathStyle = true }
				err := tt.use(t.Context(), s3.NewFromConfig(u.config(r, addr, base), pathStyle))
				if calls, sent, _ := service.figures(); err != nil || calls != 1 || sent != 2 {
					t.Errorf("%d requests for %d operations: %v", sent, calls, err)
				}
				wantTokens(t, r, "S3 us-east-1", 500)
			})
		}
	}
}

// What S3 sends with a 200 is retried as the SDK's own retryer does. A GET of an
// object is the caller's data.
func TestS3ErrorsIn200(t *testing.T) {
	bucket, key := aws.String(s3Bucket), aws.String("key")
	type operation func(context.Context, *s3.Client) error
	operations := map[string]operation{
		"CopyObject": func(ctx context.Context, c *s3.Client) error {
			_, err := c.CopyObject(ctx, &s3.CopyObjectInput{Bucket: bucket, Key: key, CopySource: aws.String("a/b")})
			return err
		},
		"CompleteMultipartUpload": func(ctx context.Context, c *s3.Client) error {
			_, err := c.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: bucket, Key: key, UploadId: key})
			return err
		},
		"DeleteObjects": func(ctx context.Context, c *s3.Client) error {
			objects := []types.ObjectIdentifier{{Key: key}}
			_, err := c.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: bucket, Delete: &types.Delete{Objects: objects}})
			return err
		},
		"ListObjectsV2": func(ctx context.Context, c *s3.Client) error {
			_, err := c.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: bucket})
			return err
		},
		"GetBucketAcl": func(ctx context.Context, c *s3.Client) error {
			_, err := c.GetBucketAcl(ctx, &s3.GetBucketAclInput{Bucket: bucket})
			return err
		},
		"GetObject": func(ctx context.Context, c *s3.Client) error {
			_, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: key})
			return err
		},
	}
	retried := 0
	for name, call := range operations {
		for _, body := range []string{
			"", "<Result/>", "<Result><Error><Code>InternalError</Code></Error></Result>", "<Errors><Code>a</Code></Errors>",
			"<Error><Code>SlowDown</Code></Error>", "<Error><Code>InternalError</Code></Error>",
			"<?xml version='1.0'?>\n\n<Error><Code>AccessDenied</Code></Error>", "<Error><Code>Unknown</Code></Error>",
			"<Error><Message>no code</Message></Error>", "<Error><Code></Code></Error>", "<Error/>",
			"<!-- a comment --><Error><Code>Unk", "<Error>",
		} {
			sent := 0
			base := httpfake.Base(func(req *http.Request) (*http.Response, error) {
				sent++
				return httpfake.Response(req, http.StatusOK, io.NopCloser(strings.NewReader(body))), nil
			})
			standard := retry.NewStandard(func(o *retry.StandardOptions) {
				o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
			})
			errOf := call(t.Context(), newS3("h", base, standard))
			want := sent
			sent = 0
			none := awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return 0 })
			_ = call(t.Context(), newS3("h", &awsretry.Transport{Base: base, Backoff: none}, aws.NopRetryer{}))
			if sent != want {
				t.Errorf("%s, %q: sent %d times, by the SDK %d times: %v", name, body, sent, want, errOf)
			}
			retried += want - 1
		}
	}
	if retried == 0 {
		t.Error("the SDK made no retry")
	}
}
