package interop

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"example.com/awsretry"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

var sdkCredentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "S3RVER", SecretAccessKey: "S3RVER"}, nil
})

// newDynamoDB makes an SDK client for the service at addr.
func newDynamoDB(addr string, rt http.RoundTripper, retryer aws.Retryer) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region:       "us-east-1",
		Credentials:  sdkCredentials,
		BaseEndpoint: aws.String("http://" + addr),
		HTTPClient:   &http.Client{Transport: rt},
		Retryer:      retryer,
	})
}

// newS3 makes an SDK client for the service at addr.
func newS3(addr string, rt http.RoundTripper, retryer aws.Retryer) *s3.Client {
	return s3.New(s3.Options{
		Region:       "us-east-1",
		Credentials:  sdkCredentials,
		BaseEndpoint: aws.String("http://" + addr),
		UsePathStyle: true,
		HTTPClient:   &http.Client{Transport: rt},
		Retryer:      retryer,
		// s3rver knows nothing of the newer checksums; what is read back is compared byte for byte.
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
	})
}

const (
	retryAttempts = 10      // where one request in ten fails, one operation in 10^10 is lost
	retryBuffer   = 8 << 20 // the SDK's bodies have no GetBody, so a part of 5 MiB is to be kept
)

// newRetrying is a Transport as a user of a service with many faults sets it: more attempts than the three of the mode,
// pauses that suit a service near by, and for uploads a MaxBodyBuffer above the largest body. The retry quota is the default one.
func newRetrying(base http.RoundTripper, observe func(awsretry.Attempt)) *awsretry.Transport {
	return &awsretry.Transport{
		Base:           &wholeAnswers{base, retryBuffer},
		MaxAttempts:    retryAttempts,
		AttemptTimeout: 10 * time.Second,
		Backoff:        awsretry.Exponential{Initial: 10 * time.Millisecond, Max: 200 * time.Millisecond},
		MaxBodyBuffer:  retryBuffer,
		Observe:        observe,
	}
}

// wholeAnswers is a Base that reads answers up to its limit, in bytes, to their end, so that one whose connection breaks in the
// middle of the body is an error of RoundTrip, where it can be retried. A Transport itself gives the answer to its caller
// before the body, and what breaks then is the caller's to see.
type wholeAnswers struct {
	base  http.RoundTripper
	limit int64
}

func (w *wholeAnswers) RoundTrip(req *http.Request) (*http.Response, error) {
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

// inParallel calls do for 0 to n-1, and returns when all calls have.
func inParallel(n, workers int, do func(int)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
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

// TestCutAnswerIsSeen shows why wholeAnswers is there: an answer that breaks off in its body is no silent success.
func TestCutAnswerIsSeen(t *testing.T) {
	service := &faultyService{pick: func(*http.Request) fault { return faultCut }, answer: answerXML}
	addr := startFaulty(t, service, startGofakes3(t))
	for _, test := range []struct {
		name     string
		base     http.RoundTripper
		attempts int // sent for one operation
	}{
		{"the Transport alone gives the answer to its caller", newBase(t), 1},
		{"with wholeAnswers below, it is retried", &wholeAnswers{newBase(t), 1 << 20}, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, before, _, _ := service.figures()
			transport := &awsretry.Transport{Base: test.base, Backoff: awsretry.Exponential{Initial: time.Millisecond}}
			if _, err := newS3(addr, transport, aws.NopRetryer{}).ListBuckets(t.Context(), nil); err == nil {
				t.Error("an answer that was cut off is no error")
			}
			if _, after, _, _ := service.figures(); after-before != test.attempts {
				t.Errorf("%d attempts were sent, want %d", after-before, test.attempts)
			}
		})
	}
}
