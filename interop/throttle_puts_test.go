package interop

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry/internal/httpfake"
	"github.com/aws/aws-sdk-go-v2/aws"
)

// slowDown is the body of a response with 429. The AWS SDKs know throttling by
// its code only.
const slowDown = "<Error><Code>SlowDown</Code></Error>"

// startThrottler starts a server that throttles. It passes other requests on to
// the service, and ends with the test.
type startThrottler func(t testing.TB, service string) (addr string)

// A putter sends a small object to a server, with retries.
type putter func(ctx context.Context, key string) error

// A newPutter makes a putter of a library.
type newPutter func(base http.RoundTripper, addr string) putter

const putBody = "a small object, as logs and records are"

// puttingWith returns putters that use a library for http.Client.
func puttingWith(wrap wrapper) newPutter {
	return func(base http.RoundTripper, addr string) putter {
		client := &http.Client{Transport: wrap(base, nil)}
		return func(ctx context.Context, key string) error {
			url := "http://" + addr + "/" + s3Bucket + "/" + key
			req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, bytes.NewReader([]byte(putBody)))
			if err != nil {
				return err
			}
			resp, err := client.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				return err
			}
			if resp.StatusCode != http.StatusOK {
				return fmt.Errorf("status %d", resp.StatusCode)
			}
			return nil
		}
	}
}

// puttingWithS3 returns putters that use the S3 client of the AWS SDK with a
// retryer.
func puttingWithS3(newRetryer func() aws.Retryer) newPutter {
	return func(base http.RoundTripper, addr string) putter {
		client := newS3(addr, base, newRetryer())
		return func(ctx context.Context, key string) error { return s3Put(ctx, client, key, []byte(putBody)) }
	}
}

// putFigures is what came of many PUTs.
type putFigures struct {
	begun, succeeded, attempts, arrived int
	wall, p99                           time.Duration
	cut                                 bool  // the limit ended it
	failure                             error // of one that failed
}

func (f putFigures) perCall() float64 { return float64(f.attempts) / float64(f.begun) }

const putWorkers = 50

// A putRun sends PUTs through a server that throttles.
type putRun struct {
	put               putter
	attempts, arrived atomic.Int32

	mu   sync.Mutex // guards the fields below
	took []time.Duration
	f    putFigures
}

// newPutRun starts a server and a service.
func newPutRun(t testing.TB, start startThrottler, lib newPutter) *putRun {
	r := new(putRun)
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		if body, err := io.ReadAll(req.Body); err == nil && bytes.Contains(body, []byte(putBody)) {
			r.arrived.Add(1)
		}
	}))
	t.Cleanup(service.Close)
	addr := start(t, service.URL)
	pool := newPool(t)
	r.put = lib(httpfake.Base(func(req *http.Request) (*http.Response, error) {
		r.attempts.Add(1)
		return pool.RoundTrip(req)
	}), addr)
	return r
}

// measure sends PUTs. The workers take the next one at once. After the limit,
// those under way fail, and the rest is not begun.
func (r *putRun) measure(ctx context.Context, puts int, limit time.Duration) putFigures {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(limit, cancel) // a deadline would change what the libraries do
	defer timer.Stop()
	begin := time.Now()
	inParallel(puts, putWorkers, func(n int) {
		if ctx.Err() != nil {
			return
		}
		called := time.Now()
		err := r.put(ctx, fmt.Sprint(n))
		r.ended(time.Since(called), err)
	})
	r.f.wall, r.f.cut = time.Since(begin), ctx.Err() != nil
	slices.Sort(r.took)
	r.f.begun, r.f.p99 = len(r.took), r.took[len(r.took)*99/100]
	r.f.attempts, r.f.arrived = int(r.attempts.Load()), int(r.arrived.Load())
	return r.f
}

func (r *putRun) ended(took time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took = append(r.took, took)
	if err == nil {
		r.f.succeeded++
	} else {
		r.f.failure = err
	}
}
