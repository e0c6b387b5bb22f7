package awssdk

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// A failure is the outcome of an attempt.
type failure struct {
	name    string
	status  int // 0: without a response
	code    string
	kind    string // of an error that is not the service's
	err     error
	modeled bool // the code is that of a type of the SDK's
}

// error returns the SDK's error for the failure.
func (f failure) error() error {
	s := step{status: f.status, code: f.code}
	switch {
	case f.err != nil:
		return f.err
	case f.code == "" || f.modeled:
		return s.failure(new(http.Request))
	}
	return &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: s.response(new(http.Request))}, Err: &smithy.GenericAPIError{Code: f.code},
	}
}

// A difference is one in what is retried, with its row in docs/compare/awssdk.md.
type difference struct {
	row   string
	fits  func(failure) bool
	retry bool // here, and not by the SDK's standard retryer; else the other way round
}

var (
	transientCodes = []string{
		"IDPCommunicationError", "InternalError", "InternalFailure", "InternalServerError",
		"ServiceUnavailable", "Server", "Receiver", "Server.Internal",
	}
	modelCodes = []string{
		"BulkLoadIdNotFoundException", "ClientTimeoutException", "DirectoryUnavailableException",
		"InsufficientCapacityException", "QueryTimeoutException", "RangeNotSatisfiableException",
		"ReplicatedWriteConflictException", "RetryableConflictException", "S3Exception",
		"StreamSessionAccessNotReadyException",
	}
	clientCodes   = []string{"Client", "Sender", "Client.AuthFailure"}
	prefixedCodes = []string{"Client.RequestLimitExceeded", "Client.InternalError"}
)

var differences = []difference{
	{"| the status 408 with a code that is not known | no | yes |",
		func(f failure) bool { return f.status == 408 && f.err == nil }, true},
	{"| the status 429 with a code that is not known, if the SDK has a type for it | no | as throttling |",
		func(f failure) bool { return f.status == 429 && f.modeled }, true},
	{"| the statuses 509 and 529 with a code that is not known | no | as throttling |",
		func(f failure) bool { return f.status == 509 || f.status == 529 }, true},
	{"| other statuses from 512 to 599 with a code that is not known | no | yes |",
		func(f failure) bool { return f.status >= 512 }, true},
	{"| the codes `IDPCommunicationError` (by the SDK's client of AWS STS too), `InternalError`, `InternalFailure`, " +
		"`InternalServerError`, `ServiceUnavailable`, `Server`, `Receiver`, `Server.…` | " +
		"with 500, 502, 503 and 504 | with every status |",
		func(f failure) bool { return slices.Contains(transientCodes, f.code) }, true},
	{"| [the ten codes](../SOURCES.md#sdk) that a model marks as retryable, such as `RetryableConflictException` | " +
		"with 500, 502, 503 and 504 | with every status |",
		func(f failure) bool { return slices.Contains(modelCodes, f.code) }, true},
	{"| a code that is retried, after `Client.`, such as `Client.RequestLimitExceeded` | " +
		"with 500, 502, 503 and 504 | with every status |",
		func(f failure) bool { return slices.Contains(prefixedCodes, f.code) }, true},
	{"| the codes `Client`, `Sender`, other `Client.…` | with 500, 502, 503 and 504 | no |",
		func(f failure) bool { return slices.Contains(clientCodes, f.code) }, false},
	{"| a certificate that is not accepted, another failure of the TLS handshake | yes | no |",
		func(f failure) bool { return f.kind == "TLS" }, false},
	{"| a request that net/http does not send, such as one to a URL that it does not know | yes | no |",
		func(f failure) bool { return f.kind == "request" }, false},
	{"| a 4xx whose body ends with a reset or a timeout | yes | no |",
		func(f failure) bool { return f.kind == "body" && f.status >= 400 && f.status < 500 }, false},
	{"| a source of credentials whose response breaks off, where its error has no status | no | yes |",
		func(f failure) bool { return f.kind == "credentials" }, true},
}

