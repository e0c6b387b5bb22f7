package delivery

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.com/awsretry"
)

// An endpoint answers with one status after the other, the last one for ever,
// and notes when it was asked.
type endpoint struct {
	statuses []int // 0: no connection
	header   http.Header
	bodies   []*countedBody // of the answers

	mu    sync.Mutex
	start time.Time
	asked []time.Duration
	got   []sent
}

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}

func (e *endpoint) RoundTrip(req *http.Request) (*http.Response, error) {
	got, err := receive(req)
	e.mu.Lock()
	defer e.mu.Unlock()
	status := e.statuses[min(len(e.asked), len(e.statuses)-1)]
	e.asked = append(e.asked, time.Since(e.start))
	e.got = append(e.got, got)
	if err != nil {
		return nil, err
	}
	if status == 0 {
		return nil, errRefused
	}
	resp := answerWith(status, req)
	maps.Copy(resp.Header, e.header)
	body := &countedBody{Reader: strings.NewReader("the answer")}
	e.bodies = append(e.bodies, body)
	resp.Body = body
	return resp, nil
}

func answering(statuses ...int) *endpoint { return &endpoint{statuses: statuses, start: time.Now()} }

func testPolicy(t *testing.T, retry string) *Policy {
	return parse(t, `{"healthyRetryPolicy":{`+retry+`}}`)
}

