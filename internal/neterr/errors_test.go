package neterr

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/httpfake"
)

const (
	permanent = "permanent"
	timeout   = "timeout"
	transient = "neither"
)

// kindOf combines Permanent and TimedOut in the order that matters to a caller.
func kindOf(err error) string {
	switch {
	case Permanent(err):
		return permanent
	case TimedOut(err):
		return timeout
	}
	return transient
}

func TestKindsByType(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{io.EOF, transient},
		{io.ErrUnexpectedEOF, transient},
		{errReset, transient},
		{errRefused, transient},
		{&net.OpError{Op: "dial", Err: &os.SyscallError{Syscall: "connect", Err: errRefused}}, transient},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, timeout},
		{&net.DNSError{IsTimeout: true}, timeout},
		{&net.DNSError{IsTemporary: true}, transient},
		{&net.DNSError{IsNotFound: true}, permanent},
		{&net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}, permanent},
		{context.Canceled, permanent},
		{context.DeadlineExceeded, timeout},
		{errors.New("http2: Transport received Server's graceful shutdown GOAWAY"), transient},
		{errors.New("something else"), transient},
		{errors.New("net/http: request canceled"), permanent}, // by the deprecated CancelRequest
		{x509.UnknownAuthorityError{}, permanent},
		{x509.HostnameError{Certificate: &x509.Certificate{}}, permanent},
		{&tls.CertificateVerificationError{Err: errors.New("x")}, permanent},
		{tls.RecordHeaderError{}, transient},
		{tls.RecordHeaderError{Conn: new(net.TCPConn)}, permanent},
		{tls.AlertError(20), transient},
		{tls.AlertError(40), permanent},
		{&net.OpError{Op: "remote error", Err: tls.AlertError(40)}, permanent},
		{errors.New("tls: server selected unsupported protocol version 301"), permanent},
		{errors.New("tls: use of closed connection"), transient},
		{&net.OpError{Op: "remote error", Err: tls.AlertError(22)}, transient},
		{&net.AddrError{Err: "missing port in address", Addr: "x"}, permanent},
		{http.ErrSchemeMismatch, permanent},
		{&http.MaxBytesError{}, permanent},
		{errors.New(""), transient},
	} {
		for _, err := range wrapped(tt.err) {
			if got := kindOf(err); got != tt.want {
				t.Errorf("%T %v: %s, want %s", err, err, got, tt.want)
			}
		}
	}
}

// wrapped returns err, and err inside other errors.
func wrapped(err error) []error {
	return []error{
		err,
		&url.Error{Op: "Get", URL: "http://x", Err: err},
		fmt.Errorf("wrapped: %w", err),
		errors.Join(errors.New("another"), fmt.Errorf("twice: %w", err)),
	}
}

func TestSent(t *testing.T) {
	// The error of net/http's HTTP/2 for a request whose body it cannot send again.
	notRetried := func(cause string) error {
		return errors.New("http2: Transport: cannot retry err [" + cause +
			"] after Request.Body was written; define Request.GetBody to avoid this error")
	}
	for _, tt := range []struct {
		err                   error
		dialFailed, neverSent bool
	}{
		{io.EOF, false, false},
		{&net.OpError{Op: "dial", Err: errRefused}, true, true},
		{&net.OpError{Op: "dial", Err: &net.DNSError{IsTemporary: true}}, true, true},
		{&net.DNSError{IsTemporary: true}, false, true},
		{&net.OpError{Op: "proxyconnect", Err: io.EOF}, false, true},
		{&net.OpError{Op: "read", Err: errReset}, false, false},
		{errors.New("net/http: TLS handshake timeout"), false, true},
		{streamError{Code: refusedStream}, false, true},
		{streamError{Code: 0x2}, false, false}, // INTERNAL_ERROR
		{notRetried("stream error: stream ID 1; REFUSED_STREAM; received from peer"), false, true},
		{notRetried("http2: Transport received Server's graceful shutdown GOAWAY"), false, true},
		{notRetried("stream error: stream ID 1; PROTOCOL_ERROR; received from peer"), false, false},
	} {
		joined := errors.Join(tt.err, fmt.Errorf("twice: %w", errors.Join(tt.err)))
		for _, err := range []error{tt.err, &url.Error{Op: "Post", URL: "http://x", Err: tt.err}, joined} {
			dialed, sent, stream := DialFailed(err), NeverSent(err), StreamFailed(err)
			if dialed != tt.dialFailed || sent != tt.neverSent || stream != errors.As(tt.err, new(streamError)) {
				t.Errorf("%v: DialFailed %v, NeverSent %v, StreamFailed %v", err, dialed, sent, stream)
			}
		}
		// The request may have been sent before, or after.
		for _, err := range []error{
			errors.Join(errReset, tt.err), errors.Join(tt.err, errReset), fmt.Errorf("%w after %w", tt.err, errReset),
			sameText{errors.Join(tt.err, errReset)}, errors.Join(tt.err, errors.Join(tt.err, sameText{errReset})),
		} {
			if DialFailed(err) || NeverSent(err) {
				t.Errorf("%v: DialFailed %v, NeverSent %v", err, DialFailed(err), NeverSent(err))
			}
		}
	}
	if TimedOut(nil) || DialFailed(nil) || NeverSent(nil) || NeverSent(joinsNone{}) {
		t.Error("no error is one of these")
	}
}

