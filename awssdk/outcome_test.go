package awssdk

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"testing"

	"example.com/awsretry"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

type saysItself bool

func (saysItself) Error() string          { return "an error that says whether it is retryable" }
func (s saysItself) RetryableError() bool { return bool(s) }

func sending(err error) error {
	return &smithyhttp.RequestSendError{Err: &url.Error{Op: "Post", URL: "http://127.0.0.1/", Err: err}}
}

func TestClasses(t *testing.T) {
	broken := step{status: 200}.response(nil)
	for _, tt := range []struct {
		name string
		err  error
		want awsretry.Class
	}{
		{"500", step{status: 500}.failure(nil), awsretry.Transient},
		{"404", step{status: 404}.failure(nil), awsretry.Permanent},
		{"429", step{status: 429}.failure(nil), awsretry.Throttled},
		{"400 with a throttling code", step{status: 400, code: "ThrottlingException"}.failure(nil), awsretry.Throttled},
		{"200 with a code, as from Amazon S3", step{status: 200, code: "InternalError"}.failure(nil), awsretry.Transient},
		{"a code without a response", &smithy.GenericAPIError{Code: "Throttling"}, awsretry.Throttled},
		{"reset", sending(syscall.ECONNRESET), awsretry.Transient},
		{"timeout", sending(&net.OpError{Op: "read", Err: timeout{}}), awsretry.Timeout},
		{"certificate", sending(x509.UnknownAuthorityError{}), awsretry.Permanent},
		{"body that breaks off", bodyError(broken, io.ErrUnexpectedEOF), awsretry.Permanent},
		{"body of a 503 that breaks off", bodyError(step{status: 503}.response(nil), io.ErrUnexpectedEOF), awsretry.Transient},
		{"credentials whose response breaks off", fmt.Errorf("failed to refresh: %w", io.ErrUnexpectedEOF), awsretry.Transient},
		{"body that is reset", bodyError(broken, &net.OpError{Op: "read", Err: syscall.ECONNRESET}), awsretry.Transient},
		{"body that times out", bodyError(broken, timeout{}), awsretry.Timeout},
		{"body that cannot be read", bodyError(broken, errors.New("invalid character")), awsretry.Permanent},
		{"429 without a response", statusError(429), awsretry.Throttled},
		{"canceled", &aws.RequestCanceledError{Err: context.Canceled}, awsretry.Permanent},
		{"no credentials", errors.New("no EC2 IMDS role found"), awsretry.Permanent},
		{"credentials that time out", fmt.Errorf("failed to refresh: %w", timeout{}), awsretry.Timeout},
		{"says that it is retryable", saysItself(true), awsretry.Transient},
		{"says that it is not", fmt.Errorf("%w: %w", saysItself(false), step{status: 500}.failure(nil)), awsretry.Permanent},
		{"throttled and says that it is retryable",
			fmt.Errorf("%w: %w", saysItself(true), step{status: 429}.failure(nil)), awsretry.Throttled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := mustRetryer(t, Config{})
			if got := r.class(tt.err); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
			if got := r.IsErrorRetryable(tt.err); got != tt.want.Retryable() {
				t.Errorf("IsErrorRetryable is %v", got)
			}
		})
	}
}

// A statusError is an error that has the status of a response and nothing else
// of it, as those of the client for container credentials.
type statusError int

func (e statusError) Error() string       { return fmt.Sprint("status ", int(e)) }
func (e statusError) HTTPStatusCode() int { return int(e) }

type timeout struct{}

func (timeout) Error() string { return "i/o timeout" }
func (timeout) Timeout() bool { return true }

// bodyError is what the SDK makes of a response whose body fails.
func bodyError(resp *http.Response, err error) error {
	return &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: resp},
		Err:      &smithy.DeserializationError{Err: err},
	}
}

// A policy decides by the response with its code, or by the error. It always
// sees a Request, also of a client that Apply did not configure.
func TestPolicy(t *testing.T) {
	each(t, func(t *testing.T, apply bool) {
		byError, byCode := 0, 0
		r := mustRetryer(t, Config{Policy: func(a *awsretry.Attempt) awsretry.Class {
			if a.Request == nil || (a.Response == nil) == (a.Err == nil) {
				t.Errorf("the policy sees %+v", a)
			}
			if errors.Is(a.Err, io.EOF) {
				byError++
			}
			if a.Code != "Custom" {
				return awsretry.DefaultPolicy(a)
			}
			byCode++
			return awsretry.Throttled
		}})
		c := newClient(apply)
		c.call(t.Context(), r, step{err: sending(io.EOF)}, step{status: 400, code: "Custom"}, step{status: 404})
		if byError == 0 || byCode == 0 || len(c.sent) != 3 {
			t.Errorf("%d attempts; the policy saw the error %d times, the code %d times", len(c.sent), byError, byCode)
		}
	})
}
