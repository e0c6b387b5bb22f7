package awsretry_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
)

func TestDefaultPolicy(t *testing.T) {
	for _, tt := range []struct {
		want     awsretry.Class
		statuses []int
		codes    []string
	}{
		{awsretry.Success, []int{101, 200, 204, 304}, []string{""}},
		{awsretry.Permanent, []int{400, 403, 404, 409, 501, 505, 506, 507, 508, 510, 511, 600}, []string{""}},
		{awsretry.Transient, []int{408, 500, 502, 503, 504, 520, 599}, []string{""}},
		{awsretry.Throttled, []int{429, 509, 529}, []string{""}},
		{awsretry.Throttled, []int{200, 400, 500, 503}, []string{
			"BandwidthLimitExceeded", "EC2ThrottledException", "LimitExceededException", "PriorRequestNotComplete",
			"ProvisionedThroughputExceededException", "RequestLimitExceeded", "RequestThrottled",
			"RequestThrottledException", "SlowDown", "ThrottledException", "Throttling", "ThrottlingException",
			"TooManyRequestsException", "TransactionInProgressException",
		}},
		{awsretry.Transient, []int{200, 400, 403, 429, 500}, []string{
			"RequestTimeout", "RequestTimeoutException", "IDPCommunicationError", "InternalError", "InternalServerError",
			"InternalFailure", "ServiceUnavailable", "RetryableConflictException", "Server", "Receiver",
			"Server.InternalError", "Server.ServiceUnavailable",
		}},
		{awsretry.Permanent, []int{400, 500}, []string{"Client", "Sender", "Client.InvalidParameterValue"}},
		{awsretry.Permanent, []int{200, 400}, []string{"AccessDenied", "ValidationException"}},
		{awsretry.Transient, []int{500}, []string{"ValidationException"}},
		// Codes are case-sensitive and matched whole.
		{awsretry.Permanent, []int{400}, []string{"throttlingexception", "MyThrottlingException", "Throttling.User"}},
	} {
		for _, status := range tt.statuses {
			for _, code := range tt.codes {
				a := &awsretry.Attempt{Response: &http.Response{StatusCode: status}, Code: code}
				if got := awsretry.DefaultPolicy(a); got != tt.want {
					t.Errorf("status %d, code %q: %v, want %v", status, code, got, tt.want)
				}
			}
		}
	}
	if got := awsretry.DefaultPolicy(&awsretry.Attempt{}); got != awsretry.Permanent {
		t.Errorf("neither response nor error: %v", got)
	}
}

func TestDefaultPolicyOfErrors(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want awsretry.Class
	}{
		{io.EOF, awsretry.Transient},
		{errors.New("something else"), awsretry.Transient},
		{&net.DNSError{IsTimeout: true}, awsretry.Timeout},
		{context.DeadlineExceeded, awsretry.Timeout}, // not the caller's, which has ended the context
		{context.Canceled, awsretry.Permanent},
		{&net.DNSError{IsNotFound: true, IsTimeout: true}, awsretry.Permanent},
		{errors.New("Proxy Authentication Required"), awsretry.Permanent},
		{errors.New("Too Many Requests"), awsretry.Transient},
		{errors.New("Request Timeout"), awsretry.Transient},
	} {
		if got := awsretry.DefaultPolicy(&awsretry.Attempt{Err: tt.err}); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.err, got, tt.want)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		req := newRequest(t, "GET", nil).WithContext(ended)
		if got := awsretry.DefaultPolicy(&awsretry.Attempt{Request: req, Err: tt.err}); got != awsretry.Permanent {
			t.Errorf("%v after the end of the caller's context: %v", tt.err, got)
		}
	}
}

// The errors of net/http itself, also of a body that the Transport wraps.
func TestDefaultPolicyOfNetHTTP(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	for _, tt := range []struct {
		name, url, body string
		length          int64
		want            awsretry.Class
	}{
		{"body shorter than ContentLength", plain.URL, "short", 10, awsretry.Permanent},
		{"no body", plain.URL, "", 10, awsretry.Permanent},
		{"unknown authority", secure.URL, "", 0, awsretry.Permanent},
		{"connection refused", closed.URL, "", 0, awsretry.Transient},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base := &http.Transport{}
			defer base.CloseIdleConnections()
			var class awsretry.Class
			tr := &awsretry.Transport{Base: base, MaxAttempts: 1, Observe: func(a awsretry.Attempt) { class = a.Class }}
			send := func() error {
				req, err := http.NewRequestWithContext(t.Context(), "PUT", tt.url, nil)
				if err != nil {
					t.Fatal(err)
				}
				if tt.body != "" {
					req.Body = io.NopCloser(strings.NewReader(tt.body))
				}
				req.ContentLength = tt.length
				_, err = tr.RoundTrip(req)
				return err
			}
			err := send()
			for range 100 { // now and then the error is that of the connection that net/http closes because of another
				if !errors.Is(err, net.ErrClosed) {
					break
				}
				err = send()
			}
			if err == nil || class != tt.want {
				t.Errorf("%v: %v, want %v", err, class, tt.want)
			}
		})
	}
}

