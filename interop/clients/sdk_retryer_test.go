package clients

import (
	"cmp"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/awssdk"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
	"github.com/aws/aws-sdk-go-v2/aws"
)

// A retryerUse is a way to give a Retryer to the SDK's clients.
type retryerUse struct {
	apply bool // by Apply; otherwise it is the Retryer of the configuration
}

var retryerUses = []retryerUse{{true}, {false}}

func (u retryerUse) String() string {
	if u.apply {
		return "applied"
	}
	return "plain"
}

// inVirtualTime runs a subtest in virtual time for each use.
func inVirtualTime(t *testing.T, test func(*testing.T, retryerUse)) {
	t.Helper()
	for _, u := range retryerUses {
		t.Run(u.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, u) })
		})
	}
}

// config returns the configuration of clients that retry by r and send to the
// service at addr through rt.
func (u retryerUse) config(r *awssdk.Retryer, addr string, rt http.RoundTripper) aws.Config {
	cfg := aws.Config{
		Region:       "us-east-1",
		Credentials:  sdkCredentials,
		BaseEndpoint: aws.String("http://" + addr),
		HTTPClient:   &http.Client{Transport: rt},
	}
	if u.apply {
		r.Apply(&cfg)
	} else {
		cfg.Retryer = func() aws.Retryer { return r }
	}
	return cfg
}

// newRetryer returns a Retryer without jitter.
func newRetryer(t testing.TB, c awssdk.Config) *awssdk.Retryer {
	t.Helper()
	if c.Backoff == nil {
		c.Backoff = awsretry.Exponential{Jitter: awsretry.NoJitter}
	}
	c.RetryAfterSpread = -1
	return kit.Must[*awssdk.Retryer](t)(awssdk.NewRetryer(c))
}

var failed = sdkStep{status: 500, code: "InternalServerError"}

// An sdkStep is what a stub responds to one request.
type sdkStep struct {
	status int    // 0: 200
	code   string // of the service's error
	header map[string]string
	body   string
}

// An sdkStub is a service in memory, as the HTTP client of an SDK client. It
// makes one step after another, and responds with 200 from then on.
type sdkStub struct {
	steps []sdkStep

	mu   sync.Mutex // guards the fields below
	sent []stubRequest
}

// A stubRequest is what a stub saw of a request.
type stubRequest struct {
	at     time.Time
	header http.Header
}

func (s *sdkStub) RoundTrip(req *http.Request) (*http.Response, error) {
	if _, err := httpfake.Receive(req); err != nil {
		return nil, err
	}
	var step sdkStep
	s.mu.Lock()
	s.sent = append(s.sent, stubRequest{time.Now(), req.Header.Clone()})
	if n := len(s.sent); n <= len(s.steps) {
		step = s.steps[n-1]
	}
	s.mu.Unlock()
	text := step.body
	if step.code != "" {
		text = `{"__type":"com.amazonaws.service#` + step.code + `","message":"a fault of the test"}`
	} else if text == "" && req.Header.Get("X-Amz-Target") != "" {
		text = "{}"
	}
	resp := httpfake.Response(req, cmp.Or(step.status, 200), io.NopCloser(strings.NewReader(text)))
	resp.Header.Set("Content-Type", req.Header.Get("Content-Type"))
	for name, value := range step.header {
		resp.Header.Set(name, value)
	}
	return resp, nil
}

// headers returns the named header of each request.
func (s *sdkStub) headers(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var values []string
	for _, r := range s.sent {
		values = append(values, r.header.Get(name))
	}
	return values
}

// latest returns the name of the partition that was used last of those that
// begin with the service and the region.
func latest(r *awssdk.Retryer, partition string) string {
	for name := range r.Partitions() {
		if strings.HasPrefix(name, partition) {
			return name
		}
	}
	return partition
}

// wantTokens fails unless the partition that was used last of those that begin so
// has so many retry tokens.
func wantTokens(t testing.TB, r *awssdk.Retryer, partition string, want int) {
	t.Helper()
	state, ok := r.State(latest(r, partition))
	if !ok || state.Tokens != want {
		t.Errorf("partition %q has %d tokens (%v), want %d", partition, state.Tokens, ok, want)
	}
}