// A joinsNone joins no errors.
type joinsNone struct{}

func (joinsNone) Error() string   { return "" }
func (joinsNone) Unwrap() []error { return nil }

// A sameText is an error that has the text of the one it wraps.
type sameText struct{ error }

func (e sameText) Unwrap() error { return e.error }

func TestProxyStatus(t *testing.T) {
	for text, want := range map[string]int{
		"Proxy Authentication Required": 407,
		"Too Many Requests":             429,
		"Service Unavailable":           0,
		"upstream: Not Found":           0,
		"":                              0,
	} {
		if got, ok := ProxyStatus(errors.New(text)); got != want || ok != (want > 0) {
			t.Errorf("%q: %d, %v; want %d", text, got, ok, want)
		}
	}
}

// The errors come from net/http itself: some have no type, and their texts may
// change with Go.
func TestKindsOfNetHTTP(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := newTLSServer(t, false, &tls.Config{MaxVersion: tls.VersionTLS12}, http.NotFound)
	mutual := newTLSServer(t, false, &tls.Config{ClientAuth: tls.RequireAnyClientCert}, http.NotFound)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusProxyAuthRequired)
	}))
	defer proxy.Close()

	for _, tt := range []struct {
		name   string
		base   func(*http.Transport)
		url    string
		change func(*http.Request)
		want   string
	}{
		{"scheme", nil, "gopher://127.0.0.1", nil, permanent},
		{"no host", nil, "http://", nil, permanent},
		{"no URL", nil, plain.URL, func(r *http.Request) { r.URL = nil }, permanent},
		{"no header", nil, plain.URL, func(r *http.Request) { r.Header = nil }, permanent},
		{"method", nil, plain.URL, func(r *http.Request) { r.Method = "A B" }, permanent},
		{"header name", nil, plain.URL, func(r *http.Request) { r.Header["a b"] = []string{"x"} }, permanent},
		{"header value", nil, plain.URL, func(r *http.Request) { r.Header["A"] = []string{"x\ny"} }, permanent},
		{"body shorter than ContentLength", nil, plain.URL, func(r *http.Request) {
			r.Method, r.ContentLength = "PUT", 10
			r.Body = io.NopCloser(strings.NewReader("short"))
		}, permanent},
		{"ContentLength without a body", nil, plain.URL,
			func(r *http.Request) { r.Method, r.ContentLength = "PUT", 10 }, permanent},
		{"port", nil, "http://127.0.0.1:99999", nil, permanent},
		{"refused", nil, "http://" + unused(t), nil, transient},
		{"unknown authority", func(tr *http.Transport) { tr.TLSClientConfig = nil }, secure.URL, nil, permanent},
		{"wrong name", func(tr *http.Transport) { tr.TLSClientConfig.ServerName = "other.example.org" },
			secure.URL, nil, permanent},
		{"protocol version", func(tr *http.Transport) { tr.TLSClientConfig.MinVersion = tls.VersionTLS13 },
			secure.URL, nil, permanent},
		{"client certificate", nil, mutual.URL, nil, permanent},
		{"plain server", nil, strings.Replace(plain.URL, "http:", "https:", 1), nil, permanent},
		{"proxy", func(tr *http.Transport) {
			tr.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(proxy.URL) }
		}, secure.URL, nil, "proxy"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base := mutual.Client().Transport.(*http.Transport).Clone()
			defer base.CloseIdleConnections()
			if tt.base != nil {
				tt.base(base)
			}
			send := func() error {
				req, err := http.NewRequestWithContext(t.Context(), "GET", tt.url, nil)
				if err != nil {
					t.Fatal(err)
				}
				if tt.change != nil {
					tt.change(req)
				}
				resp, err := base.RoundTrip(req)
				if err == nil {
					resp.Body.Close()
					t.Fatal(resp.Status)
				}
				return err
			}
			err := send()
			// Now and then the error is that of the connection that net/http closes because of another.
			for i := 0; i < 100 && errors.Is(err, net.ErrClosed); i++ {
				err = send()
			}
			got := kindOf(err)
			if status, ok := ProxyStatus(err); ok && status == http.StatusProxyAuthRequired {
				got = "proxy"
			}
			if got != tt.want {
				t.Errorf("%v: %s, want %s", err, got, tt.want)
			}
		})
	}
}

