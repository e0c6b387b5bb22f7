package neterr

import (
	"bufio"
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
	"testing"
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

// The alerts 20 and 22 are about a record that was damaged on its way, others
// about the handshake.
func TestKindsByType(t *testing.T) {
	for _, tt := range []struct {
		err        error
		want, kind string
	}{
		{io.EOF, transient, "closed"},
		{io.ErrUnexpectedEOF, transient, "closed"},
		{net.ErrClosed, transient, "closed"},
		{errReset, transient, "reset"},
		{&net.OpError{Op: "dial", Err: &os.SyscallError{Syscall: "connect", Err: errRefused}}, transient, "refused"},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, timeout, "timeout"},
		{&net.DNSError{IsTimeout: true}, timeout, "timeout"},
		{&net.DNSError{IsTemporary: true}, transient, "dns"},
		{&net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}, permanent, "dns"},
		{context.Canceled, permanent, "canceled"},
		{context.DeadlineExceeded, timeout, "timeout"},
		{errors.New("net/http: request canceled"), permanent, "canceled"}, // by the deprecated CancelRequest
		{x509.UnknownAuthorityError{}, permanent, "tls"},
		{tls.RecordHeaderError{}, transient, "tls"},
		{tls.RecordHeaderError{Conn: new(net.TCPConn)}, permanent, "tls"},
		{tls.AlertError(20), transient, ""},
		{&net.OpError{Op: "remote error", Err: tls.AlertError(22)}, transient, ""},
		{&net.OpError{Op: "remote error", Err: tls.AlertError(40)}, permanent, "tls"},
		{errors.New("tls: use of closed connection"), transient, ""},
		{http.ErrSchemeMismatch, permanent, ""},
		{&http.MaxBytesError{}, permanent, ""},
		{errors.New("something else"), transient, ""},
	} {
		for _, err := range wrapped(tt.err) {
			if got, kind := kindOf(err), Kind(err); got != tt.want || kind != tt.kind {
				t.Errorf("%T %v: %s, %q; want %s, %q", err, err, got, kind, tt.want, tt.kind)
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
		"Bad Request":                   400,
		"Proxy Authentication Required": 407,
		"Too Many Requests":             429,
		"Service Unavailable":           503,
		"Bandwidth Limit Exceeded":      509,
		"status code 529":               529,
		"status code 429":               0, // it has a name
		"status code 600":               0,
		"Found":                         0, // no failure
		"upstream: Not Found":           0,
		"":                              0,
	} {
		plain := errors.New(text)
		for _, err := range []error{plain, &url.Error{Op: "Get", Err: plain}, fmt.Errorf("base: %w", plain)} {
			if got, ok := ProxyStatus(err); got != want || ok != (want > 0) {
				t.Errorf("%q: %d, %v; want %d", err, got, ok, want)
			}
		}
		for _, err := range []error{&http.ProtocolError{ErrorString: text}, errors.Join(plain), sameText{io.EOF}} {
			if got, ok := ProxyStatus(err); ok {
				t.Errorf("%T, %q: %d", err, err, got)
			}
		}
	}
}

// Text that a server or a proxy sends elsewhere than in its status is not a status.
func TestProxyStatusOfOtherTexts(t *testing.T) {
	for _, phrase := range []string{"Too Many Requests", "Forbidden"} {
		for _, sent := range []string{
			phrase + "\r\n\r\n",
			"HTTP/1.1 " + phrase + "\r\n\r\n",
			"HTTP/1.1 429" + phrase + "\r\n\r\n",
			"HTTP/1.1 200 OK\r\n" + phrase + "\r\n\r\n",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: " + phrase + "\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Length: " + phrase + "\r\n\r\n",
			"HTTP/1.1 200 " + phrase + "\r\n\r\n" + phrase,
		} {
			for _, scheme := range []string{"http", "https"} {
				base := &http.Transport{
					Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy.example"}),
					DialContext: func(context.Context, string, string) (net.Conn, error) {
						client, server := net.Pipe()
						go func() {
							defer server.Close()
							http.ReadRequest(bufio.NewReader(server))
							io.WriteString(server, sent)
						}()
						return client, nil
					},
				}
				req, err := http.NewRequestWithContext(t.Context(), "GET", scheme+"://service.example", nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := base.RoundTrip(req)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				if status, ok := ProxyStatus(err); ok {
					t.Errorf("%s, %q: %v is status %d", scheme, sent, err, status)
				}
				base.CloseIdleConnections()
			}
		}
	}
}

// The errors come from net/http itself: some have no type, and their texts may
// change with Go.
func TestKindsOfNetHTTP(t *testing.T) {
	httpfake.EmptyPools()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	tlsServer := func(config *tls.Config) *httptest.Server {
		srv := httptest.NewUnstartedServer(http.NotFoundHandler())
		srv.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that fail
		srv.TLS = config
		srv.StartTLS()
		t.Cleanup(srv.Close)
		return srv
	}
	secure := tlsServer(&tls.Config{MaxVersion: tls.VersionTLS12})
	mutual := tlsServer(&tls.Config{ClientAuth: tls.RequireAnyClientCert})
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
		{"port", nil, "http://127.0.0.1:99999", nil, "permanent, never sent"},
		{"unknown authority", func(tr *http.Transport) { tr.TLSClientConfig = nil }, secure.URL, nil, permanent},
		{"no handshake", func(tr *http.Transport) {
			tr.TLSHandshakeTimeout = time.Millisecond
			tr.DialContext = func(context.Context, string, string) (net.Conn, error) {
				client, server := net.Pipe()
				go io.Copy(io.Discard, server)
				return client, nil
			}
		}, secure.URL, nil, "timeout, never sent"},
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
			// Now and then net/http returns the error of a connection that it
			// closes because of another.
			for i := 0; i < 100 && errors.Is(err, net.ErrClosed); i++ {
				err = send()
			}
			got := kindOf(err)
			if NeverSent(err) {
				got += ", never sent"
			}
			if status, ok := ProxyStatus(err); ok && status == http.StatusProxyAuthRequired {
				got = "proxy"
			}
			if got != tt.want {
				t.Errorf("%v: %s, want %s", err, got, tt.want)
			}
		})
	}
}
