// Package neterr interprets the errors of net/http.
package neterr

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Permanent reports whether the same request would fail again in the same way:
// the caller's URL, header or body is wrong, a certificate was not accepted, a
// TLS handshake failed, or a DNS name does not exist. A canceled request is
// permanent too.
func Permanent(err error) bool {
	return errors.Is(err, context.Canceled) || tlsFailed(err) || requestFaulty(err) || nameMissing(err)
}

// RequestCanceled reports whether err is net/http's error for a request that
// Request.Cancel ended.
func RequestCanceled(err error) bool {
	return anyOf(err, func(err error) bool { return strings.HasPrefix(err.Error(), requestCanceled) })
}

// net/http exports no type for this error.
const requestCanceled = "net/http: request canceled"

// TimedOut reports whether err is a timeout.
func TimedOut(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// Kind returns the kind of the error in one word: "canceled", "timeout", "dns",
// "refused", "reset", "tls" or "closed", or "" for any other error.
func Kind(err error) string {
	var (
		dns    *net.DNSError
		record tls.RecordHeaderError
	)
	switch {
	case errors.Is(err, context.Canceled), RequestCanceled(err):
		return "canceled"
	case TimedOut(err):
		return "timeout"
	case errors.As(err, &dns):
		return "dns"
	case isRefused(err):
		return "refused"
	case isReset(err):
		return "reset"
	case tlsFailed(err), errors.As(err, &record):
		return "tls"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return "closed"
	}
	return ""
}

// DialFailed reports whether there was no connection to send the request over.
func DialFailed(err error) bool {
	return allOf(err, func(err error) bool {
		op, ok := err.(*net.OpError)
		return ok && op.Op == "dial"
	})
}

// StreamFailed reports whether err is an error of one HTTP/2 stream. Since it
// was received over the connection, the connection still works.
func StreamFailed(err error) bool {
	var stream streamError
	return errors.As(err, &stream)
}

// NeverSent reports whether err shows that nothing of the request was sent, or
// that the server did not process it. If err joins several errors, each of them
// must show it: they may be from several attempts.
func NeverSent(err error) bool {
	return allOf(err, func(err error) bool {
		switch err := err.(type) {
		case *net.DNSError:
			return true
		case *net.OpError:
			return err.Op == "dial" || err.Op == "proxyconnect" || strings.HasPrefix(err.Op, "socks")
		case streamError:
			return err.Code == refusedStream
		case interface{ As(target any) bool }: // net/http's own stream error
			if stream := (streamError{}); err.As(&stream) {
				return stream.Code == refusedStream
			}
		}
		return errors.Unwrap(err) == nil && neverSentText(err.Error())
	})
}

// ProxyStatus returns the status, 400 or above, with which a proxy responded to
// CONNECT. net/http has no type for that, only an errors.New of the reason phrase.
// (Transport.OnProxyConnectResponse sees the status, but that field is the
// caller's.) The phrase must be the whole text of the error: wherever else net/http
// quotes what a server sent, it adds text. The phrase of a status without a name is
// the one that servers in Go send. Phrases that a proxy made up are not recognized.
func ProxyStatus(err error) (status int, ok bool) {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	if reflect.TypeOf(err) != errorString {
		return 0, false
	}
	text := err.Error()
	if text == "Bandwidth Limit Exceeded" { // of Apache and cPanel, in no RFC
		return 509, true
	}
	for status := 400; status < 600; status++ {
		if text == cmp.Or(http.StatusText(status), "status code "+strconv.Itoa(status)) {
			return status, true
		}
	}
	return 0, false
}

var errorString = reflect.TypeOf(errors.New(""))

// SchemeMismatch makes err match http.ErrSchemeMismatch if an HTTP server
// responded to HTTPS. http.Client does the same to the error of a Transport, but
// only if nothing wraps it.
func SchemeMismatch(err error) error {
	var record tls.RecordHeaderError
	if errors.As(err, &record) && string(record.RecordHeader[:]) == "HTTP/" {
		return schemeMismatch{err}
	}
	return err
}

type schemeMismatch struct{ err error }

func (schemeMismatch) Error() string     { return http.ErrSchemeMismatch.Error() }
func (e schemeMismatch) Unwrap() []error { return []error{http.ErrSchemeMismatch, e.err} }

func nameMissing(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}

// tlsFailed reports whether one side did not accept the other's certificate, or the
// TLS handshake failed. In TLS 1.3 the client may learn of it from an alert after
// its handshake, so the alert's number decides, not its time.
func tlsFailed(err error) bool {
	return anyOf(err, func(err error) bool {
		switch err := err.(type) {
		case *tls.CertificateVerificationError, *tls.ECHRejectionError,
			x509.CertificateInvalidError, x509.HostnameError, x509.UnknownAuthorityError, x509.SystemRootsError,
			x509.ConstraintViolationError, x509.UnhandledCriticalExtension, x509.InsecureAlgorithmError:
			return true
		case tls.RecordHeaderError:
			return err.Conn != nil // the server's first bytes are not TLS; later it was a damaged record
		}
		// crypto/tls exports no type for alerts and other handshake errors. The
		// exceptions are about a connection that broke or is closed.
		switch text := err.Error(); text {
		case damagedRecord, longRecord, "tls: protocol is shutdown", "tls: use of closed connection":
			return false
		default:
			return strings.HasPrefix(text, "tls: ") && !strings.HasPrefix(text, "tls: failed to send closeNotify")
		}
	})
}

// The texts of the alerts bad_record_mac and record_overflow (RFC 8446, section
// 6). One side sends them after a record that was damaged on its way.
var damagedRecord, longRecord = tls.AlertError(20).Error(), tls.AlertError(22).Error()

// requestFaulty reports whether the request itself is wrong.
func requestFaulty(err error) bool {
	return anyOf(err, func(err error) bool {
		switch err.(type) {
		case *http.ProtocolError, *http.MaxBytesError, *net.AddrError, *net.ParseError, net.InvalidAddrError,
			net.UnknownNetworkError, url.EscapeError, url.InvalidHostError:
			return true
		}
		if err == http.ErrSchemeMismatch || err == http.ErrBodyReadAfterClose {
			return true
		}
		if t, ok := err.(interface{ Timeout() bool }); ok && t.Timeout() {
			return false // it is of an http.Client's Timeout, and begins like that of a canceled request
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

// requestFaults are the beginnings of errors for which net/http has no type. It
// returns them before, or while, it writes the request. The caller must correct the
// request.
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
	"http: ContentLength=", // … with Body length …
	"http2: request body larger than specified content length",
	"http2: invalid", // Upgrade, Transfer-Encoding or Connection header, header name or value
	"http2: unsupported scheme",
	requestCanceled, // by the deprecated Transport.CancelRequest, or Request.Cancel
}

// neverSentText recognizes two errors for which net/http has no exported type: the
// timeout of the TLS handshake; and, for a request whose body HTTP/2 cannot read
// again, a stream that was refused or that came after the last one of a GOAWAY.
func neverSentText(text string) bool {
	if text == "net/http: TLS handshake timeout" {
		return true
	}
	return strings.HasPrefix(text, "http2: Transport: cannot retry err [") &&
		(strings.Contains(text, "REFUSED_STREAM") || strings.Contains(text, "graceful shutdown GOAWAY"))
}

// A streamError has the fields of golang.org/x/net/http2.StreamError, which is
// all that net/http's own stream error needs for errors.As to convert it.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamError) Error() string { return "http2: stream error" }

const refusedStream = 0x7 // RFC 9113, section 7

// anyOf reports whether fits returns true for any error in err's tree.
func anyOf(err error, fits func(error) bool) bool {
	for err != nil {
		if fits(err) {
			return true
		}
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			for _, err := range e.Unwrap() {
				if anyOf(err, fits) {
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

// allOf reports whether fits returns true for an error in err's tree and, where
// errors are joined, for one in the tree of each.
func allOf(err error, fits func(error) bool) bool {
	for err != nil {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			branches := joined.Unwrap()
			return len(branches) > 0 && !slices.ContainsFunc(branches, func(err error) bool { return !allOf(err, fits) })
		}
		if fits(err) {
			return true
		}
		err = errors.Unwrap(err)
	}
	return false
}