// unused returns an address on which nothing listens.
func unused(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestKindsOfASilentServer(t *testing.T) {
	silent := func(c net.Conn) { io.Copy(io.Discard, c) }
	for _, tt := range []struct {
		name, scheme string
		serve        func(net.Conn)
		want         string
		neverSent    bool
	}{
		{"closed at once", "http", func(c net.Conn) { c.Close() }, transient, false},
		{"no response", "http", silent, timeout, false},
		{"no TLS handshake", "https", silent, timeout, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := &http.Transport{ResponseHeaderTimeout: time.Minute, TLSHandshakeTimeout: time.Minute}
				defer base.CloseIdleConnections()
				base.DialContext = func(context.Context, string, string) (net.Conn, error) {
					client, server := net.Pipe()
					go tt.serve(server)
					return client, nil
				}
				req := httpfake.Request(t, t.Context(), "GET", nil)
				req.URL.Scheme = tt.scheme
				resp, err := base.RoundTrip(req)
				if err == nil {
					t.Fatal(resp.Status)
				}
				if got := kindOf(err); got != tt.want || NeverSent(err) != tt.neverSent || DialFailed(err) {
					t.Errorf("%v: %s, NeverSent %v, DialFailed %v", err, got, NeverSent(err), DialFailed(err))
				}
			})
		})
	}
}

func TestSchemeMismatch(t *testing.T) {
	spoken := func(header string) error {
		err := tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}
		copy(err.RecordHeader[:], header)
		return err
	}
	for _, err := range []error{spoken("HTTP/1.1"), &net.OpError{Op: "remote", Err: spoken("HTTP/1.1")}} {
		got := SchemeMismatch(err)
		if !errors.Is(got, http.ErrSchemeMismatch) || !errors.Is(got, err) || got.Error() != http.ErrSchemeMismatch.Error() {
			t.Errorf("%v becomes %v", err, got)
		}
	}
	for _, err := range []error{spoken("SSH-2.0"), io.EOF, nil} {
		if got := SchemeMismatch(err); got != err {
			t.Errorf("%v becomes %v", err, got)
		}
	}
}

func TestKind(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "dial", Err: errRefused}, "refused"},
		{&net.OpError{Op: "read", Err: errReset}, "reset"},
		{&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}, "dns"},
		{&net.OpError{Op: "dial", Err: &net.DNSError{Err: "i/o timeout", IsTimeout: true}}, "timeout"},
		{x509.UnknownAuthorityError{}, "tls"},
		{tls.RecordHeaderError{Msg: "damaged"}, "tls"},
		{fmt.Errorf("reading: %w", io.ErrUnexpectedEOF), "closed"},
		{net.ErrClosed, "closed"},
		{context.DeadlineExceeded, "timeout"},
		{context.Canceled, "canceled"},
		{errors.New("net/http: request canceled while waiting for connection"), "canceled"},
		{errors.New("anything else"), ""},
	} {
		if got := Kind(tt.err); got != tt.want {
			t.Errorf("%v is %q, want %q", tt.err, got, tt.want)
		}
	}
}
