package awsretry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	"example.com/awsretry/internal/respbody"
)

// errorClass classifies a transport error: Permanent where the same request would fail in the same way (the caller's
// URL, header or body, a certificate or a TLS handshake, a DNS name that does not exist) or somebody cancelled it, Timeout
// where nobody answered in time, and else Transient: dial errors, resets, EOF, HTTP/2's GOAWAY and stream errors.
func errorClass(err error) Class {
	if outran(err) {
		return Timeout
	}
	if tlsFailed(err) || requestFaulty(err) || nameMissing(err) || proxyRefused(err) || errors.Is(err, context.Canceled) {
		return Permanent
	}
	if timedOut(err) {
		return Timeout
	}
	return Transient
}

func timedOut(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

func nameMissing(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}

// tlsFailed reports whether a certificate was not accepted, by either side, or the TLS handshake failed.
func tlsFailed(err error) bool {
	return holds(err, func(err error) bool {
		switch err := err.(type) {
		case *tls.CertificateVerificationError, tls.RecordHeaderError, tls.AlertError, *tls.ECHRejectionError,
			x509.CertificateInvalidError, x509.HostnameError, x509.UnknownAuthorityError, x509.SystemRootsError,
			x509.ConstraintViolationError, x509.UnhandledCriticalExtension, x509.InsecureAlgorithmError:
			return true
		case *net.OpError: // an alert: crypto/tls keeps its type to itself
			return err.Op == "remote error" || err.Op == "local error"
		}
		// crypto/tls has no type for its own complaints about a handshake; the others that begin like them are about
		// a connection that is closed.
		text := err.Error()
		return strings.HasPrefix(text, "tls: ") && !strings.HasPrefix(text, "tls: failed to send closeNotify") &&
			text != "tls: protocol is shutdown" && text != "tls: use of closed connection"
	})
}

// requestFaulty reports whether the request itself is what was wrong.
func requestFaulty(err error) bool {
	return holds(err, func(err error) bool {
		switch err.(type) {
		//lint:ignore SA1019 net/http still returns it
		case *http.ProtocolError, *http.MaxBytesError, *net.AddrError, *net.ParseError, net.InvalidAddrError,
			net.UnknownNetworkError, url.EscapeError, url.InvalidHostError:
			return true
		}
		if err == http.ErrSchemeMismatch || err == http.ErrBodyReadAfterClose {
			return true
		}
		text := err.Error()
		for _, prefix := range requestFaults {
			if strings.HasPrefix(text, prefix) {
				return true
			}
		}
		return false
	})
}

// requestFaults begin the errors for which net/http has no type. All of them are found before, or while, the request is
// written, and are the caller's to mend.
var requestFaults = [...]string{
	"unsupported protocol scheme",
	"http: nil Request.",
	"http: no Host in request URL",
	"http: Request.Write on Request with no Host",
	"http: invalid Host header",
	"net/http: invalid header",
	"net/http: invalid trailer",
	"net/http: invalid method",
	"net/http: can't write control character",
	"invalid Trailer key",
	"http: Request.ContentLength=",
	"http: ContentLength=", // … with Body length …: the body is not as long as was said
	"http2: request body larger than specified content length",
	"http2: invalid", // Upgrade, Transfer-Encoding or Connection header, header name or value
	"http2: unsupported scheme",
	"net/http: request canceled", // by the deprecated Transport.CancelRequest, or Request.Cancel
}

// proxyRefused reports whether a proxy answered CONNECT with a status that a retry does not mend, such as 407. Of the
// answer net/http leaves the status text alone.
func proxyRefused(err error) bool {
	text := err.Error()
	for status := 400; status < 500; status++ {
		if text == http.StatusText(status) {
			return text != "" && !statusClass(status).Retryable()
		}
	}
	return false
}

// dialFailed reports whether there was no connection to send anything over.
func dialFailed(err error) bool {
	return holds(err, func(err error) bool {
		op, ok := err.(*net.OpError)
		return ok && op.Op == "dial"
	})
}

// neverSent reports whether err shows that nothing of the request was sent, or that the server says that it did nothing.
func neverSent(err error) bool {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return true
	}
	var stream streamError
	if errors.As(err, &stream) && stream.Code == refusedStream {
		return true
	}
	return holds(err, func(err error) bool {
		op, ok := err.(*net.OpError)
		return ok && (op.Op == "dial" || op.Op == "proxyconnect") || neverSentText(err.Error())
	})
}

// neverSentText knows the errors of which net/http leaves the text alone: a time-out whose type is not exported, and, of a
// request whose body HTTP/2 cannot have again, the stream that was refused or came behind the last one of a GOAWAY.
func neverSentText(text string) bool {
	if text == "net/http: TLS handshake timeout" {
		return true
	}
	return strings.HasPrefix(text, "http2: Transport: cannot retry err [") &&
		(strings.Contains(text, "REFUSED_STREAM") || strings.Contains(text, "graceful shutdown GOAWAY"))
}

// A streamError takes the place of golang.org/x/net/http2.StreamError, to which errors.As converts net/http's own where the
// fields agree.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamError) Error() string { return "http2: stream error" }

const refusedStream = 0x7 // RFC 9113, section 7

// holds reports whether an error in err's tree fits.
func holds(err error, fits func(error) bool) bool {
	for err != nil {
		if fits(err) {
			return true
		}
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			for _, err := range e.Unwrap() {
				if holds(err, fits) {
					return true
				}
			}
			return false
		default:
			return false
		}
	}
	return false
}

// outran reports whether AttemptTimeout is what ended an attempt.
func outran(err error) bool {
	var timeout *respbody.TimeoutError
	return errors.As(err, &timeout)
}
