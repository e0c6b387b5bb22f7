package interop

import (
	"bytes"
	"context"
	"io"
	"log"
	"net/http"
	"sync"
	"testing"
	"time"

	"example.com/awsretry"
	"github.com/aws/aws-sdk-go-v2/aws"
)

var sdkCredentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "S3RVER", SecretAccessKey: "S3RVER"}, nil
})

const (
	retryAttempts = 10      // if one request in ten fails, one operation in 10^10 does
	retryBuffer   = 8 << 20 // for a part of 5 MiB: the SDK's bodies have no GetBody
)

// forFaultyService returns a Transport as a user of a service with many faults
// sets it: with more attempts than the three of the mode, delays that suit a
// service near by, and a MaxBodyBuffer above the largest body. The retry quota
// is the default one.
func forFaultyService(base http.RoundTripper, observe func(awsretry.Attempt)) *awsretry.Transport {
	return &awsretry.Transport{
		Base:           &wholeResponses{base, retryBuffer},
		MaxAttempts:    retryAttempts,
		AttemptTimeout: 30 * time.Second, // a busy machine may need some of it
		Backoff:        awsretry.Exponential{Initial: 10 * time.Millisecond, Max: 200 * time.Millisecond},
		MaxBodyBuffer:  retryBuffer,
		Observe:        observe,
	}
}

// newPool returns connections for the requests of many goroutines.
func newPool(t testing.TB) *http.Transport {
	pool := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(pool.CloseIdleConnections)
	return pool
}

// quiet is the log of servers and proxies whose connections break on purpose.
var quiet = log.New(io.Discard, "", 0)

// wholeResponses is a Base that reads responses to their end, up to its limit
// in bytes. So if the connection breaks in the middle of the body, RoundTrip
// returns an error, which can be retried. A Transport alone returns the
// response before its body.
type wholeResponses struct {
	base  http.RoundTripper
	limit int64
}

func (w *wholeResponses) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := w.base.RoundTrip(req)
	if err != nil || resp.ContentLength > w.limit {
		return resp, err
	}
	start, err := io.ReadAll(io.LimitReader(resp.Body, w.limit))
	if err != nil {
		resp.Body.Close()
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(start), resp.Body), resp.Body}
	return resp, nil
}

// An attemptLog counts what a Transport did.
type attemptLog struct {
	mu      sync.Mutex // guards the fields below
	classes map[awsretry.Class]int
	stops   map[awsretry.Stop]int
	retries int
}

func newAttemptLog() *attemptLog {
	return &attemptLog{classes: make(map[awsretry.Class]int), stops: make(map[awsretry.Stop]int)}
}

func (l *attemptLog) observe(a awsretry.Attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.classes[a.Class]++
	l.stops[a.Stop]++
	if a.Number > 1 {
		l.retries++
	}
}

// check fails unless something was retried, and no operation more often than
// the Transport allows. It logs the figures of the service.
func (l *attemptLog) check(t *testing.T, service *faultyService, tr *awsretry.Transport) {
	t.Helper()
	calls, sent, most, faults := service.figures()
	if most > tr.MaxAttempts {
		t.Errorf("the service saw %d attempts of one operation, want at most %d", most, tr.MaxAttempts)
	}
	if l.retries == 0 {
		t.Error("nothing was retried, so nothing was tested")
	}
	t.Logf("%d operations, %d requests, at most %d for one; %d retries%s", calls, sent, most, l.retries, faults)
}

// The SDK reports a response that breaks off in its body. With wholeResponses
// it is retried.
func TestCutResponseIsSeen(t *testing.T) {
	service := &faultyService{pick: func(*http.Request) fault { return faultCut }, fail: failS3}
	base, addr := startFaulty(t, service, startGofakes3(t))
	for _, tt := range []struct {
		name     string
		base     http.RoundTripper
		attempts int // sent for one operation
	}{
		{"the Transport alone returns the response", base, 1},
		{"with wholeResponses it is retried", &wholeResponses{base, 1 << 20}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, before, _, _ := service.figures()
			tr := retrying(tt.base)
			if _, err := newS3(addr, tr, aws.NopRetryer{}).ListBuckets(t.Context(), nil); err == nil {
				t.Error("the SDK reports no error")
			}
			if _, after, _, _ := service.figures(); after-before != tt.attempts {
				t.Errorf("%d attempts were sent, want %d", after-before, tt.attempts)
			}
		})
	}
}
