package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/redact"
)

// A printer writes a table of attempts, a line for each as it happens.
type printer struct {
	w        io.Writer
	palette  palette
	indent   string
	width    int                                  // see table
	adaptive bool                                 // the columns of adaptive mode too
	state    func() (awsretry.State, bool)        // of the request's partition
	detail   func(awsretry.Attempt) (text string) // what to say beside the code; nil: the header fields that matter

	begun bool
	table table
}

func (p *printer) columns() []column {
	columns := []column{
		{title: "#", width: 3, right: true},
		{title: "STATUS", width: 7},
		{title: "CLASS", width: 9, spare: 1},
		{title: "TIME", width: 7, right: true, spare: 3},
	}
	if p.adaptive {
		columns = append(columns,
			column{title: "WAITED", width: 7, right: true, spare: 5},
			column{title: "RATE", width: 7, right: true, spare: 4})
	}
	return append(columns,
		column{title: "TOKENS", width: 6, right: true, spare: 2},
		column{title: "NEXT", width: 22},
		column{title: "DETAIL"})
}

// attempt is an observer.
func (p *printer) attempt(a awsretry.Attempt) {
	if !p.begun {
		p.begun = true
		p.table = table{w: p.w, indent: p.indent, width: p.width, columns: p.columns()}
		p.table.header(p.palette)
	}

	state, known := p.state()
	class := p.palette.class(a.Class)
	cells := []string{strconv.Itoa(a.Number), status(a), a.Class.String(), brief(a.Elapsed)}
	paint := map[int]func(...any) string{1: class, 2: class}
	if p.adaptive {
		rate := "free"
		if state.Limited {
			rate = fmt.Sprintf("%.1f/s", state.SendRate)
		}
		waited := "-"
		if a.Waited >= time.Millisecond/2 { // below that it is the time that asking took
			waited = brief(a.Waited)
		}
		cells = append(cells, waited, rate)
	}
	tokens := "-"
	if known && state.Tokens != math.MaxInt {
		tokens = strconv.Itoa(state.Tokens)
	}
	detail := p.detail
	if detail == nil {
		detail = details
	}
	next := len(cells) + 1
	cells = append(cells, tokens, nextStep(a), oneLine(detail(a)))
	if a.Class.Retryable() && a.Stop != "" {
		paint[next] = p.palette.bad
	}
	p.table.row(cells, func(column int) func(...any) string { return paint[column] })
}

// status is the answer in a word.
func status(a awsretry.Attempt) string {
	if a.Response != nil {
		return strconv.Itoa(a.Response.StatusCode)
	}
	var (
		dns         *net.DNSError
		certificate *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		hostname    x509.HostnameError
		record      tls.RecordHeaderError
	)
	switch {
	case a.Stop == awsretry.StopCanceled:
		return "ended"
	case a.Class == awsretry.Timeout:
		return "timeout"
	case errors.As(a.Err, &dns):
		return "dns"
	case errors.Is(a.Err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(a.Err, syscall.ECONNRESET), errors.Is(a.Err, syscall.EPIPE):
		return "reset"
	case errors.As(a.Err, &certificate), errors.As(a.Err, &authority), errors.As(a.Err, &hostname), errors.As(a.Err, &record):
		return "tls"
	case errors.Is(a.Err, io.EOF), errors.Is(a.Err, io.ErrUnexpectedEOF):
		return "closed"
	}
	return "error"
}

// nextStep says what follows, in a few words.
func nextStep(a awsretry.Attempt) string {
	switch a.Stop {
	case "":
		return "retry in " + brief(a.Delay)
	case awsretry.StopSuccess:
		return "done"
	case awsretry.StopPermanent:
		return "stop: not retryable"
	case awsretry.StopMaxAttempts:
		return "stop: attempts used up"
	case awsretry.StopQuota:
		return "stop: too few tokens"
	case awsretry.StopDeadline:
		return "stop: deadline is near"
	case awsretry.StopCanceled:
		return "stop: canceled"
	case awsretry.StopBody:
		return "stop: body is gone"
	case awsretry.StopRetryAfter:
		return "stop: pause too long"
	case awsretry.StopRateLimit:
		return "stop: rate limited"
	case awsretry.StopOuterRetry:
		return "stop: caller retries"
	case awsretry.StopDisabled:
		return "stop: retries are off"
	}
	return "stop: " + string(a.Stop)
}

// details are the AWS error code and the header fields that decide on the pause, or the error.
func details(a awsretry.Attempt) string {
	if a.Response == nil {
		return redact.Error(withoutAddresses(a.Err))
	}
	var parts []string
	if a.Code != "" {
		parts = append(parts, a.Code)
	}
	for _, name := range []string{"Retry-After", "X-Amz-Retry-After"} {
		if value := a.Response.Header.Get(name); value != "" && a.Class.Retryable() {
			parts = append(parts, name+": "+value)
		}
	}
	if to, err := a.Response.Location(); err == nil && a.Response.StatusCode/100 == 3 {
		parts = append(parts, "to "+bareURL(to))
	}
	return strings.Join(parts, ", ")
}

// withoutAddresses is what failed on a connection that was there. Its addresses are a local port, which says nothing, and
// that of the server, which is the same in every line.
func withoutAddresses(err error) error {
	var outer, op *net.OpError
	if !errors.As(err, &outer) || outer.Op == "dial" || outer.Op == "proxyconnect" {
		return err
	}
	op = outer
	for errors.As(op.Err, &op) {
	}
	if op.Err == nil {
		return err
	}
	return op.Err
}

// requestID is the service's name for the request: what its operators ask for.
func requestID(resp *http.Response) string {
	for _, name := range []string{"X-Amzn-Requestid", "X-Amz-Request-Id", "X-Request-Id"} {
		if id := resp.Header.Get(name); id != "" {
			return oneLine(id)
		}
	}
	return ""
}
