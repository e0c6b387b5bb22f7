package awsretry

import (
	"errors"
	"net/http"
	"reflect"
	"strings"

	"example.com/awsretry/internal/awsproto"
	"example.com/awsretry/internal/neterr"
	"example.com/awsretry/internal/respbody"
)

// A Mode is a set of retry rules, as the AWS SDKs and Tools Reference Guide,
// "Retry behavior", names them.
type Mode string

// The modes.
const (
	Standard Mode = "standard" // a retry token bucket and jittered exponential backoff
	Adaptive Mode = "adaptive" // Standard, and a rate limiter that delays first attempts too

	// Legacy has the attempts and delays of the AWS SDK for Go v1: 4 attempts, no
	// bucket, its own backoff. That SDK also retried ExpiredToken,
	// ExpiredTokenException and RequestExpired, with new credentials. Here they are
	// Permanent, unless Policy says otherwise and Prepare signs each attempt.
	Legacy Mode = "legacy"
)

// A Revision is a version of the rules of a Mode. Legacy has one only.
type Revision int

// The revisions.
const (
	// DefaultRevision is Classic in a Transport, and in package awssdk the
	// revision of the SDK that the program is compiled with.
	DefaultRevision Revision = iota
	// Classic has the rules of the AWS documents.
	Classic
	// Revision2026 has the rules of the AWS SDKs of 2026, "Retry Behavior 2.1":
	// shorter delays, other costs, and the header x-amz-retry-after.
	Revision2026
)

// String returns "default", "classic" or "2026".
func (r Revision) String() string {
	switch r {
	case DefaultRevision:
		return "default"
	case Classic:
		return "classic"
	case Revision2026:
		return "2026"
	}
	return "unknown revision"
}

// A Class is the classification of an attempt's outcome. The zero value is
// Success.
type Class int

// The classes.
const (
	Success   Class = iota // the request succeeded: any status below 400
	Permanent              // the request failed, and would fail again or must not be sent again
	Transient              // the request failed, and a retry may succeed
	Timeout                // no response came in time; retried as Transient is, at a higher cost
	Throttled              // the service asked for fewer requests
)

// Retryable reports whether a retry is worthwhile after an outcome of the
// class.
func (c Class) Retryable() bool { return c == Transient || c == Timeout || c == Throttled }

// String returns the name of the class in lower case.
func (c Class) String() string {
	switch c {
	case Success:
		return "success"
	case Permanent:
		return "permanent"
	case Transient:
		return "transient"
	case Timeout:
		return "timeout"
	case Throttled:
		return "throttled"
	}
	return "unknown class"
}

// A Stop is the reason why no attempt follows another. It is empty if one does.
type Stop string

// The reasons.
const (
	StopSuccess     Stop = "success"      // there is nothing to retry
	StopPermanent   Stop = "permanent"    // a retry would fail again, or is unsafe: see IdempotentOnly
	StopMaxAttempts Stop = "max_attempts" // MaxAttempts were sent
	StopQuota       Stop = "quota"        // the retry token bucket has too few tokens
	StopDeadline    Stop = "deadline"     // the context's deadline has passed, or would before the next attempt
	StopCanceled    Stop = "canceled"     // the caller canceled the context or Request.Cancel
	StopBody        Stop = "body"         // the request body cannot be sent again
	StopRetryAfter  Stop = "retry_after"  // the service asks for a longer delay than MaxRetryAfter
	StopOuterRetry  Stop = "outer_retry"  // the request's headers show that an AWS SDK retries it
	StopDisabled    Stop = "disabled"     // the context is from WithoutRetry

	// StopRateLimit means that nothing may be sent in time: because of
	// RateLimit.FailFast or RateLimit.MaxWait, or because the context's
	// deadline is before the next send token or the end of a shared
	// Retry-After.
	StopRateLimit Stop = "rate_limit"
)

// A Policy classifies the outcome of an attempt. It sees the Request, Number,
// Response, Err, Code and Body; either Response or Err is set. It may read the status
// and the headers of the response, and must not read its body. It is not called
// if the caller's context ended the attempt. A Policy must be safe for
// concurrent use.
type Policy func(*Attempt) Class

// DefaultPolicy classifies as the Service of package services does that was applied
// to the Transport. Without one, and if a Service's own policy calls it, it
// classifies as the AWS SDKs do: by the AWS error code if it is a known one, else by
// the status, and a transport error by its type. 429, 509 and 529 are Throttled. 408
// and 5xx are Transient, except for 501, 505, 506, 507, 508, 510 and 511, and so is an
// error that Amazon S3 sent with status 200. Any other status from 400 up is
// Permanent. A proxy that refuses CONNECT counts by its status. docs/SOURCES.md names
// the documents.
func DefaultPolicy(a *Attempt) Class { return a.classify(a.ServicePolicy) }

// sdkClass is the class by the rules of the AWS SDKs.
func sdkClass(a *Attempt) Class {
	switch {
	case a.Err != nil && a.Request != nil && a.Request.Context().Err() != nil:
		return Permanent // the caller's context has ended
	case a.Err != nil:
		return errorClass(a.Err)
	case a.Response == nil:
		return Permanent
	}
	if class, known := codeClass(a.Code); known {
		return class
	}
	if a.Response.StatusCode < 400 && a.Code != "" {
		if a.Request != nil && awsproto.MayHideError(a.Request) {
			return Transient // the SDKs treat a 200 of Amazon S3 that has an error as a 500
		}
		return Permanent
	}
	return statusClass(a.Response.StatusCode)
}

