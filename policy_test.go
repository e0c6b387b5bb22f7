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
	tests := []struct {
		status int
		code   string
		want   awsretry.Class
	}{
		{200, "", awsretry.Success}, {204, "", awsretry.Success},
		{304, "", awsretry.Success}, {101, "", awsretry.Success},
		{400, "", awsretry.Permanent}, {403, "", awsretry.Permanent},
		{404, "", awsretry.Permanent}, {409, "", awsretry.Permanent},
		{408, "", awsretry.Transient},
		{429, "", awsretry.Throttled}, {509, "", awsretry.Throttled}, {529, "", awsretry.Throttled},
		{500, "", awsretry.Transient}, {502, "", awsretry.Transient}, {503, "", awsretry.Transient},
		{504, "", awsretry.Transient}, {520, "", awsretry.Transient}, {599, "", awsretry.Transient},
		{501, "", awsretry.Permanent}, {505, "", awsretry.Permanent}, {506, "", awsretry.Permanent},
		{507, "", awsretry.Permanent}, {508, "", awsretry.Permanent}, {510, "", awsretry.Permanent},
		{511, "", awsretry.Permanent}, {600, "", awsretry.Permanent},
		{400, "ThrottlingException", awsretry.Throttled},
		{503, "SlowDown", awsretry.Throttled},
		{500, "ThrottlingException", awsretry.Throttled},
		{403, "RequestTimeout", awsretry.Transient},
		{400, "IDPCommunicationError", awsretry.Transient},
		{429, "InternalError", awsretry.Transient},
		{400, "ValidationException", awsretry.Permanent},
		{500, "ValidationException", awsretry.Transient},
		{400, "throttlingexception", awsretry.Permanent},   // codes are case-sensitive
		{400, "MyThrottlingException", awsretry.Permanent}, // and matched whole
		{400, "Throttling.User", awsretry.Permanent},
		{500, "Server.InternalError", awsretry.Transient},
		{400, "Server.ServiceUnavailable", awsretry.Transient},
		{500, "Client.InvalidParameterValue", awsretry.Permanent},
		{500, "Client", awsretry.Permanent}, {500, "Sender", awsretry.Permanent},
		{500, "Server", awsretry.Transient}, {500, "Receiver", awsretry.Transient},
		{200, "SlowDown", awsretry.Throttled}, {200, "InternalError", awsretry.Transient},
		{200, "AccessDenied", awsretry.Permanent},
	}
	for _, code := range []string{
		"BandwidthLimitExceeded", "EC2ThrottledException", "LimitExceededException", "PriorRequestNotComplete",
		"ProvisionedThroughputExceededException", "RequestLimitExceeded", "RequestThrottled",
		"RequestThrottledException", "SlowDown", "ThrottledException", "Throttling", "ThrottlingException",
		"TooManyRequestsException", "TransactionInProgressException",
	} {
		tests = append(tests, struct {
			status int
			code   string
			want   awsretry.Class
		}{400, code, awsretry.Throttled})
	}
	for _, code := range []string{
		"RequestTimeout", "RequestTimeoutException", "IDPCommunicationError", "InternalError", "InternalServerError",
		"InternalFailure", "ServiceUnavailable", "RetryableConflictException",
	} {
		tests = append(tests, struct {
			status int
			code   string
			want   awsretry.Class
		}{400, code, awsretry.Transient})
	}
	for _, tt := range tests {
		a := &awsretry.Attempt{Response: &http.Response{StatusCode: tt.status}, Code: tt.code}
		if got := awsretry.DefaultPolicy(a); got != tt.want {
			t.Errorf("status %d, code %q: %v, want %v", tt.status, tt.code, got, tt.want)
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

func TestDefaultPolicyOfAnEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req := newRequest(t, "GET", nil).WithContext(ctx)
	for _, err := range []error{context.Canceled, context.DeadlineExceeded, io.EOF} {
		if got := awsretry.DefaultPolicy(&awsretry.Attempt{Request: req, Err: err}); got != awsretry.Permanent {
			t.Errorf("%v: %v", err, got)
		}
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
	status := func(s int) *http.Response { return &http.Response{StatusCode: s} }
	// The error of net/http's HTTP/2 for a stream that the server reset.
	notRetried := func(code string) error {
		return errors.New("http2: Transport: cannot retry err [stream error: stream ID 1; " + code +
			"; received from peer] after Request.Body was written; define Request.GetBody to avoid this error")
	}
	tests := []struct {
		name string
		a    awsretry.Attempt
		want awsretry.Class
	}{
		{"GET", awsretry.Attempt{Request: plain("GET"), Response: status(503)}, awsretry.Transient},
		{"no method", awsretry.Attempt{Request: &http.Request{}, Response: status(503)}, awsretry.Transient},
		{"PUT", awsretry.Attempt{Request: plain("PUT"), Response: status(503)}, awsretry.Transient},
		{"DELETE", awsretry.Attempt{Request: plain("DELETE"), Err: io.EOF}, awsretry.Transient},
		{"POST", awsretry.Attempt{Request: plain("POST"), Response: status(503)}, awsretry.Permanent},
		{"PATCH", awsretry.Attempt{Request: plain("PATCH"), Response: status(503)}, awsretry.Permanent},
		{"POST, reset", awsretry.Attempt{Request: plain("POST"), Err: io.ErrUnexpectedEOF}, awsretry.Permanent},
		{"POST, timeout", awsretry.Attempt{Request: plain("POST"), Err: &net.DNSError{IsTimeout: true}},
			awsretry.Timeout},
		{"POST, key", awsretry.Attempt{Request: keyed("Idempotency-Key"), Response: status(503)}, awsretry.Transient},
		{"POST, X- key", awsretry.Attempt{Request: keyed("X-Idempotency-Key"), Err: io.EOF}, awsretry.Transient},
		{"POST, dial", awsretry.Attempt{Request: plain("POST"), Err: dial}, awsretry.Transient},
		{"POST, dial twice", awsretry.Attempt{Request: plain("POST"), Err: errors.Join(dial, dial)}, awsretry.Transient},
		{"POST, dial after a reset", awsretry.Attempt{Request: plain("POST"), Err: errors.Join(io.ErrUnexpectedEOF, dial)},
			awsretry.Permanent},
		{"POST, refused", awsretry.Attempt{Request: plain("POST"), Err: notRetried("REFUSED_STREAM")},
			awsretry.Transient},
		{"POST, broken", awsretry.Attempt{Request: plain("POST"), Err: notRetried("PROTOCOL_ERROR")},
			awsretry.Permanent},
		{"POST, throttled", awsretry.Attempt{Request: plain("POST"), Response: status(429)}, awsretry.Throttled},
		{"POST, throttled by code", awsretry.Attempt{Request: plain("POST"), Response: status(503), Code: "SlowDown"},
			awsretry.Throttled},
		{"POST, success", awsretry.Attempt{Request: plain("POST"), Response: status(200)}, awsretry.Success},
		{"no request", awsretry.Attempt{Response: status(503)}, awsretry.Permanent},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := awsretry.IdempotentOnly(nil)(&tt.a); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
	over := awsretry.IdempotentOnly(func(*awsretry.Attempt) awsretry.Class { return awsretry.Timeout })
	if got := over(&awsretry.Attempt{Request: plain("POST"), Response: status(200)}); got != awsretry.Permanent {
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
