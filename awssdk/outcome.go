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

// responseOf returns the response that err is about, or nil. Some errors have
// only its status.
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

// codeOf returns the code of an API error, or "" if err is not one.
func codeOf(err error) string {
	var e interface{ ErrorCode() string }
	if errors.As(err, &e) {
		return e.ErrorCode()
	}
	return ""
}

// nested reports whether err is the error of another operation that the attempt
// needed, such as one for credentials.
func nested(err error) bool {
	var e *smithy.OperationError
	return errors.As(err, &e)
}

// An ask returns the class of an outcome by the policy.
type ask func(resp *http.Response, code string, err error) awsretry.Class

// classOf returns the class of err by the policy, with three exceptions. An
// error that says itself whether it is retryable decides that. An error that
// did not come from the network is permanent. So is an error of reading a
// successful response, since the service has done what it was asked, unless the
// SDK retries it.
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

// canceled reports whether the attempt failed because the caller's context
// ended.
func canceled(err error) bool {
	return retry.NoRetryCanceledError{}.IsErrorRetryable(err) == aws.FalseTernary
}

// saysRetryable returns what err says about itself, such as the error of a
// wrong clock.
func saysRetryable(err error) aws.Ternary { return retry.RetryableError{}.IsErrorRetryable(err) }

// brokenConnection reports whether the SDK takes err for an error of the
// connection, which it retries regardless of the response.
func brokenConnection(err error) bool {
	return retry.RetryableConnectionError{}.IsErrorRetryable(err) == aws.TrueTernary
}

// fromNetwork reports whether err is from sending a request or reading its
// response, not from making the request, such as missing credentials.
func fromNetwork(err error) bool {
	var send *smithyhttp.RequestSendError
	return errors.As(err, &send) || errors.Is(err, io.ErrUnexpectedEOF)
}
