package delivery

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"

	"example.com/awsretry"
	"example.com/awsretry/internal/neterr"
)

// classify is an awsretry.Policy with the rules of Amazon SNS, "Message
// delivery retries", apart from RetryStatus.
func (t *Transport) classify(a *awsretry.Attempt) awsretry.Class {
	switch {
	case a.Err != nil:
		return t.errorClass(a)
	case delivered(a.Response):
		return awsretry.Success
	}
	return t.statusClass(a.Response.StatusCode)
}

func (t *Transport) errorClass(a *awsretry.Attempt) awsretry.Class {
	if status, ok := neterr.ProxyStatus(a.Err); ok {
		return t.statusClass(status)
	}
	class := awsretry.DefaultPolicy(a)
	if class == awsretry.Permanent && connectionFailed(a.Err) {
		return awsretry.Transient
	}
	return class
}

// statusClass returns the class of a status that is not a 2xx.
func (t *Transport) statusClass(status int) awsretry.Class {
	switch {
	case !t.retries(status):
		return awsretry.Permanent
	case status == http.StatusTooManyRequests:
		return awsretry.Throttled
	}
	return awsretry.Transient
}

// retries reports whether a status that is not a 2xx is retried.
func (t *Transport) retries(status int) bool {
	if t.RetryStatus != nil {
		return t.RetryStatus(status)
	}
	return status == http.StatusTooManyRequests || status/100 == 5
}

// delivered reports whether resp is a 2xx.
func delivered(resp *http.Response) bool { return resp.StatusCode/100 == 2 }

// connectionFailed reports whether err is a failure that the server's operator
// can fix, such as of its name or certificate. Other policies do not
// retry it because they retry for seconds; a delivery policy may for hours or
// days.
func connectionFailed(err error) bool {
	var (
		op          *net.OpError
		name        *net.DNSError
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
		alert       tls.AlertError
		ech         *tls.ECHRejectionError
	)
	return errors.As(err, &op) || errors.As(err, &name) || errors.As(err, &certificate) || errors.As(err, &record) ||
		errors.As(err, &alert) || errors.As(err, &ech) || errors.Is(err, http.ErrSchemeMismatch) || handshakeFailed(err)
}

// handshakeFailed reports whether err is a TLS handshake error for which
// crypto/tls has no type, such as an unsupported version.
func handshakeFailed(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if strings.HasPrefix(err.Error(), "tls: ") {
			return true
		}
	}
	return false
}
