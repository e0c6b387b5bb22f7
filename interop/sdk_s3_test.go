package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"

	"example.com/awsretry"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// s3Backends are the servers that the S3 tests run against.
var s3Backends = map[string]func(testing.TB) string{"s3rver": startS3rver, "gofakes3": startGofakes3}

// s3Data is an object's content: random, and the same each time.
func s3Data(size int) []byte {
	data := make([]byte, size)
	rand.NewChaCha8([32]byte{byte(size), byte(size >> 8)}).Read(data)
	return data
}

func s3Put(ctx context.Context, client *s3.Client, key string, data []byte) error {
	_, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String(s3Bucket), Key: &key, Body: bytes.NewReader(data)})
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
		return fmt.Errorf("%d bytes were read back, and differ from the %d that were written", len(got), len(want))
	}
	return nil
}

const s3PartSize = 5 << 20

// s3PutParts uploads data in parts, four at a time.
func s3PutParts(ctx context.Context, client *s3.Client, key string, data []byte) error {
	upload, err := client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: aws.String(s3Bucket), Key: &key})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	parts := slices.Collect(slices.Chunk(data, s3PartSize))
	done := make([]types.CompletedPart, len(parts))
	failed := make([]error, len(parts))
	inParallel(len(parts), 4, func(i int) {
		number := aws.Int32(int32(i + 1))
		out, err := client.UploadPart(ctx, &s3.UploadPartInput{Bucket: aws.String(s3Bucket), Key: &key,
			UploadId: upload.UploadId, PartNumber: number, Body: bytes.NewReader(parts[i])})
		if err != nil {
			failed[i] = fmt.Errorf("part %d: %w", i+1, err)
			return
		}
		done[i] = types.CompletedPart{ETag: out.ETag, PartNumber: number}
	})
	if err := errors.Join(failed...); err != nil {
		return err
	}
	_, err = client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: aws.String(s3Bucket), Key: &key,
		UploadId: upload.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: done}})
	if err != nil {
		return fmt.Errorf("complete: %w", err)
	}
	return nil
}

// s3GetParts reads an object back in ranges, four at a time.
func s3GetParts(ctx context.Context, client *s3.Client, key string, want []byte) error {
	failed := make([]error, (len(want)+s3PartSize-1)/s3PartSize)
	inParallel(len(failed), 4, func(i int) {
		from := i * s3PartSize
		to := min(from+s3PartSize, len(want))
		out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(s3Bucket), Key: &key,
			Range: aws.String(fmt.Sprintf("bytes=%d-%d", from, to-1))})
		if err == nil {
			err = s3Compare(out.Body, want[from:to])
		}
		if err != nil {
			failed[i] = fmt.Errorf("range from %d: %w", from, err)
		}
	})
	return errors.Join(failed...)
}

// s3Faults lets four requests in ten fail. The end of a multipart upload fails only before the service did it: a service that
// has done it answers NoSuchUpload to the retry, whoever retries.
func s3Faults() func(*http.Request) fault {
	before := randomFaults(0.4, faultHidden, faultServerError, faultUnavailable, faultThrottling, faultReset)
	any := randomFaults(0.4, faultServerError, faultUnavailable, faultBare, faultThrottling, faultEarly, faultReset, faultLost, faultCut)
	return func(r *http.Request) fault {
		if r.Method == http.MethodPost && r.URL.Query().Has("uploadId") {
			return before(r)
		}
		return any(r)
	}
}

// TestS3 writes objects of every size that is special and reads them back, while four requests in ten fail. Settings beside
// newRetrying's: 20 attempts, for with ten one operation in 10^4 would be lost; and no quota, since a service that fails
// this often for long is what the quota is there to spare.
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
		{"1 MiB and a byte", 1<<20 + 1, 3, s3Put, s3Get},
		{"5 MiB", 5 << 20, 3, s3Put, s3Get},
		{"20 MiB in parts", 20 << 20, 1, s3PutParts, s3GetParts},
	}
	for name, start := range s3Backends {
		t.Run(name, func(t *testing.T) {
			service := &faultyService{pick: s3Faults(), answer: answerXML}
			addr := startFaulty(t, service, start(t))
			log := newAttemptLog()
			transport := newRetrying(newBase(t), log.observe)
			transport.MaxAttempts, transport.Quota.Capacity = 20, -1
			client := newS3(addr, transport, aws.NopRetryer{})
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
			calls, sent, most, faults := service.figures()
			if most > transport.MaxAttempts {
				t.Errorf("%d attempts of one operation reached the server, want at most %d", most, transport.MaxAttempts)
			}
			if log.retries == 0 {
				t.Error("nothing was retried, so nothing was tested")
			}
			t.Logf("%d operations, %d requests, at most %d for one; %d retries%s", calls, sent, most, log.retries, faults)
		})
	}
}

// TestS3HiddenErrors has S3 answer 200 with an error in the body, as it does where the outcome comes after the headers.
func TestS3HiddenErrors(t *testing.T) {
	for name, start := range s3Backends {
		t.Run(name, func(t *testing.T) {
			service := &faultyService{answer: answerXML}
			service.pick = func(r *http.Request) fault {
				service.mu.Lock()
				defer service.mu.Unlock()
				mayHide := r.Header.Get("X-Amz-Copy-Source") != "" || r.Method == http.MethodPost && r.URL.Query().Has("uploadId")
				if mayHide && service.count[r.Header.Get(callHeader)] < 2 {
					return faultHidden
				}
				return faultNone
			}
			addr := startFaulty(t, service, start(t))
			client := newS3(addr, newRetrying(newBase(t), nil), aws.NopRetryer{})
			data := s3Data(6 << 20)
			if err := s3PutParts(t.Context(), client, "whole", data); err != nil {
				t.Fatal(err)
			}
			_, err := client.CopyObject(t.Context(), &s3.CopyObjectInput{Bucket: aws.String(s3Bucket), Key: aws.String("copy"),
				CopySource: aws.String(s3Bucket + "/whole")})
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

// TestUploadBuffer shows what MaxBodyBuffer is for below the SDK, whose request bodies have no GetBody: an upload beyond it is
// sent once.
func TestUploadBuffer(t *testing.T) {
	for buffer, attempts := range map[int64]int{0: 1, 4 << 20: 2} {
		service := &faultyService{answer: answerXML}
		service.pick = failFirst(service, 1, faultServerError)
		addr := startFaulty(t, service, startGofakes3(t))
		log := newAttemptLog()
		transport := newRetrying(newBase(t), log.observe)
		transport.MaxBodyBuffer = buffer
		err := s3Put(t.Context(), newS3(addr, transport, aws.NopRetryer{}), "key", s3Data(2<<20))
		if _, sent, _, _ := service.figures(); sent != attempts || (err == nil) != (attempts > 1) {
			t.Errorf("MaxBodyBuffer %d: %d requests (%v), want %d", buffer, sent, err, attempts)
		}
		if refused := log.stops[awsretry.StopBody] > 0; refused != (attempts == 1) {
			t.Errorf("MaxBodyBuffer %d: the attempts ended as %v", buffer, log.stops)
		}
	}
}
