package awsretry_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/awsretry"
)

// quiet is for servers whose complaints are what a test wants.
var quiet = log.New(io.Discard, "", 0)

func TestTransportErrorsByType(t *testing.T) {
	tests := []struct {
		err  error
		want awsretry.Class
	}{
		{io.EOF, awsretry.Transient},
		{io.ErrUnexpectedEOF, awsretry.Transient},
		{syscall.ECONNRESET, awsretry.Transient},
		{syscall.ECONNREFUSED, awsretry.Transient},
		{&net.OpError{Op: "dial", Err: &os.SyscallError{Syscall: "connect", Err: syscall.ECONNREFUSED}}, awsretry.Transient},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, awsretry.Timeout},
		{&net.DNSError{IsTimeout: true}, awsretry.Timeout},
		{&net.DNSError{IsTemporary: true}, awsretry.Transient},
		{&net.DNSError{IsNotFound: true}, awsretry.Permanent},
		{&net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}, awsretry.Permanent},
		{context.Canceled, awsretry.Permanent},
		{context.DeadlineExceeded, awsretry.Timeout}, // not the caller's, which never gets here
		{errors.New("http2: Transport received Server's graceful shutdown GOAWAY"), awsretry.Transient},
		{errors.New("something else"), awsretry.Transient},
		{x509.UnknownAuthorityError{}, awsretry.Permanent},
		{x509.HostnameError{Certificate: &x509.Certificate{}}, awsretry.Permanent},
		{&tls.CertificateVerificationError{Err: errors.New("x")}, awsretry.Permanent},
		{tls.RecordHeaderError{}, awsretry.Permanent},
		{tls.AlertError(40), awsretry.Permanent},
		{&net.OpError{Op: "remote error", Err: tls.AlertError(40)}, awsretry.Permanent},
		{errors.New("tls: server selected unsupported protocol version 301"), awsretry.Permanent},
		{errors.New("tls: use of closed connection"), awsretry.Transient},
		{&net.AddrError{Err: "missing port in address", Addr: "x"}, awsretry.Permanent},
		{http.ErrSchemeMismatch, awsretry.Permanent},
		{&http.MaxBytesError{}, awsretry.Permanent},
		{errors.New(""), awsretry.Transient},
	}
	for _, tt := range tests {
		for _, err := range []error{
			tt.err,
			&url.Error{Op: "Get", URL: "http://x", Err: tt.err},
			fmt.Errorf("wrapped: %w", tt.err),
			errors.Join(errors.New("another"), fmt.Errorf("twice: %w", tt.err)),
		} {
			if got := awsretry.DefaultPolicy(&awsretry.Attempt{Err: err}); got != tt.want {
				t.Errorf("%T %v: %v, want %v", err, err, got, tt.want)
			}
		}
	}
}

