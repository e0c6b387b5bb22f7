package interop

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"example.com/awsretry"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

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
	objects := []struct {
		name  string
		size  int
		times int
		put   func(context.Context, *s3.Client, string, []byte) error
		get   func(context.Context, *s3.Client, string, []byte) error
	}{
		{"0 B", 0, 10, s3Put, s3Get},
		{"1 B", 1, 10, s3Put, s3Get},
		{"1 MiB and a byte", 1<<20 + 1, 2, s3Put, s3Get},
		{"5 MiB", 5 << 20, 1, s3Put, s3Get},
		{"10 MiB and a byte in parts", 10<<20 + 1, 1, s3PutParts, s3GetParts},
	}
	for name, start := range s3Backends {
		t.Run(name, func(t *testing.T) {
			service := &faultyService{pick: s3Faults(), fail: failS3}
			base, addr := startFaulty(t, service, start(t))
			log := newAttemptLog()
			tr := forFaultyService(base, log.observe)
			tr.MaxAttempts = 20    // with 10, one operation in 10^4 would fail
			tr.Quota.Capacity = -1 // the quota protects a service that fails so often
			client := newS3(addr, tr, aws.NopRetryer{})
			for _, object := range objects {
				data := s3Data(object.size)
				inParallel(object.times, 4, func(i int) {
					key := fmt.Sprint(object.name, "/", i)
					if err := object.put(t.Context(), client, key, data); err != nil {
						t.Errorf("put %s: %v", key, err)
						return
					}
					if err := object.get(t.Context(), client, key, data); err != nil {
						t.Errorf("get %s: %v", key, err)
					}
				})
			}
			log.check(t, service, tr)
		})
	}
}

// S3 responds with 200 and an error in the body if the outcome comes after the
// header.
func TestS3HiddenErrors(t *testing.T) {
	for name, start := range s3Backends {
		t.Run(name, func(t *testing.T) {
			service := &faultyService{fail: failS3}
			service.pick = func(r *http.Request) fault {
				mayHide := r.Header.Get("X-Amz-Copy-Source") != "" || endsUpload(r)
				if mayHide && service.attempts(r) < 2 {
					return faultHidden
				}
				return faultNone
			}
			base, addr := startFaulty(t, service, start(t))
			client := newS3(addr, forFaultyService(base, nil), aws.NopRetryer{})
			data := s3Data(s3PartSize + 1)
			if err := s3PutParts(t.Context(), client, "whole", data); err != nil {
				t.Fatal(err)
			}
			_, err := client.CopyObject(t.Context(), &s3.CopyObjectInput{
				Bucket: aws.String(s3Bucket), Key: aws.String("copy"), CopySource: aws.String(s3Bucket + "/whole"),
			})
			if err != nil {
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
		})
	}
}

// The SDK's request bodies have no GetBody. An upload beyond MaxBodyBuffer is
// sent once.
func TestUploadBuffer(t *testing.T) {
	for buffer, attempts := range map[int64]int{0: 1, 4 << 20: 2} {
		t.Run(fmt.Sprint(buffer), func(t *testing.T) {
			service := &faultyService{fail: failS3}
			service.pick = failFirst(service, 1, faultServerError)
			base, addr := startFaulty(t, service, startGofakes3(t))
			log := newAttemptLog()
			tr := forFaultyService(base, log.observe)
			tr.MaxBodyBuffer = buffer
			err := s3Put(t.Context(), newS3(addr, tr, aws.NopRetryer{}), "key", s3Data(2<<20))
			if _, sent, _, _ := service.figures(); sent != attempts || (err == nil) != (attempts > 1) {
				t.Errorf("%d requests (%v), want %d", sent, err, attempts)
			}
			if refused := log.stops[awsretry.StopBody] > 0; refused != (attempts == 1) {
				t.Errorf("the attempts ended as %v", log.stops)
			}
		})
	}
}
