package interop

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// minio-go signs a body while it is sent. Close gives the hash to a pool, and
// Read uses it: they must not run at the same time. The race detector reports
// it, and another upload would have the hash.
func TestMinioUploadsThatBreak(t *testing.T) {
	for name, fault := range map[string]http.HandlerFunc{
		"503": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close") // or the server would read on
			w.WriteHeader(http.StatusServiceUnavailable)
		},
		"reset": func(w http.ResponseWriter, _ *http.Request) {
			if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
				_ = conn.(*net.TCPConn).SetLinger(0)
				conn.Close()
			}
		},
		"hang": func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second / 2) },
	} {
		for _, kept := range []int64{-1, 8 << 20} { // MaxBodyBuffer
			t.Run(fmt.Sprintf("%s, MaxBodyBuffer %d", name, kept), func(t *testing.T) {
				t.Parallel()
				m := minioUploads{fault: fault, kept: kept}
				if name == "hang" {
					m.timeout = 300 * time.Millisecond
				}
				m.run(t)
				t.Logf("%d of %d succeeded with %d requests", m.succeeded.Load(), minioCount, m.requests.Load())
				if name != "hang" && kept > 0 && m.succeeded.Load() != minioCount {
					t.Error("an upload failed that could be sent again")
				}
			})
		}
	}
}

const minioCount = 8

// minioUploads are uploads to a server with a fault in every other request.
type minioUploads struct {
	fault   http.HandlerFunc
	kept    int64         // MaxBodyBuffer
	timeout time.Duration // AttemptTimeout

	requests, succeeded atomic.Int32
}

func (m *minioUploads) run(t *testing.T) {
	const size = 3 << 20
	data := bytes.Repeat(chaosBytes(4, chaosMaxBody), size/chaosMaxBody+1)[:size]
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m.requests.Add(1)%2 == 1 {
			_, _ = io.CopyN(io.Discard, r.Body, 200<<10)
			m.fault(w, r)
			return
		}
		got, err := io.ReadAll(httputil.NewChunkedReader(r.Body)) // with a signature in each chunk
		if err == nil && !bytes.Equal(got, data) {
			t.Errorf("%d bytes of %d were stored", len(got), size)
		}
		w.Header().Set("ETag", `"x"`)
	}))
	defer srv.Close()
	client, err := minio.New(hostOf(t, srv.URL), &minio.Options{
		Creds:  credentials.NewStaticV4("id", "secret", ""),
		Region: "us-east-1",
		Transport: &awsretry.Transport{
			Base: newPool(t), Backoff: briefly, Quota: awsretry.QuotaConfig{Capacity: -1},
			MaxBodyBuffer: m.kept, AttemptTimeout: m.timeout, MaxAttempts: 20,
		},
		MaxRetries: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	inParallel(minioCount, 4, func(n int) {
		body := struct{ io.Reader }{&slowBody{Reader: bytes.NewReader(data)}}
		if _, err := client.PutObject(t.Context(), "bucket", fmt.Sprint(n), body, size,
			minio.PutObjectOptions{DisableMultipart: true}); err == nil {
			m.succeeded.Add(1)
		}
	})
}

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
