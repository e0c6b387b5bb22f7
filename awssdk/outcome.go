package awssdk

import (
	"errors"
	"io"
	"net/http"

	"example.com/awsretry"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// responseOf returns the response that err came with, nil if there is none. Of
// some errors only the status is known.
func responseOf(err error) *http.Response {
	var e *smithyhttp.ResponseError
	if errors.As(err, &e) {
		if e.Response == nil || e.Response.Response == nil || e.Response.StatusCode == 0 {
			return nil // an error of sending has an empty response
		}
		return e.Response.Response
	}
	var status interface{ HTTPStatusCode() int }
	if errors.As(err, &status) && status.HTTPStatusCode() > 0 {
		return &http.Response{StatusCode: status.HTTPStatusCode(), Header: make(http.Header), Body: http.NoBody}
	}
	return nil
}

// codeOf returns the error code of an API error, "" if err is not one.
func codeOf(err error) string {
	var e interface{ ErrorCode() string }
	if errors.As(err, &e) {
		return e.ErrorCode()
	}
	return ""
}

// nested reports whether err is of another operation that the attempt needed,
// such as one for credentials. The service of the attempt had no part in it.
func nested(err error) bool {
	var e *smithy.OperationError
	return errors.As(err, &e)
}

// An ask returns the class that the policy gives to an outcome.
type ask func(resp *http.Response, code string, err error) awsretry.Class

// classOf returns the class of err. The policy decides, except that an error
// decides that says whether it is retryable, and that one is permanent that did
// not come from the network. So is one of reading a response that is no failure,
// since the service has done what it was asked, unless the SDK retries it.
func classOf(err error, policy ask) awsretry.Class {
	resp, code := responseOf(err), codeOf(err)
	var class awsretry.Class
	switch {
	case resp == nil && code != "":
		class = policy(&http.Response{Header: make(http.Header)}, code, nil)
	case resp != nil && (code != "" || resp.StatusCode >= http.StatusBadRequest):
		class = policy(resp, code, nil)
	default:
		class = policy(nil, "", err)
		if !brokenConnection(err) && (resp != nil || !fromNetwork(err)) {
			class = awsretry.Permanent
		}
	}
	switch {
	case class == awsretry.Success, canceled(err), saysRetryable(err) == aws.FalseTernary:
		return awsretry.Permanent
	case saysRetryable(err) == aws.TrueTernary && !class.Retryable():
		return awsretry.Transient
	}
	return class
}

// canceled reports whether the end of the caller's context is why the attempt
// failed.
func canceled(err error) bool {
	return retry.NoRetryCanceledError{}.IsErrorRetryable(err) == aws.FalseTernary
}

// saysRetryable returns what err says of itself, such as that of a clock that
// is wrong.
func saysRetryable(err error) aws.Ternary { return retry.RetryableError{}.IsErrorRetryable(err) }

// brokenConnection reports whether err is one of the connection for the SDK,
// which retries these whatever the response was.
func brokenConnection(err error) bool {
	return retry.RetryableConnectionError{}.IsErrorRetryable(err) == aws.TrueTernary
}

// fromNetwork reports whether err is of sending a request or reading its
// response. Others are of making the request, such as missing credentials.
func fromNetwork(err error) bool {
	var send *smithyhttp.RequestSendError
	return errors.As(err, &send) || errors.Is(err, io.ErrUnexpectedEOF)
}