// send delivers a request and closes the answer.
func send(t *testing.T, tr *Transport, req *http.Request) (status int, err error) {
	t.Helper()
	resp, err := tr.RoundTrip(req)
	if (resp == nil) == (err == nil) {
		t.Fatalf("got %v and %v", resp, err)
	}
	if err != nil {
		return 0, err
	}
	if body, err := io.ReadAll(resp.Body); string(body) != "the answer" || err != nil {
		t.Errorf("the answer's body is %q, %v", body, err)
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}

func TestDeliveriesFollowThePolicy(t *testing.T) {
	for name, policy := range map[string]*Policy{
		"nil":              nil,
		"all phases":       testPolicy(t, `"minDelayTarget":2,"maxDelayTarget":30,"numRetries":9,"numNoDelayRetries":1,"numMinDelayRetries":2,"numMaxDelayRetries":2,"backoffFunction":"geometric"`),
		"no retries":       testPolicy(t, `"numRetries":0`),
		"customer-managed": CustomerManaged(),
		"AWS-managed":      AWSManaged(),
	} {
		t.Run(name, func(t *testing.T) {
			if name == "AWS-managed" && testing.Short() {
				t.Skip("100,016 attempts")
			}
			synctest.Test(t, func(t *testing.T) {
				end := answering(503)
				tr := &Transport{Policy: policy, Base: end, Jitter: awsretry.NoJitter}
				if status, err := send(t, tr, post(t, "http://a.example/", "hello")); status != 503 || err != nil {
					t.Errorf("got %d, %v", status, err)
				}
				want, at := []time.Duration{0}, time.Duration(0)
				for d := range policy.Delays() {
					at += d
					want = append(want, at)
				}
				if !slices.Equal(want, end.asked) {
					t.Errorf("asked %d times, %v…; want %d, %v…", len(end.asked), end.asked[:min(len(end.asked), 20)], len(want), want[:min(len(want), 20)])
				}
				for _, got := range end.got {
					if got.Body != "hello" {
						t.Fatalf("an attempt sent %q", got.Body)
					}
				}
				for n, body := range end.bodies {
					if body.closed.Load() != 1 {
						t.Fatalf("answer %d was closed %d times", n, body.closed.Load())
					}
				}
			})
		})
	}
}

func TestWhatIsRetried(t *testing.T) {
	statuses := map[int]bool{200: false, 201: false, 204: false, 299: false, 300: false, 302: false, 304: false, 400: false,
		401: false, 403: false, 404: false, 408: false, 410: false, 413: false, 429: true, 499: false, 500: true, 501: true, 502: true,
		503: true, 504: true, 505: true, 509: true, 529: true, 599: true, 600: false, 999: false}
	for status, retried := range statuses {
		synctest.Test(t, func(t *testing.T) {
			end := answering(status, 200)
			send(t, &Transport{Base: end}, post(t, "http://a.example/", "x"))
			if again := len(end.asked) > 1; again != retried {
				t.Errorf("%d: retried is %v, want %v", status, again, retried)
			}
		})
	}
	timeout := &net.OpError{Op: "read", Err: context.DeadlineExceeded}
	for name, test := range map[string]struct {
		err     error
		retried bool
	}{
		"no connection":                    {errRefused, true},
		"reset":                            {&net.OpError{Op: "read", Err: errors.New("connection reset by peer")}, true},
		"EOF":                              {io.ErrUnexpectedEOF, true},
		"time-out":                         {timeout, true},
		"no such name":                     {&net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}, true},
		"no such name, alone":              {&net.DNSError{IsNotFound: true}, true},
		"certificate":                      {&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, true},
		"no TLS":                           {tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, true},
		"alert":                            {&net.OpError{Op: "remote error", Err: tls.AlertError(40)}, true},
		"a version of TLS that is too old": {fmt.Errorf("handshake: %w", errors.New("tls: server selected unsupported protocol version 301")), true},
		"HTTP on the port for HTTPS":       {http.ErrSchemeMismatch, true},
		"a scheme of no use":               {errors.New("unsupported protocol scheme \"gopher\""), false},
		"a header of no use":               {errors.New("net/http: invalid header field name"), false},
		"a body of wrong size":             {errors.New("http: ContentLength=5 with Body length 4"), false},
		"the body's own reader":            {nil, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			base := roundTripper(func(req *http.Request) (*http.Response, error) {
				calls++
				if _, err := receive(req); err != nil {
					return nil, err
				}
				return nil, test.err
			})
			req := post(t, "http://a.example/", "x")
			if test.err == nil {
				test.err = errors.New("disk error")
				req.Body, req.GetBody = io.NopCloser(io.MultiReader(strings.NewReader("x"), failing{test.err})), nil
			}
			_, err := (&Transport{Base: base}).RoundTrip(req)
			if again := calls > 1; again != test.retried {
				t.Errorf("%s: retried is %v, want %v", name, again, test.retried)
			}
			if !errors.Is(err, test.err) {
				t.Errorf("%s: got %v", name, err)
			}
		})
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestAttemptsEndAfter15Seconds(t *testing.T) {
	for _, test := range []struct{ set, each time.Duration }{{0, 15 * time.Second}, {time.Second, time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			tr := &Transport{Jitter: awsretry.NoJitter, AttemptTimeout: test.set, Base: roundTripper(func(req *http.Request) (*http.Response, error) {
				<-req.Context().Done()
				return nil, context.Cause(req.Context())
			})}
			_, err := tr.RoundTrip(post(t, "http://a.example/", "x"))
			var e *awsretry.Error
			if !errors.As(err, &e) || !e.Timeout() || e.Attempts != 4 || e.Stop != awsretry.StopMaxAttempts {
				t.Errorf("got %v", err)
			}
			if took := time.Since(start); took != 4*test.each+60*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestContentTypeSent(t *testing.T) {
	named := &Policy{RequestPolicy: &RequestPolicy{HeaderContentType: "application/json"}}
	for _, test := range []struct {
		name   string
		policy *Policy
		header http.Header
		want   string
	}{
		{"none anywhere", nil, http.Header{}, "text/plain; charset=UTF-8"},
		{"no header at all", nil, nil, "text/plain; charset=UTF-8"},
		{"an empty one", nil, http.Header{"Content-Type": {""}}, "text/plain; charset=UTF-8"},
		{"an empty block", &Policy{RequestPolicy: &RequestPolicy{}}, nil, "text/plain; charset=UTF-8"},
		{"the request's", nil, http.Header{"Content-Type": {"image/png"}}, "image/png"},
		{"the policy's", named, nil, "application/json"},
		{"the policy's before the request's", named, http.Header{"Content-Type": {"image/png", "text/css"}}, "application/json"},
	} {
		synctest.Test(t, func(t *testing.T) {
			end := answering(503, 404)
			var dead DeadLetter
			tr := &Transport{Policy: test.policy, Base: end, DeadLetter: func(_ context.Context, d DeadLetter) error { dead = d; return nil }}
			req := post(t, "http://a.example/", "x")
			req.Header = test.header
			before := test.header.Clone()
			send(t, tr, req)
			if diff := cmp.Diff(before, req.Header); diff != "" {
				t.Errorf("%s: the caller's header changed:\n%s", test.name, diff)
			}
			headers := []http.Header{dead.Request.Header}
			for _, got := range end.got {
				headers = append(headers, got.Header)
			}
			for _, header := range headers {
				if diff := cmp.Diff([]string{test.want}, header["Content-Type"]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", test.name, diff)
				}
			}
			if len(headers) != 3 {
				t.Errorf("%s: %d attempts", test.name, len(end.got))
			}
		})
	}
}

func TestJitter(t *testing.T) {
	policy := testPolicy(t, `"minDelayTarget":10,"maxDelayTarget":10,"numRetries":100`)
	run := func(jitter awsretry.Jitter) (pauses []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			end := answering(503)
			send(t, &Transport{Policy: policy, Base: end, Jitter: jitter}, post(t, "http://a.example/", "x"))
			for n := 1; n < len(end.asked); n++ {
				pauses = append(pauses, end.asked[n]-end.asked[n-1])
			}
		})
		return pauses
	}
	spread := run(nil)
	if lo, hi := slices.Min(spread), slices.Max(spread); lo < 10*time.Second || lo > 10300*time.Millisecond || hi < 10700*time.Millisecond || hi > 11*time.Second {
		t.Errorf("the default's pauses are %v to %v, want 10 s, which is minDelayTarget, to 11 s", lo, hi)
	}
	for name, test := range map[string]struct {
		jitter awsretry.Jitter
		want   time.Duration
	}{
		"half":      {func(d time.Duration) time.Duration { return d / 2 }, 5 * time.Second},
		"negative":  {func(d time.Duration) time.Duration { return -d }, 0},
		"too large": {func(d time.Duration) time.Duration { return 5 * d }, 10 * time.Second},
	} {
		if pauses := run(test.jitter); len(pauses) != 100 || slices.Min(pauses) != test.want || slices.Max(pauses) != test.want {
			t.Errorf("%s: %v", name, pauses)
		}
	}
}

// Neither the answer's Retry-After nor an outer loop's header changes what the
// policy says.
func TestThePolicyAloneDecides(t *testing.T) {
	for _, status := range []int{429, 503} {
		synctest.Test(t, func(t *testing.T) {
			end := answering(status)
			end.header = http.Header{"Retry-After": {"3600"}}
			req := post(t, "http://a.example/", "x")
			req.Header.Set("Amz-Sdk-Request", "attempt=1; max=3")
			send(t, &Transport{Base: end, Jitter: awsretry.NoJitter}, req)
			if diff := cmp.Diff([]time.Duration{0, 20 * time.Second, 40 * time.Second, 60 * time.Second}, end.asked); diff != "" {
				t.Errorf("%d (-want +got):\n%s", status, diff)
			}
		})
	}
}

// Failures of many deliveries do not use up the retries of the next.
func TestNoQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := answering(0)
		tr := &Transport{Base: end}
		for range 300 {
			tr.RoundTrip(post(t, "http://a.example/", "x"))
		}
		if len(end.asked) != 300*4 {
			t.Errorf("%d attempts, want 1200", len(end.asked))
		}
	})
}