// errorClass classifies an error of the transport.
func errorClass(err error) Class {
	if timeout := (*respbody.TimeoutError)(nil); errors.As(err, &timeout) {
		return Timeout
	}
	if broken := (*bodyError)(nil); errors.As(err, &broken) && !neterr.TimedOut(err) {
		return Transient
	}
	if status, ok := neterr.ProxyStatus(err); ok {
		return statusClass(status)
	}
	if neterr.Permanent(err) {
		return Permanent
	}
	if neterr.TimedOut(err) {
		return Timeout
	}
	return Transient
}

// A bodyError is why a response body broke off. It is transient even if the
// same error would be permanent before the headers: no TLS handshake has
// failed, and the request was valid.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return e.err.Error() }
func (e *bodyError) Unwrap() error { return e.err }

// codeClass classifies the error codes of the AWS SDKs and Tools Reference
// Guide, "Retry behavior", of Amazon SimpleDB, "API error retries", and those that
// a model of botocore 1.43.67 marks as retryable and no model has for another
// failure. SOAP and the query protocol of Amazon EC2 put Client. or Server. before
// a code.
func codeClass(code string) (class Class, known bool) {
	switch strings.TrimPrefix(strings.TrimPrefix(code, "Client."), "Server.") {
	case "BandwidthLimitExceeded", "EC2ThrottledException", "LimitExceededException", "PriorRequestNotComplete",
		"ProvisionedThroughputExceededException", "RequestLimitExceeded", "RequestThrottled",
		"RequestThrottledException", "SlowDown", "ThrottledException", "Throttling", "ThrottlingException",
		"TooManyRequestsException", "TransactionInProgressException":
		return Throttled, true
	case "RequestTimeout", "RequestTimeoutException", "IDPCommunicationError", "InternalError", "InternalServerError",
		"InternalFailure", "ServiceUnavailable",
		"BulkLoadIdNotFoundException", "ClientTimeoutException", "DirectoryUnavailableException",
		"InsufficientCapacityException", "QueryTimeoutException", "RangeNotSatisfiableException",
		"ReplicatedWriteConflictException", "RetryableConflictException", "S3Exception",
		"StreamSessionAccessNotReadyException":
		return Transient, true
	}
	switch side, _, _ := strings.Cut(code, "."); {
	case side == "Client", code == "Sender": // sent with status 500
		return Permanent, true
	case side == "Server", code == "Receiver":
		return Transient, true
	}
	return Success, false
}

func statusClass(status int) Class {
	switch {
	case status < 400:
		return Success
	case status == http.StatusTooManyRequests, status == 509, status == 529:
		return Throttled
	case status == http.StatusRequestTimeout:
		return Transient
	case status < 500 || status > 599:
		return Permanent
	}
	switch status {
	case 501, 505, 506, 507, 508, 510, 511:
		return Permanent
	}
	return Transient
}

// IdempotentOnly returns a policy that classifies as policy does, or as DefaultPolicy
// if that is nil, but makes Transient and Timeout Permanent unless it is safe to send
// the request twice: its method is idempotent (RFC 9110), it has an Idempotency-Key or
// X-Idempotency-Key header, even one from Transport.IdempotencyKey, or nothing of it was
// sent. To know that of a POST or PATCH to an https URL, the Transport traces its
// connection, which costs a few allocations. A Base that tries one transport after
// another must call the hooks of [net/http/httptrace] for each, as net/http does: if
// only those that found no connection call them, the request counts as never sent.
func IdempotentOnly(policy Policy) Policy {
	if policy == nil {
		return idempotentOnly
	}
	return func(a *Attempt) Class { return ifIdempotent(a, policy(a)) }
}

// idempotentOnly is IdempotentOnly(nil). A Transport knows it by its identity.
func idempotentOnly(a *Attempt) Class { return ifIdempotent(a, DefaultPolicy(a)) }

// isDefault reports whether policy never changes the class of a response below 400
// without an error code.
func (policy Policy) isDefault() bool {
	return policy == nil || reflect.ValueOf(policy).Pointer() == reflect.ValueOf(idempotentOnly).Pointer()
}

// ifIdempotent returns class, or Permanent if it is not safe to send the request
// again.
func ifIdempotent(a *Attempt, class Class) Class {
	if class != Transient && class != Timeout || a.NeverSent || neterr.NeverSent(a.Err) || idempotent(a) {
		return class
	}
	return Permanent
}

func idempotent(a *Attempt) bool {
	if a.IdempotencyKey != "" {
		return true
	}
	req := a.Request
	if req == nil {
		return false
	}
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return hasKey(req)
}

func hasKey(req *http.Request) bool {
	_, key := req.Header[keyHeader]
	_, xKey := req.Header["X-Idempotency-Key"]
	return key || xKey
}

// keyHeader is the header of draft-ietf-httpapi-idempotency-key-header.
const keyHeader = "Idempotency-Key"

// RandomKey returns a random UUID (RFC 9562, version 4), for
// Transport.IdempotencyKey.
func RandomKey(*http.Request) string { return awsproto.NewInvocationID() }
