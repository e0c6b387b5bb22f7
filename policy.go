package awsretry

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"example.com/awsretry/internal/neterr"
	"example.com/awsretry/internal/respbody"
)

// A Class is what an answer means for a retry. The zero value is Success.
type Class int

const (
	Success   Class = iota // the request did what it was for; every status below 400
	Permanent              // it failed, and would fail again: the caller has to mend it
	Transient              // it failed and may succeed when sent again
	Timeout                // nobody answered in time; retried as Transient is, at a higher cost
	Throttled              // the service asked for fewer requests
)

// Retryable reports whether an answer of this class is worth another attempt.
func (c Class) Retryable() bool { return c == Transient || c == Timeout || c == Throttled }

// String returns the class's name in lower case.
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

// A Stop says why no attempt follows; "" where one does.
type Stop string

const (
	StopSuccess     Stop = "success"      // nothing to retry
	StopPermanent   Stop = "permanent"    // the answer is not one that a retry mends
	StopMaxAttempts Stop = "max_attempts" // MaxAttempts are used up
	StopQuota       Stop = "quota"        // the retry token bucket is too empty
	StopDeadline    Stop = "deadline"     // the pause would end after the context's deadline
	StopCanceled    Stop = "canceled"     // the context has ended
	StopBody        Stop = "body"         // the request body cannot be had again
	StopRetryAfter  Stop = "retry_after"  // the service asks for a longer pause than MaxRetryAfter
	StopRateLimit   Stop = "rate_limit"   // nothing may be sent in time: RateLimit.FailFast, RateLimit.MaxWait, or a deadline before the send token or the end of a shared Retry-After
	StopOuterRetry  Stop = "outer_retry"  // the request's headers say that an outer AWS SDK loop retries it
	StopDisabled    Stop = "disabled"     // WithoutRetry
)

// An Attempt is the record of one sending of a request.
type Attempt struct {
	Request  *http.Request  // the caller's own, not to be changed
	Number   int            // from 1
	Response *http.Response // nil where Err is not; its body is for the caller of RoundTrip alone
	Err      error          // the transport's, as it came, or that AttemptTimeout is over
	Code     string         // the AWS error code in the answer; "" where there is none
	Class    Class

	// Start is the time of sending, Elapsed the time until the answer was classified. Attempts are timed for observers:
	// where there is none, these and Waited are zero.
	Start   time.Time
	Elapsed time.Duration
	Waited  time.Duration // for a send token (adaptive mode), and for the end of a Retry-After that is shared

	Delay time.Duration // the pause before the next attempt, or of Transport.LongPoll before the answer; 0 where there is none
	Stop  Stop          // why none follows; "" where one does

	Partition string // whose buckets the attempt used, as Transport.State and Transport.Partitions name it
}

// A Policy says what an answer means. It sees the attempt's Request, Number, Response, Err and Code; exactly one of
// Response and Err is set. It may read the response's status and header, not its body. It is called by many
// requests at once, and is not asked about an attempt that the caller's own context ended.
type Policy func(*Attempt) Class

// DefaultPolicy classifies as the AWS SDKs do: by the AWS error code first, then by the status, a transport error by
// its type. The rules are those of the AWS SDKs and Tools Reference Guide, "Retry behavior", with the AWS General
// Reference's and Amazon SimpleDB's on server errors: throttling codes, 429, 509 and 529 are Throttled; transient codes,
// 408 and 5xx are Transient, but not 501, 505, 506, 507, 508, 510 and 511; every other status from 400 on is Permanent.
func DefaultPolicy(a *Attempt) Class {
	switch {
	case a.Err != nil && a.Request != nil && a.Request.Context().Err() != nil:
		return Permanent // the caller wants no answer any more
	case a.Err != nil:
		return errorClass(a.Err)
	case a.Response == nil:
		return Permanent
	}
	if class, known := codeClass(a.Code); known {
		return class
	}
	if a.Response.StatusCode < 400 && a.Code != "" {
		return Permanent // an error in the body of a 200, as S3 sends it
	}
	return statusClass(a.Response.StatusCode)
}

// errorClass classifies an error of the transport.
func errorClass(err error) Class {
	if timeout := (*respbody.TimeoutError)(nil); errors.As(err, &timeout) {
		return Timeout
	}
	if status, ok := neterr.ProxyStatus(err); ok && !statusClass(status).Retryable() || neterr.Permanent(err) {
		return Permanent
	}
	if neterr.TimedOut(err) {
		return Timeout
	}
	return Transient
}

// IdempotentOnly makes a policy that gives up a transient failure or a time-out as Permanent unless sending the request
// twice is safe: its method is idempotent (RFC 9110), it has an Idempotency-Key or X-Idempotency-Key header, or
// nothing of it was sent. Throttling, where the service did nothing, is retried as before. A nil policy means DefaultPolicy.
func IdempotentOnly(policy Policy) Policy {
	if policy == nil {
		policy = DefaultPolicy
	}
	return func(a *Attempt) Class {
		class := policy(a)
		if class != Transient && class != Timeout || idempotent(a.Request) || neterr.NeverSent(a.Err) {
			return class
		}
		return Permanent
	}
}

func idempotent(req *http.Request) bool {
	if req == nil {
		return false
	}
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	_, key := req.Header["Idempotency-Key"]
	_, xKey := req.Header["X-Idempotency-Key"]
	return key || xKey
}

// codeClass knows the error codes of the AWS SDKs and Tools Reference Guide, "Retry behavior", and of Amazon SimpleDB,
// "API error retries".
func codeClass(code string) (class Class, known bool) {
	switch code {
	case "":
		return Success, false
	case "BandwidthLimitExceeded", "EC2ThrottledException", "LimitExceededException", "PriorRequestNotComplete",
		"ProvisionedThroughputExceededException", "RequestLimitExceeded", "RequestThrottled",
		"RequestThrottledException", "SlowDown", "ThrottledException", "Throttling", "ThrottlingException",
		"TooManyRequestsException", "TransactionInProgressException":
		return Throttled, true
	case "RequestTimeout", "RequestTimeoutException", "IDPCommunicationError", "InternalError", "InternalServerError",
		"InternalFailure", "ServiceUnavailable":
		return Transient, true
	case "Client", "Sender": // the bare faults of SOAP 1.1 and 1.2
		return Permanent, true
	case "Server", "Receiver":
		return Transient, true
	}
	switch {
	case strings.HasPrefix(code, "Server."):
		return Transient, true
	case strings.HasPrefix(code, "Client."): // SOAP faults of the caller's making travel with status 500
		return Permanent, true
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