// The status text is all that net/http leaves of a proxy's answer, and the whole of its error.
func TestProxyErrors(t *testing.T) {
	tests := map[string]awsretry.Class{
		"Proxy Authentication Required": awsretry.Permanent,
		"Too Many Requests":             awsretry.Transient,
		"Service Unavailable":           awsretry.Transient,
		"upstream: Not Found":           awsretry.Transient,
	}
	for text, want := range tests {
		if got := awsretry.DefaultPolicy(&awsretry.Attempt{Err: errors.New(text)}); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
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

// What net/http says of requests that cannot be sent, and of servers that cannot be talked to, is asked of net/http itself:
// some of it has no type, and the texts may change with Go.
func TestTransportErrorsOfNetHTTP(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = quiet
	secure.TLS = &tls.Config{MaxVersion: tls.VersionTLS12}
	secure.StartTLS()
	defer secure.Close()
	mutual := httptest.NewUnstartedServer(http.NotFoundHandler())
	mutual.Config.ErrorLog = quiet
	mutual.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	mutual.StartTLS()
	defer mutual.Close()
	closing := listen(t, func(c net.Conn) { c.Close() })
	silent := listen(t, func(c net.Conn) { io.Copy(io.Discard, c) })
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusProxyAuthRequired)
	}))
	defer proxy.Close()

	trusting := func() *http.Transport { return mutual.Client().Transport.(*http.Transport).Clone() }
	tests := []struct {
		name   string
		base   func(*http.Transport)
		url    string
		change func(*http.Request)
		want   awsretry.Class
	}{
		{"scheme", nil, "gopher://127.0.0.1", nil, awsretry.Permanent},
		{"no host", nil, "http://", nil, awsretry.Permanent},
		{"no URL", nil, plain.URL, func(r *http.Request) { r.URL = nil }, awsretry.Permanent},
		{"no header", nil, plain.URL, func(r *http.Request) { r.Header = nil }, awsretry.Permanent},
		{"method", nil, plain.URL, func(r *http.Request) { r.Method = "A B" }, awsretry.Permanent},
		{"header name", nil, plain.URL, func(r *http.Request) { r.Header["a b"] = []string{"x"} }, awsretry.Permanent},
		{"header value", nil, plain.URL, func(r *http.Request) { r.Header["A"] = []string{"x\ny"} }, awsretry.Permanent},
		{"body shorter than said", nil, plain.URL, func(r *http.Request) {
			r.Method, r.ContentLength = "PUT", 10
			r.Body = io.NopCloser(strings.NewReader("short"))
		}, awsretry.Permanent},
		{"body without a reader", nil, plain.URL, func(r *http.Request) { r.Method, r.ContentLength = "PUT", 10 }, awsretry.Permanent},
		{"port", nil, "http://127.0.0.1:99999", nil, awsretry.Permanent},
		{"refused", nil, "http://" + unused(t), nil, awsretry.Transient},
		{"closed at once", nil, "http://" + closing, nil, awsretry.Transient},
		{"no answer", func(tr *http.Transport) { tr.ResponseHeaderTimeout = 20 * time.Millisecond }, "http://" + silent, nil, awsretry.Timeout},
		{"no TLS answer", func(tr *http.Transport) { tr.TLSHandshakeTimeout = 20 * time.Millisecond }, "https://" + silent, nil, awsretry.Timeout},
		{"unknown authority", func(tr *http.Transport) { tr.TLSClientConfig = nil }, secure.URL, nil, awsretry.Permanent},
		{"wrong name", func(tr *http.Transport) { tr.TLSClientConfig.ServerName = "other.example.org" }, secure.URL, nil, awsretry.Permanent},
		{"protocol version", func(tr *http.Transport) { tr.TLSClientConfig.MinVersion = tls.VersionTLS13 }, secure.URL, nil, awsretry.Permanent},
		{"client certificate", nil, mutual.URL, nil, awsretry.Permanent},
		{"plain server", nil, strings.Replace(plain.URL, "http:", "https:", 1), nil, awsretry.Permanent},
		{"proxy", func(tr *http.Transport) {
			tr.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(proxy.URL) }
		}, secure.URL, nil, awsretry.Permanent},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			base := trusting()
			defer base.CloseIdleConnections()
			if tt.base != nil {
				tt.base(base)
			}
			req, err := http.NewRequest("GET", tt.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			if tt.change != nil {
				tt.change(req)
			}
			var told awsretry.Attempt
			tr := &awsretry.Transport{Base: base, MaxAttempts: 1, Observe: func(a awsretry.Attempt) { told = a }}
			resp, err := tr.RoundTrip(req)
			if err == nil {
				resp.Body.Close()
				t.Fatalf("answered %s", resp.Status)
			}
			if told.Class != tt.want {
				t.Errorf("%v: %v, want %v", err, told.Class, tt.want)
			}
		})
	}
}

// listen serves each connection with handle and returns the address.
func listen(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go handle(c)
		}
	}()
	return l.Addr().String()
}

// unused returns an address at which nobody listens.
func unused(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