// failures returns those that the two may differ about.
func failures() []failure {
	var all []failure
	codes := slices.Concat([]string{"", "UnknownError", "ValidationException"}, transientCodes, modelCodes, clientCodes, prefixedCodes,
		slices.Sorted(maps.Keys(retry.DefaultThrottleErrorCodes)), slices.Sorted(maps.Keys(retry.DefaultRetryableErrorCodes)))
	for status := 200; status < 600; status++ {
		for _, code := range codes {
			if code != "" || status >= 300 {
				all = append(all, failure{name: fmt.Sprintf("%d %q", status, code), status: status, code: code})
			}
			if code != "" {
				all = append(all, failure{name: fmt.Sprintf("%d %q, modeled", status, code), status: status, code: code, modeled: true})
			}
		}
	}
	for _, code := range codes[1:] {
		all = append(all, failure{name: code + " without a response", code: code, err: &smithy.GenericAPIError{Code: code}})
	}
	for name, err := range map[string]error{
		"unknown authority": x509.UnknownAuthorityError{},
		"another host":      x509.HostnameError{Certificate: new(x509.Certificate)},
		"alert":             &net.OpError{Op: "remote error", Err: tls.AlertError(40)},
		"no TLS":            tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"},
	} {
		all = append(all, failure{name: name, kind: "TLS", err: sending(err)})
	}
	all = append(all,
		failure{name: "scheme", kind: "request", err: sending(errors.New(`unsupported protocol scheme "s3"`))},
		failure{name: "cut credentials", kind: "credentials", err: fmt.Errorf("failed to refresh: %w", io.ErrUnexpectedEOF)})
	for name, err := range map[string]error{
		"reset": syscall.ECONNRESET, "EOF": io.EOF, "unexpected EOF": io.ErrUnexpectedEOF, "closed": net.ErrClosed,
		"timeout": &net.OpError{Op: "read", Err: timeout{}}, "pipe": syscall.EPIPE,
		"HTTP/2": errors.New("http2: server sent GOAWAY and closed the connection"),
	} {
		all = append(all, failure{name: "sending, " + name, kind: "sending", err: sending(err)})
		for _, status := range []int{200, 202, 304, 404, 500, 503} {
			resp := step{status: status}.response(nil)
			all = append(all, failure{
				name: fmt.Sprint("body of a ", status, ", ", name), status: status, kind: "body", err: bodyError(resp, err),
			})
		}
	}
	for name, err := range map[string]error{
		"refused": syscall.ECONNREFUSED, "unreachable": syscall.EHOSTUNREACH, "no name": &net.DNSError{IsNotFound: true},
		"names for now": &net.DNSError{IsTemporary: true}, "slow names": &net.DNSError{IsTimeout: true},
	} {
		all = append(all, failure{name: "dial, " + name, kind: "dial", err: sending(&net.OpError{Op: "dial", Err: err})})
	}
	return all
}

// What is retried differs from the SDK's standard retryer as docs/compare/awssdk.md
// says, and in nothing else.
func TestDifferences(t *testing.T) {
	page, err := os.ReadFile("../docs/compare/awssdk.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := make([]int, len(differences))
	r, sdk := mustRetryer(t, Config{}), retry.NewStandard()
	for _, f := range failures() {
		err := f.error()
		here := r.IsErrorRetryable(err)
		if here == sdk.IsErrorRetryable(err) {
			continue
		}
		i := slices.IndexFunc(differences, func(d difference) bool { return d.retry == here && d.fits(f) })
		if i < 0 {
			t.Errorf("%s: retried %v, by the SDK %v", f.name, here, !here)
			continue
		}
		seen[i]++
	}
	for i, d := range differences {
		if seen[i] == 0 {
			t.Errorf("there is no such difference: %s", d.row)
		}
		if !strings.Contains(string(page), d.row+"\n") {
			t.Errorf("docs/compare/awssdk.md does not have %s", d.row)
		}
	}
}