func TestIdempotentOnly(t *testing.T) {
	plain := func(method string) *http.Request { return newRequest(t, method, nil) }
	keyed := func(name string) *http.Request {
		req := plain("POST")
		req.Header.Set(name, "1")
		return req
	}
	dial := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	// The error of net/http's HTTP/2 for a stream that the server reset.
	notRetried := func(code string) error {
		return errors.New("http2: Transport: cannot retry err [stream error: stream ID 1; " + code +
			"; received from peer] after Request.Body was written; define Request.GetBody to avoid this error")
	}
	for _, tt := range []struct {
		name   string
		req    *http.Request
		status int
		code   string
		err    error
		want   awsretry.Class
	}{
		{"GET", plain("GET"), 503, "", nil, awsretry.Transient},
		{"no method", &http.Request{}, 503, "", nil, awsretry.Transient},
		{"PUT", plain("PUT"), 503, "", nil, awsretry.Transient},
		{"DELETE", plain("DELETE"), 0, "", io.EOF, awsretry.Transient},
		{"POST", plain("POST"), 503, "", nil, awsretry.Permanent},
		{"PATCH", plain("PATCH"), 503, "", nil, awsretry.Permanent},
		{"reset", plain("POST"), 0, "", io.ErrUnexpectedEOF, awsretry.Permanent},
		{"timeout", plain("POST"), 0, "", &net.DNSError{IsTimeout: true}, awsretry.Timeout},
		{"key", keyed("Idempotency-Key"), 503, "", nil, awsretry.Transient},
		{"X- key", keyed("X-Idempotency-Key"), 0, "", io.EOF, awsretry.Transient},
		{"dial", plain("POST"), 0, "", dial, awsretry.Transient},
		{"dial twice", plain("POST"), 0, "", errors.Join(dial, dial), awsretry.Transient},
		{"dial after a reset", plain("POST"), 0, "", errors.Join(io.ErrUnexpectedEOF, dial), awsretry.Permanent},
		{"refused", plain("POST"), 0, "", notRetried("REFUSED_STREAM"), awsretry.Transient},
		{"broken", plain("POST"), 0, "", notRetried("PROTOCOL_ERROR"), awsretry.Permanent},
		{"throttled", plain("POST"), 429, "", nil, awsretry.Throttled},
		{"throttled by code", plain("POST"), 503, "SlowDown", nil, awsretry.Throttled},
		{"success", plain("POST"), 200, "", nil, awsretry.Success},
		{"no request", nil, 503, "", nil, awsretry.Permanent},
	} {
		a := awsretry.Attempt{Request: tt.req, Code: tt.code, Err: tt.err}
		if tt.status > 0 {
			a.Response = &http.Response{StatusCode: tt.status}
		}
		if got := awsretry.IdempotentOnly(nil)(&a); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	over := awsretry.IdempotentOnly(func(*awsretry.Attempt) awsretry.Class { return awsretry.Timeout })
	ok := &http.Response{StatusCode: 200}
	if got := over(&awsretry.Attempt{Request: plain("POST"), Response: ok}); got != awsretry.Permanent {
		t.Errorf("over a policy of one's own: %v", got)
	}
}

func TestClassString(t *testing.T) {
	want := map[awsretry.Class]string{
		awsretry.Success: "success", awsretry.Permanent: "permanent", awsretry.Transient: "transient",
		awsretry.Timeout: "timeout", awsretry.Throttled: "throttled", 99: "unknown class",
	}
	for class, s := range want {
		if class.String() != s {
			t.Errorf("%d is %q, want %q", class, class, s)
		}
		retryable := class == awsretry.Transient || class == awsretry.Timeout || class == awsretry.Throttled
		if class.Retryable() != retryable {
			t.Errorf("%v.Retryable() is %v", class, class.Retryable())
		}
	}
}

// When a Policy classifies an error as a success, RoundTrip returns an error
// that says so.
func TestPolicyCallsAnErrorASuccess(t *testing.T) {
	reset := errors.New("connection reset")
	tr := &awsretry.Transport{
		Base:   failing(reset),
		Policy: func(*awsretry.Attempt) awsretry.Class { return awsretry.Success },
	}
	resp, err := get(t, tr)
	if !errors.Is(err, reset) || contract.StopOf(resp, err) != awsretry.StopPermanent ||
		!strings.Contains(err.Error(), "Policy") {
		t.Errorf("%v, %v", resp, err)
	}
}
