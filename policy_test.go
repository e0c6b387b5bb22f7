package awsretry_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"example.com/awsretry"
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
			"InternalFailure", "ServiceUnavailable", "Server", "Receiver",
			"Server.ServiceUnavailable", "Server.Other", "Client.InternalError",
			"BulkLoadIdNotFoundException", "ClientTimeoutException", "DirectoryUnavailableException",
			"InsufficientCapacityException", "QueryTimeoutException", "RangeNotSatisfiableException",
			"ReplicatedWriteConflictException", "RetryableConflictException", "S3Exception",
			"StreamSessionAccessNotReadyException",
		}},
		{awsretry.Throttled, []int{400, 503}, []string{"Client.RequestLimitExceeded", "Server.RequestLimitExceeded"}},
		{awsretry.Permanent, []int{400, 500}, []string{"Client", "Sender", "Client.InvalidParameterValue", "Client."}},
		{awsretry.Permanent, []int{200, 400}, []string{"AccessDenied", "ValidationException"}},
		{awsretry.Transient, []int{500}, []string{"ValidationException"}},
		// Codes are case-sensitive and matched whole.
		{awsretry.Permanent, []int{400}, []string{"throttlingexception", "MyThrottlingException", "Throttling.User",
			"Sender.SlowDown", "client.SlowDown", "Clients.SlowDown"}},
		// Models of other services have these for lasting failures.
		{awsretry.Permanent, []int{400, 402, 403, 409, 422, 423}, []string{
			"AccessDeniedException", "ConflictException", "ConstraintViolationException", "InvalidTokenException",
			"ServiceQuotaExceededException", "UnprocessableEntityException", "ValidationException",
		}},
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
		{errors.New("something else"), awsretry.Transient},
		{&net.DNSError{IsTimeout: true}, awsretry.Timeout},
		{context.DeadlineExceeded, awsretry.Timeout}, // not the caller's, which has ended the context
		{context.Canceled, awsretry.Permanent},
		{&net.DNSError{IsNotFound: true, IsTimeout: true}, awsretry.Permanent},
		{errors.New("Proxy Authentication Required"), awsretry.Permanent}, // a status that came as an error
		{errors.New("Too Many Requests"), awsretry.Throttled},
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

func TestIdempotentOnly(t *testing.T) {
	busy, ok := &http.Response{StatusCode: 503}, &http.Response{StatusCode: 200}
	dial := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	// The error of net/http's HTTP/2 for a stream that the server reset.
	notRetried := func(code string) error {
		return errors.New("http2: Transport: cannot retry err [stream error: stream ID 1; " + code +
			"; received from peer] after Request.Body was written; define Request.GetBody to avoid this error")
	}
	for _, tt := range []struct {
		method, key string
		resp        *http.Response
		err         error
		want        awsretry.Class
	}{
		{"GET", "", busy, nil, awsretry.Transient},
		{"", "", busy, nil, awsretry.Transient},
		{"PUT", "", busy, nil, awsretry.Transient},
		{"DELETE", "", nil, io.EOF, awsretry.Transient},
		{"POST", "", busy, nil, awsretry.Permanent},
		{"PATCH", "", busy, nil, awsretry.Permanent},
		{"POST", "", nil, &net.DNSError{IsTimeout: true}, awsretry.Timeout},
		{"POST", "Idempotency-Key", busy, nil, awsretry.Transient},
		{"POST", "X-Idempotency-Key", nil, io.EOF, awsretry.Transient},
		{"POST", "", nil, dial, awsretry.Transient},
		{"POST", "", nil, errors.Join(io.ErrUnexpectedEOF, dial), awsretry.Permanent},
		{"POST", "", nil, notRetried("REFUSED_STREAM"), awsretry.Transient},
		{"POST", "", nil, notRetried("PROTOCOL_ERROR"), awsretry.Permanent},
		{"POST", "", &http.Response{StatusCode: 429}, nil, awsretry.Throttled},
		{"POST", "", ok, nil, awsretry.Success},
	} {
		req := &http.Request{Method: tt.method, Header: http.Header{tt.key: {"1"}}}
		a := &awsretry.Attempt{Request: req, Response: tt.resp, Err: tt.err}
		if got := awsretry.IdempotentOnly(nil)(a); got != tt.want {
			t.Errorf("%s %s, %v, %v: %v, want %v", tt.method, tt.key, tt.resp, tt.err, got, tt.want)
		}
	}
	if got := awsretry.IdempotentOnly(nil)(&awsretry.Attempt{Response: busy}); got != awsretry.Permanent {
		t.Errorf("without a request: %v", got)
	}
	over := awsretry.IdempotentOnly(func(*awsretry.Attempt) awsretry.Class { return awsretry.Timeout })
	if got := over(&awsretry.Attempt{Request: &http.Request{Method: "POST"}, Response: ok}); got != awsretry.Permanent {
		t.Errorf("over a policy of one's own: %v", got)
	}
}

// The cause of a cancel may have the text of a status, as a proxy's answer has.
func TestCauseIsNoProxyStatus(t *testing.T) {
	received := make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(received)
		<-r.Context().Done()
	}))
	defer server.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-received
		cancel(errors.New(http.StatusText(http.StatusConflict)))
	}()
	var seen awsretry.Attempt
	rt := &awsretry.Transport{Base: server.Client().Transport, Observe: func(a awsretry.Attempt) { seen = a }}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	_, err = rt.RoundTrip(req)
	var failed *awsretry.Error
	if !errors.As(err, &failed) || !failed.MaybeExecuted || seen.NeverSent {
		t.Errorf("%v: %+v, NeverSent %v; the request was sent", err, failed, seen.NeverSent)
	}
}

// A lossy is a protocol of TLSNextProto that does not call the hooks of httptrace.
type lossy struct{ sent *atomic.Int32 }

func (l lossy) RoundTrip(*http.Request) (*http.Response, error) {
	l.sent.Add(1)
	return nil, errors.New("the connection was lost")
}

func TestUntracedProtocolIsSent(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.TLS = &tls.Config{NextProtos: []string{"lossy"}}
	server.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
		"lossy": func(_ *http.Server, conn *tls.Conn, _ http.Handler) { io.Copy(io.Discard, conn) },
	}
	server.StartTLS()
	defer server.Close()
	var sent atomic.Int32
	base := server.Client().Transport.(*http.Transport).Clone()
	base.TLSClientConfig.NextProtos = []string{"lossy"}
	base.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{
		"lossy": func(string, *tls.Conn) http.RoundTripper { return lossy{&sent} },
	}
	rt := &awsretry.Transport{
		Base: base, KeepConnections: true, Policy: awsretry.IdempotentOnly(nil),
		Backoff: awsretry.Exponential{Initial: 1},
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rt.RoundTrip(req); err == nil || sent.Load() != 1 {
		t.Errorf("%v; sent %d times, want once", err, sent.Load())
	}
}
