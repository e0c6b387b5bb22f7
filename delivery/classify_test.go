package delivery

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"example.com/awsretry/internal/httpfake"
)

func TestStatusesThatAreRetried(t *testing.T) {
	for status, want := range map[int]bool{
		200: false, 201: false, 204: false, 299: false,
		300: false, 302: false, 304: false,
		400: false, 401: false, 403: false, 404: false, 408: false, 410: false, 413: false, 429: true, 499: false,
		500: true, 501: true, 502: true, 503: true, 504: true, 505: true, 509: true, 529: true, 599: true,
		600: false, 999: false,
	} {
		run(t, strconv.Itoa(status), func(t *testing.T) {
			end := responding(status, 200)
			send(t, &Transport{Base: end}, post(t, "http://a.example/", "x"))
			if retried := len(end.asked) > 1; retried != want {
				t.Errorf("retried is %v, want %v", retried, want)
			}
		})
	}
}

func TestRetryStatus(t *testing.T) {
	for status, want := range map[int]bool{200: false, 408: true, 429: false, 503: false} {
		run(t, strconv.Itoa(status), func(t *testing.T) {
			end := responding(status, 200)
			send(t, &Transport{Base: end, RetryStatus: func(status int) bool { return status == 408 || status == 200 }},
				post(t, "http://a.example/", "x"))
			if retried := len(end.asked) > 1; retried != want {
				t.Errorf("retried is %v, want %v", retried, want)
			}
		})
	}
}

func TestErrorsThatAreRetried(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"no connection", errRefused, true},
		{"reset", &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}, true},
		{"EOF", io.ErrUnexpectedEOF, true},
		{"time-out", &net.OpError{Op: "read", Err: context.DeadlineExceeded}, true},
		{"no such name", &net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}, true},
		{"no such name, alone", &net.DNSError{IsNotFound: true}, true},
		{"certificate", &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, true},
		{"no TLS", tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, true},
		{"alert", &net.OpError{Op: "remote error", Err: tls.AlertError(40)}, true},
		{"TLS version",
			fmt.Errorf("handshake: %w", errors.New("tls: server selected unsupported protocol version 301")),
			true},
		{"HTTP on the port for HTTPS", http.ErrSchemeMismatch, true},
		{"unsupported scheme", errors.New("unsupported protocol scheme \"gopher\""), false},
		{"invalid header", errors.New("net/http: invalid header field name"), false},
		{"body of another length", errors.New("http: ContentLength=5 with Body length 4"), false},
	} {
		run(t, tt.name, func(t *testing.T) {
			attempts := 0
			tr := &Transport{Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
				attempts++
				receive(req)
				return nil, tt.err
			})}
			_, err := tr.RoundTrip(post(t, "http://a.example/", "x"))
			if retried := attempts > 1; retried != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("retried is %v, want %v; got %v", retried, tt.want, err)
			}
		})
	}
	run(t, "the body's own reader", func(t *testing.T) {
		end, broken := responding(200), errors.New("disk error")
		req := post(t, "http://a.example/", "x")
		req.Body, req.GetBody = io.NopCloser(io.MultiReader(strings.NewReader("x"), iotest.ErrReader(broken))), nil
		if _, err := (&Transport{Base: end}).RoundTrip(req); !errors.Is(err, broken) || len(end.asked) != 1 {
			t.Errorf("%d attempts, got %v", len(end.asked), err)
		}
	})
}
