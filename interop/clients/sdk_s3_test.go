package clients

//lint:file-ignore SA1019 the successor of feature/s3/manager has no stable version

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"example.com/awsretry"
	"example.com/awsretry/interop/internal/kit"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/s3/manager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
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
	return s3Compare(out.Body, want)
}

func s3Compare(body io.ReadCloser, want []byte) error {
	defer body.Close()
	got, err := io.ReadAll(body)
	switch {
	case err != nil:
		return fmt.Errorf("after %d bytes of the body: %w", len(got), err)
	case !bytes.Equal(got, want):
		return fmt.Errorf("%d bytes were read back, which differ from the %d that were written", len(got), len(want))
	}
	return nil
}

const s3PartSize = 5 << 20

// s3PutParts uploads data in parts.
func s3PutParts(ctx context.Context, client *s3.Client, key string, data []byte) error {
	up := manager.NewUploader(client, func(u *manager.Uploader) {
		u.PartSize = s3PartSize
		u.LeavePartsOnError = true // the end may have succeeded
	})
	body := io.MultiReader(bytes.NewReader(data)) // it cannot be rewound, unlike the parts
	_, err := up.Upload(ctx, &s3.PutObjectInput{Bucket: aws.String(s3Bucket), Key: &key, Body: body})
	return err
}

// s3GetParts reads an object back in parts.
func s3GetParts(ctx context.Context, client *s3.Client, key string, want []byte) error {
	down := manager.NewDownloader(client, func(d *manager.Downloader) { d.PartSize = s3PartSize / 2 })
	var got manager.WriteAtBuffer
	if _, err := down.Download(ctx, &got, &s3.GetObjectInput{Bucket: aws.String(s3Bucket), Key: &key}); err != nil {
		return err
	}
	return s3Compare(io.NopCloser(bytes.NewReader(got.Bytes())), want)
}

// failS3 responds as S3 does.
func failS3(w http.ResponseWriter, f fault) {
	status, code := http.StatusInternalServerError, "InternalError"
	switch f {
	case faultUnavailable:
		status, code = http.StatusServiceUnavailable, "ServiceUnavailable"
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

// endsUpload reports whether a request is CompleteMultipartUpload.
func endsUpload(r *http.Request) bool {
	return r.Method == http.MethodPost && r.URL.Query().Has("uploadId")
}

// s3Faults makes four requests in ten fail. The end of a multipart upload fails
// only before the service has done it. Afterwards, a service responds to any
// retry with NoSuchUpload.
func s3Faults() func(*http.Request) fault {
	before := randomFaults(0.4, faultHidden, faultServerError, faultUnavailable, faultThrottling, faultReset)
	always := randomFaults(0.4, faultServerError, faultUnavailable, faultBare, faultThrottling, faultEarly, faultReset,
		faultLost, faultCut)
	return func(r *http.Request) fault {
		if endsUpload(r) {
			return before(r)
		}
		return always(r)
	}
}

// Objects of every special size are written and read back while four requests
// in ten fail.
func TestS3(t *testing.T) {
	service := &faultyService{pick: s3Faults(), fail: failS3}
	base, addr := startFaulty(t, service, startGofakes3(t))
	log := newAttemptLog()
	tr := forFaultyService(base, log.observe)
	tr.MaxAttempts = 20    // with 10, one operation in 10^4 would fail
	tr.Quota.Capacity = -1 // the quota protects a service that fails so often
	client := newS3(addr, tr, aws.NopRetryer{})
	for _, object := range []struct {
		size, times int
		put, get    func(context.Context, *s3.Client, string, []byte) error
	}{
		{0, 10, s3Put, s3Get},
		{1<<20 + 1, 4, s3Put, s3Get},
		{10<<20 + 1, 1, s3PutParts, s3GetParts},
	} {
		data := kit.Random(object.size, object.size)
		kit.InParallel(object.times, 4, func(i int) {
			key := fmt.Sprint(object.size, "/", i)
			if err := object.put(t.Context(), client, key, data); err != nil {
				t.Errorf("put %s: %v", key, err)
			} else if err := object.get(t.Context(), client, key, data); err != nil {
				t.Errorf("get %s: %v", key, err)
			}
		})
	}
	log.check(t, service, tr)
}

// S3 responds with 200 and an error in the body if the outcome comes after the
// header.
func TestS3HiddenErrors(t *testing.T) {
	service := &faultyService{fail: failS3}
	service.pick = func(r *http.Request) fault {
		mayHide := r.Header.Get("X-Amz-Copy-Source") != "" || endsUpload(r)
		if mayHide && service.attempts(r) < 2 {
			return faultHidden
		}
		return faultNone
	}
	base, addr := startFaulty(t, service, startGofakes3(t))
	client := newS3(addr, forFaultyService(base, nil), aws.NopRetryer{})
	data := kit.Random(2, s3PartSize+1)
	if err := s3PutParts(t.Context(), client, "whole", data); err != nil {
		t.Fatal(err)
	}
	if err := s3Copy(t.Context(), client, "whole", "copy"); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"whole", "copy"} {
		if err := s3Get(t.Context(), client, key, data); err != nil {
			t.Errorf("get %s: %v", key, err)
		}
	}
	if n := service.faults[faultHidden]; n != 4 {
		t.Errorf("%d errors were hidden, want two for each of the two operations", n)
	}
}

func s3Copy(ctx context.Context, client *s3.Client, from, to string) error {
	_, err := client.CopyObject(ctx, &s3.CopyObjectInput{
		Bucket: aws.String(s3Bucket), Key: &to, CopySource: aws.String(s3Bucket + "/" + from),
	})
	return err
}

// A CompleteMultipartUpload whose response is lost is there although its retry
// fails with NoSuchUpload. The record says that this may be so.
func TestS3HiddenSuccess(t *testing.T) {
	var lost atomic.Bool
	service := &faultyService{fail: failS3, pick: func(r *http.Request) fault {
		if endsUpload(r) && lost.CompareAndSwap(false, true) {
			return faultLost
		}
		return faultNone
	}}
	base, addr := startFaulty(t, service, startGofakes3(t))
	var last awsretry.Attempt
	client := newS3(addr, forFaultyService(base, func(a awsretry.Attempt) { last = a }), aws.NopRetryer{})
	data := kit.Random(3, s3PartSize+1)
	err := s3PutParts(t.Context(), client, "key", data)
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != "NoSuchUpload" {
		t.Fatalf("%v, want NoSuchUpload", err)
	}
	if last.Number != 2 || last.Code != "NoSuchUpload" || !last.MaybeExecuted {
		t.Errorf("%+v", last)
	}
	if err := s3Get(t.Context(), client, "key", data); err != nil {
		t.Error(err)
	}
	if last.MaybeExecuted {
		t.Error("the download has it too")
	}
}
