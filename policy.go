package awsretry

import (
	"errors"
	"net/http"
	"reflect"
	"strings"
	"time"

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

// An Attempt is the record of one attempt to send a request, or of a call that was
// refused before its first attempt.
type Attempt struct {
	// Request is the caller's request. If the attempt continues a response body,
	// it is a copy with the Range and If-Range headers of the rest. It must not
	// be changed.
	Request *http.Request

	// Number is the number of the attempt, from 1, or if it continues a response
	// body, from the attempt that brought its last byte. It is 0 if the call ends
	// because an attempt, usually its first, was refused: by the retry token bucket
	// (Quota.InitialCost), because no send token would come in time, because of a
	// shared Retry-After, because of an error of Prepare, or because the deadline
	// passed before it was sent. Then Err is the Err of RoundTrip's [*Error]. Class
	// is Throttled, or Permanent after StopPermanent or if the deadline has passed.
	// There is no record of a call that was canceled before its first attempt, that
	// was made after its deadline, or whose With options are not valid.
	Number int

	// MaxAttempts is how many attempts the call may make.
	MaxAttempts int

	// Offset is the first byte that the attempt asks for to continue a response
	// body that broke off, as a position in the object. It is 0 if the attempt
	// does not continue one, and if nothing of the object arrived before. See
	// Transport.Resume.
	Offset int64

	// Response is nil if there is an Err. Only the caller of RoundTrip may read
	// its body.
	Response *http.Response

	// Err is the unchanged error of the Transport's Base, or the library's error
	// for an attempt that took longer than AttemptTimeout. If Request.Cancel ended
	// the attempt, Err is context.DeadlineExceeded after the deadline, such as that
	// of an http.Client with a Timeout, and context.Canceled before. If Base
	// panicked, Err reports that.
	Err error

	// BodyErr is why the request body cannot be sent again, if Stop is StopBody.
	BodyErr error

	// IdempotencyKey is the Idempotency-Key that the Transport set, see
	// Transport.IdempotencyKey, or "".
	IdempotencyKey string

	// Body is the part of a 2xx body that Peek has read, or the part of the first
	// 64 KiB of an error body that was read. It is decompressed if the
	// Content-Encoding is gzip or deflate, up to the first byte that cannot be
	// decompressed, and is empty for any other Content-Encoding. The body of the
	// Response does not change. Body is nil without Transport.Peek. It is valid
	// during the call of a Policy or an observer, and must not be changed.
	Body []byte

	// Code is the AWS error code in the response, or "". It is also found in
	// a body that is compressed with gzip or deflate. It is UnknownError if
	// Amazon S3 sent an error without a code with status 200. If no retry can
	// follow, because of MaxAttempts 1, WithoutRetry, an outer loop or a one-shot request
	// body of which too much was sent, only the headers are searched: the
	// response body is not read before the caller has it. In [Adaptive] mode a
	// body with a Content-Length is read nevertheless, because the rate limiter
	// needs to know of throttling. No body is read while a one-shot request body
	// is still being written.
	Code string

	// Class is the classification of the outcome.
	Class Class

	// Start is when the attempt was sent. Elapsed is the time from then until
	// its outcome was classified. Waited is the time that it waited before
	// that, for a send token (in Adaptive mode) and for the end of a shared
	// Retry-After. All three are zero if there is no observer.
	Start   time.Time
	Elapsed time.Duration
	Waited  time.Duration

	// Asked is the delay that the response asks for, by Retry-After or by
	// Transport.RetryAfter, or 0.
	Asked time.Duration

	// Delay is the time before the next attempt, or the time that
	// Transport.LongPoll adds before the response is returned. It is 0 if there
	// is neither.
	Delay time.Duration

	// Stop is why no attempt follows, or "" if one does.
	Stop Stop

	// NeverSent reports that the attempt has an Err because nothing of the request
	// was sent, or because the service did not process it.
	NeverSent bool

	// MaybeExecuted reports that the service may have executed this attempt, or
	// an earlier one of the call, although it failed: it may have been sent, and
	// its outcome was an error of the transport, or a server error other than
	// throttling. So a 4xx may hide a success, such as NoSuchUpload after a
	// CompleteMultipartUpload whose response was lost, and after a success the
	// effect may be there twice.
	MaybeExecuted bool

	// Partition names the partition whose token buckets the attempt used, as in
	// Transport.State and Transport.Partitions.
	Partition string

	// ServicePolicy is what DefaultPolicy calls, during the call of a Policy: that of
	// the Service of package services that was applied to the Transport. It is nil if
	// there is none, and for an observer.
	ServicePolicy Policy
}

// A Policy classifies the outcome of an attempt. It sees the Request, Number,
// Response, Err, Code and Body; either Response or Err is set. It may read the status
// and the headers of the response, and must not read its body. It is not called
// if the caller's context ended the attempt. A Policy must be safe for
// concurrent use.
type Policy func(*Attempt) Class

// DefaultPolicy classifies as the Service of package services does that was applied
// to the Transport. Without one, and if a Service's own policy calls it, it
// classifies as the AWS SDKs do: by the AWS error code if it is a
// known one, else by the status, and a transport error by its type. Throttling
// codes, 429, 509 and 529 are Throttled. Transient codes, 408 and 5xx are
// Transient, except for 501, 505, 506, 507, 508, 510 and 511. So is an error that
// Amazon S3 sent with status 200, unless its code is known. Any other status
// from 400 up is Permanent. The status of a proxy that refuses CONNECT counts in
// the same way, although net/http turns it into an error.
//
// The rules are those of the AWS SDKs and Tools Reference Guide, "Retry
// behavior", and for server errors those of the AWS General Reference and
// Amazon SimpleDB.
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

// IdempotentOnly returns a policy that classifies as policy does, but makes
// Transient and Timeout Permanent unless it is safe to send the request twice:
// its method is idempotent (RFC 9110), it has an Idempotency-Key or
// X-Idempotency-Key header, even one from Transport.IdempotencyKey, or nothing of
// it was sent. Throttled does not change, because the service did not execute the
// request. A nil policy means DefaultPolicy, which is that of the Service that was
// applied, if there is one.
//
// To know whether a POST or PATCH to an https URL was sent, the Transport traces its
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
