package clients

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
)

var sdkCredentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "ID", SecretAccessKey: "secret"}, nil
})

const sdkAttempts = 3

// sdkRetryer returns the SDK's own retryer, with short delays.
func sdkRetryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = sdkAttempts
		o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return time.Millisecond, nil })
	})
}

// forFaultyService returns a Transport as a user of a service with many faults
// sets it: with more attempts than the three of the mode, delays that suit a
// service near by, and a MaxBodyBuffer above the largest body.
func forFaultyService(base http.RoundTripper) *awsretry.Transport {
	return &awsretry.Transport{
		Base:           base,
		MaxAttempts:    10,               // if one request in ten fails, one operation in 10^10 does
		AttemptTimeout: 30 * time.Second, // a busy machine may need some of it
		Backoff:        awsretry.Exponential{Initial: 10 * time.Millisecond, Max: 200 * time.Millisecond},
		MaxBodyBuffer:  8 << 20, // for a part of 5 MiB: the SDK's bodies have no GetBody
	}
}

// A fault is what goes wrong with a request.
type fault int

const (
	faultNone        fault = iota
	faultServerError       // 500, with the service's own code
	faultBare              // 502, with the web page of a gateway
	faultThrottling        // the service's own throttling response
	faultEarly             // 500 before the request body is read, and the connection is closed
	faultReset             // the connection is reset instead of a response
	faultLost              // the service does its work, and the connection is reset instead of its response
	faultHidden            // Amazon S3 only: 200 with an error in the body
	faultKinds
)

// A faultyService is a reverse proxy in front of a real service. It makes
// requests fail, and counts them.
type faultyService struct {
	pick func(*http.Request) fault
	fail func(w http.ResponseWriter, f fault) // responds as the service does
	next http.Handler                         // nil: the reverse proxy

	mu     sync.Mutex     // guards the fields below
	count  map[string]int // requests, by operation
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
	srv.Base.DisableKeepAlives = true            // net/http itself repeats a request if an idle connection breaks
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
		s.fail(w, f)
	case faultReset:
		io.CopyN(io.Discard, r.Body, 1000)
		hangUp(w, r)
	case faultLost:
		s.next.ServeHTTP(httptest.NewRecorder(), r)
		hangUp(w, r)
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

// attempts returns how many attempts the operation of a request has made.
func (s *faultyService) attempts(r *http.Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[r.Header.Get(callHeader)]
}

// figures returns how many operations there were, and how many requests in all
// and at most for one of them.
func (s *faultyService) figures() (calls, sent, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.count {
		sent += n
		most = max(most, n)
	}
	return len(s.count), sent, most
}

// check fails unless each kind of fault occurred, and no operation was sent more
// often than is allowed.
func (s *faultyService) check(t *testing.T, allowed int, kinds ...fault) {
	t.Helper()
	calls, sent, most := s.figures()
	if most > allowed {
		t.Errorf("the service saw %d attempts of one operation, want at most %d", most, allowed)
	}
	for _, f := range kinds {
		if s.faults[f] == 0 {
			t.Errorf("no request had the fault %d", f)
		}
	}
	t.Logf("%d operations, %d requests, at most %d for one; faults %v", calls, sent, most, s.faults)
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

// A sendCount is how many requests the service saw, and whether the operation
// succeeded.
type sendCount struct {
	sent int
	ok   bool
}

// The SDK's own retryer is on. The service, which fails so many times, sees what
// it sees of the SDK alone, not the product of the attempts of both.
func TestSDKRetryerOn(t *testing.T) {
	// call puts an item through a Transport that makes two attempts, or none.
	call := func(t *testing.T, f fault, failures int, tr *awsretry.Transport) sendCount {
		service := &faultyService{fail: failDynamoDB, next: kit.Respond(200, "{}")}
		service.pick = failFirst(service, failures, f)
		base, addr := startFaulty(t, service, "")
		var rt http.RoundTripper = base
		if tr != nil {
			tr.Base, tr.MaxAttempts, tr.Backoff = base, 2, awsretry.Exponential{Initial: time.Millisecond}
			rt = tr
		}
		err := ddbPut(t.Context(), newDynamoDB(addr, rt, sdkRetryer()), 1)
		_, sent, _ := service.figures()
		return sendCount{sent, err == nil}
	}
	for name, f := range map[string]fault{"500": faultServerError, "throttling": faultThrottling, "reset": faultReset} {
		for _, failures := range []int{1, sdkAttempts} {
			t.Run(fmt.Sprintf("%s, %d times", name, failures), func(t *testing.T) {
				left := 0
				observe := func(a awsretry.Attempt) {
					// The code of a 400 is in the body, which only the limiter needs.
					if a.Stop == awsretry.StopOuterRetry || f == faultThrottling && a.Stop == awsretry.StopPermanent {
						left++
					}
				}
				want := call(t, f, failures, nil)
				if got := call(t, f, failures, &awsretry.Transport{Observe: observe}); got != want || left != failures {
					t.Errorf("%+v, and %d failures were left to the SDK; the SDK alone %+v", got, left, want)
				}
				// Two attempts in each of the SDK's three are enough.
				want = sendCount{failures + 1, true}
				if got := call(t, f, failures, &awsretry.Transport{NestedRetries: true}); got != want {
					t.Errorf("with NestedRetries %+v, want %+v", got, want)
				}
			})
		}
	}
}
