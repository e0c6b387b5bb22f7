package clients

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"
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

// wholeResponses is a Base that reads responses to their end, up to its limit
// in bytes. If the connection breaks in the middle of the body, RoundTrip
// returns an error, which can be retried.
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
	stops   map[awsretry.Stop]int
	retries int
}

func newAttemptLog() *attemptLog {
	return &attemptLog{stops: make(map[awsretry.Stop]int)}
}

func (l *attemptLog) observe(a awsretry.Attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
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

// A fault is what goes wrong with a request.
type fault int

const (
	faultNone        fault = iota
	faultServerError       // 500, with the service's own code
	faultUnavailable       // 503, with the service's own code
	faultBare              // 502, with the web page of a gateway
	faultThrottling        // the service's own throttling response
	faultEarly             // 503 before the request body is read, and the connection is closed
	faultReset             // the connection is reset instead of a response
	faultLost              // the service does its work, and the connection is reset instead of its response
	faultCut               // the service does its work, and its response ends in the middle of the body
	faultHidden            // Amazon S3 only: 200 with an error in the body
	faultKinds
)

var faultNames = [...]string{
	"none", "500", "503", "502 page", "throttling", "early 503", "reset", "lost response", "cut response",
	"200 with error",
}

func (f fault) String() string { return faultNames[f] }

// A faultyService is a reverse proxy in front of a real service. It makes
// requests fail, and counts them.
type faultyService struct {
	pick func(*http.Request) fault
	fail func(w http.ResponseWriter, f fault) // responds as the service does
	next http.Handler                         // nil: the reverse proxy

	mu     sync.Mutex // guards the fields below
	count  map[string]int
	faults [faultKinds]int
}

// startFaulty starts a faultyService in front of the service at backend. It
// returns a client's connections to it and its address.
func startFaulty(t *testing.T, s *faultyService, backend string) (base *http.Transport, addr string) {
	t.Helper()
	s.count = make(map[string]int)
	srv := httpfake.ServeTCP(t, "HTTP/1.1", s.serve)
	srv.Base.MaxIdleConnsPerHost = 64
	srv.Base.ExpectContinueTimeout = time.Second // as http.DefaultTransport
	if s.next == nil {
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: backend})
		pool := kit.Pool(t)
		pool.DisableCompression = true
		proxy.Transport, proxy.ErrorLog = pool, kit.Quiet
		s.next = proxy
	}
	return srv.Base, kit.HostOf(t, srv.URL)
}

// callHeader names the operation that an attempt belongs to. The AWS SDKs set
// it.
const callHeader = "Amz-Sdk-Invocation-Id"

func (s *faultyService) serve(w http.ResponseWriter, r *http.Request) {
	f := s.pick(r)
	s.mu.Lock()
	s.count[r.Header.Get(callHeader)]++
	s.faults[f]++
	s.mu.Unlock()
	switch f {
	case faultNone:
		s.next.ServeHTTP(w, r)
	case faultEarly:
		w.Header().Set("Connection", "close")
		s.fail(w, faultUnavailable)
	case faultReset:
		io.CopyN(io.Discard, r.Body, 1000)
		kit.HangUp(w, nil)
	case faultLost:
		s.next.ServeHTTP(httptest.NewRecorder(), r)
		kit.HangUp(w, nil)
	case faultCut:
		rec := httptest.NewRecorder()
		s.next.ServeHTTP(rec, r)
		cutResponse(w, rec)
	case faultBare:
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadGateway)
		io.WriteString(w, "<html><body>Bad Gateway</body></html>")
	default:
		io.Copy(io.Discard, r.Body)
		s.fail(w, f)
	}
}

// cutResponse sends a response up to the middle of its body. A response without
// a body is not sent at all.
func cutResponse(w http.ResponseWriter, rec *httptest.ResponseRecorder) {
	body := rec.Body.Bytes()
	if len(body) < 2 {
		kit.HangUp(w, nil)
		return
	}
	for name, values := range rec.Header() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(rec.Code)
	w.Write(body[:len(body)/2])
	http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// attempts returns how many attempts the operation of a request has made.
func (s *faultyService) attempts(r *http.Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[r.Header.Get(callHeader)]
}

// figures returns how many operations there were, how many requests in all and
// at most for one of them, and the faults.
func (s *faultyService) figures() (calls, sent, most int, faults string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.count {
		sent += n
		most = max(most, n)
	}
	for f, n := range s.faults {
		if n > 0 && fault(f) != faultNone {
			faults += fmt.Sprintf(", %s %d", fault(f), n)
		}
	}
	return len(s.count), sent, most, faults
}

// wantFaults fails unless each kind of fault occurred.
func (s *faultyService) wantFaults(t *testing.T, kinds ...fault) {
	t.Helper()
	for _, f := range kinds {
		if s.faults[f] == 0 {
			t.Errorf("no request had the fault %q", f)
		}
	}
}

// failFirst makes the first n requests of each operation fail.
func failFirst(s *faultyService, n int, f fault) func(*http.Request) fault {
	return func(r *http.Request) fault {
		if s.attempts(r) < n {
			return f
		}
		return faultNone
	}
}

// randomFaults picks one of the kinds for a share of the requests. It picks the
// same ones in the same order each time.
func randomFaults(share float64, kinds ...fault) func(*http.Request) fault {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(1, 2)) // guarded by mu
	return func(*http.Request) fault {
		mu.Lock()
		defer mu.Unlock()
		if random.Float64() >= share {
			return faultNone
		}
		return kinds[random.IntN(len(kinds))]
	}
}