func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		tr := &Transport{Base: answering(500, 429, 404), Jitter: awsretry.NoJitter, Observe: func(a awsretry.Attempt) {
			got = append(got, a.Class.String()+" "+a.Delay.String()+" "+string(a.Stop))
		}}
		send(t, tr, post(t, "http://a.example/", "x"))
		if diff := cmp.Diff([]string{"transient 20s ", "throttled 20s ", "permanent 0s permanent"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestSenselessTransports(t *testing.T) {
	for name, test := range map[string]struct {
		tr   *Transport
		want []string
	}{
		"policy":        {&Transport{Policy: &Policy{HealthyRetryPolicy: &RetryPolicy{NumRetries: ptr(101)}}}, []string{"Transport.Policy", "numRetries is 101", "0 to 100"}},
		"content type":  {&Transport{Policy: &Policy{RequestPolicy: &RequestPolicy{HeaderContentType: "image/png"}}}, []string{"headerContentType", "image/png"}},
		"time-out":      {&Transport{AttemptTimeout: -1}, []string{"Transport.AttemptTimeout is -1ns", "15s"}},
		"retries twice": {&Transport{Base: &awsretry.Transport{}}, []string{"Base", "awsretry.Transport"}},
		"itself":        {&Transport{Base: &Transport{}}, []string{"Base", "delivery.Transport"}},
		"around itself": {&Transport{Base: &idler{RoundTripper: &Transport{}}}, []string{"Base", "delivery.Transport"}},
		"a nil Base":    {&Transport{Base: (*http.Transport)(nil)}, []string{"Base", "nil *http.Transport"}},
	} {
		body := &countedBody{Reader: strings.NewReader("x")}
		req := post(t, "http://a.example/", "x")
		req.Body = body
		resp, err := test.tr.RoundTrip(req)
		if resp != nil || body.closed.Load() != 1 {
			t.Errorf("%s: got %v, the body closed %d times", name, resp, body.closed.Load())
		}
		for _, err := range []error{err, test.tr.Validate()} {
			if text := fmt.Sprint(err); strings.Count(text, "delivery: ") != 1 || strings.Contains(text, "awsretry: ") {
				t.Errorf("%s: got %q, want a single package's name in it", name, text)
			}
			for _, want := range test.want {
				if err == nil || !strings.HasPrefix(err.Error(), "delivery: Transport") || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: got %v, want %q in it", name, err, want)
				}
			}
		}
	}
	for name, tr := range map[string]*Transport{"zero": {}, "raw": {Policy: &Policy{RequestPolicy: &RequestPolicy{HeaderContentType: "text/css"}}}} {
		if err := tr.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Retries of deliveries would make several dead letters of one.
func TestRetriesOfDeliveriesAreRefused(t *testing.T) {
	letters := 0
	inner := &Transport{Base: answering(503), DeadLetter: func(context.Context, DeadLetter) error { letters++; return nil }}
	for _, base := range []http.RoundTripper{inner, &idler{RoundTripper: inner}, struct{ http.RoundTripper }{inner}} {
		synctest.Test(t, func(t *testing.T) {
			resp, err := (&awsretry.Transport{Base: base}).RoundTrip(post(t, "http://a.example/", "x"))
			if resp != nil || err == nil || !strings.Contains(err.Error(), "Transport.Base is, or sends through, another awsretry.Transport or a delivery.Transport") || letters > 0 {
				t.Errorf("%T: got %v, %v, and %d dead letters", base, resp, err, letters)
			}
		})
	}
}

type idler struct {
	http.RoundTripper
	closed int
}

func (i *idler) CloseIdleConnections() { i.closed++ }

func TestCloseIdleConnections(t *testing.T) {
	base := &idler{}
	(&Transport{Base: base}).CloseIdleConnections()
	if base.closed != 1 {
		t.Errorf("reached Base %d times", base.closed)
	}
	for _, senseless := range []*Transport{{AttemptTimeout: -1}, {Base: (*http.Transport)(nil)}} {
		senseless.CloseIdleConnections() // must not panic
	}
}

// The fields are read at the first request, and not before.
func TestCloseIdleConnectionsReadsNoFields(t *testing.T) {
	tr, end, base := &Transport{Policy: testPolicy(t, `"numRetries":0`)}, answering(200), &idler{}
	tr.CloseIdleConnections()
	tr.Base, base.RoundTripper = base, end
	if status, err := send(t, tr, post(t, "http://127.0.0.1:1/", "x")); status != 200 || err != nil || len(end.asked) != 1 {
		t.Errorf("got %d, %v; Base was asked %d times", status, err, len(end.asked))
	}
	if tr.CloseIdleConnections(); base.closed != 1 {
		t.Errorf("reached Base %d times after a request", base.closed)
	}
}

func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := answering(503)
		tr := &Transport{Base: end, DeadLetter: func(_ context.Context, d DeadLetter) error {
			_, err := receive(d.Request)
			return err
		}}
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { send(t, tr, post(t, "http://a.example/", "x")) })
		}
		wg.Wait()
		if len(end.asked) != 200 {
			t.Errorf("%d attempts", len(end.asked))
		}
	})
}
