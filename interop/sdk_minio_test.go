package interop

import (
	"bytes"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"example.com/awsretry"
	"github.com/minio/minio-go/v7"
)

// A CompleteMultipartUpload whose response is lost is there although its retry
// fails with NoSuchUpload. The record says that this may be so.
func TestMinioHiddenSuccess(t *testing.T) {
	var lost atomic.Bool
	service := &faultyService{fail: failS3, pick: func(r *http.Request) fault {
		if endsUpload(r) && lost.CompareAndSwap(false, true) {
			return faultLost
		}
		return faultNone
	}}
	base, addr := startFaulty(t, service, startGofakes3(t))
	var last awsretry.Attempt
	tr := forFaultyService(base, func(a awsretry.Attempt) { last = a })
	client, err := minio.NewCore(addr, &minio.Options{
		Transport: tr, MaxRetries: 1, Region: "us-east-1", BucketLookup: minio.BucketLookupPath,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, part := t.Context(), bytes.Repeat([]byte("awsretry"), 1<<10)
	id, err := client.NewMultipartUpload(ctx, s3Bucket, "key", minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := client.PutObjectPart(ctx, s3Bucket, "key", id, 1, bytes.NewReader(part), int64(len(part)),
		minio.PutObjectPartOptions{DisableContentSha256: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CompleteMultipartUpload(ctx, s3Bucket, "key", id,
		[]minio.CompletePart{{PartNumber: 1, ETag: stored.ETag}}, minio.PutObjectOptions{})
	if code := minio.ToErrorResponse(err).Code; code != "NoSuchUpload" {
		t.Fatalf("%v, want NoSuchUpload", err)
	}
	if last.Number != 2 || last.Code != "NoSuchUpload" || !last.MaybeExecuted {
		t.Errorf("%+v", last)
	}
	object, _, _, err := client.GetObject(ctx, s3Bucket, "key", minio.GetObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer object.Close()
	if got, err := io.ReadAll(object); err != nil || !bytes.Equal(got, part) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if last.MaybeExecuted {
		t.Error("the download has it too")
	}
}