const sdkAttempts = 3

// sdkRetryer returns the SDK's own retryer, with short delays.
func sdkRetryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = sdkAttempts
		o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return time.Millisecond, nil })
	})
}

// An sdkCall is one operation of an SDK client.
type sdkCall struct {
	name string
	fail func(http.ResponseWriter, fault)
	body string // of a success
	do   func(t *testing.T, addr string, rt http.RoundTripper) error
}

var sdkCalls = []sdkCall{
	{"DynamoDB", failDynamoDB, "{}", func(t *testing.T, addr string, rt http.RoundTripper) error {
		return ddbPut(t.Context(), newDynamoDB(addr, rt, sdkRetryer()), 1)
	}},
	{"S3", failS3, "<ListAllMyBucketsResult/>", func(t *testing.T, addr string, rt http.RoundTripper) error {
		_, err := newS3(addr, rt, sdkRetryer()).ListBuckets(t.Context(), &s3.ListBucketsInput{})
		return err
	}},
}

// A sendCount is how many requests the service saw, and whether the operation
// succeeded.
type sendCount struct {
	sent int
	ok   bool
}

// run makes the call. The service fails so many times.
func (c sdkCall) run(t *testing.T, f fault, failures int, wrap func(http.RoundTripper) http.RoundTripper) sendCount {
	service := &faultyService{fail: c.fail, next: kit.Respond(200, c.body)}
	service.pick = failFirst(service, failures, f)
	base, addr := startFaulty(t, service, "")
	base.DisableKeepAlives = true // net/http itself repeats a request if an idle connection breaks
	err := c.do(t, addr, wrap(base))
	_, sent, _, _ := service.figures()
	return sendCount{sent, err == nil}
}

// The SDK's own retryer is on. The service sees what it sees of the SDK alone,
// not the product of the attempts of both.
func TestSDKRetryerOn(t *testing.T) {
	alone := func(rt http.RoundTripper) http.RoundTripper { return rt }
	nested := func(rt http.RoundTripper) http.RoundTripper {
		tr := forFaultyService(rt, nil)
		tr.MaxAttempts, tr.NestedRetries = 2, true
		return tr
	}
	for _, call := range sdkCalls {
		for _, f := range []fault{faultServerError, faultThrottling, faultReset} {
			for _, failures := range []int{1, sdkAttempts} {
				t.Run(fmt.Sprintf("%s/%v %d times", call.name, f, failures), func(t *testing.T) {
					want := call.run(t, f, failures, alone)
					for _, mode := range []awsretry.Mode{awsretry.Standard, awsretry.Adaptive} {
						log := newAttemptLog()
						both := func(rt http.RoundTripper) http.RoundTripper {
							tr := forFaultyService(rt, log.observe)
							tr.Mode, tr.MaxAttempts, tr.RateLimit.MinFillRate = mode, 2, 1000
							return tr
						}
						if got := call.run(t, f, failures, both); got != want {
							t.Errorf("with the %s Transport below %+v, the SDK alone %+v", mode, got, want)
						}
						left := awsretry.StopOuterRetry
						if call.name == "DynamoDB" && f == faultThrottling && mode == awsretry.Standard {
							left = awsretry.StopPermanent // a 400 whose code is in the body, which only the limiter needs
						}
						if want := min(failures, sdkAttempts); log.stops[left] != want {
							t.Errorf("%s: %d failures were left to the SDK, want %d", mode, log.stops[left], want)
						}
					}
					// Two attempts in each of the SDK's three are enough.
					want = sendCount{failures + 1, true}
					if got := call.run(t, f, failures, nested); got != want {
						t.Errorf("with NestedRetries %+v, want %+v", got, want)
					}
				})
			}
		}
	}
}
