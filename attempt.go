package awsretry

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"
)

// An Attempt is the record of one attempt to send a request, or of a call that was
// refused before its first attempt.
type Attempt struct {
	// Request is the caller's request. If the attempt continues a response body,
	// it is a copy with the Range and If-Range headers of the rest. It must not
	// be changed.
	Request *http.Request

	// Number is the number of the attempt, from 1, or if it continues a response body,
	// from the attempt that brought its last byte. It is 0 if the call ends because an
	// attempt, usually its first, was refused: by the retry token bucket
	// (Quota.InitialCost), for want of a send token in time, by a shared Retry-After, by
	// an error of Prepare, or by the deadline. Then Err is the Err of RoundTrip's [*Error],
	// and Class Throttled, or Permanent after StopPermanent or the deadline. A call has no
	// record if it was canceled before its first attempt, made after its deadline, or has
	// With options that are not valid.
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

	// Code is the AWS error code in the response, also in a body that is compressed with
	// gzip or deflate, or "". It is UnknownError if Amazon S3 sent an error without a code
	// with status 200. If no retry can follow, because of MaxAttempts 1, WithoutRetry, an
	// outer loop or a one-shot request body of which too much was sent, only the headers
	// are searched, except in [Adaptive] mode for a body with a Content-Length: the rate
	// limiter needs to know of throttling. No body is read while a one-shot request body is
	// still being written.
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

// Outcome returns the record of the last attempt for a response that a
// Transport returned. There is one for every response that took a retry and for
// every response that is a failure. Its Stop reports why no attempt followed,
// its Code is the AWS error code. resp must be the response that the Transport
// returned, with its Request unchanged.
func Outcome(resp *http.Response) (Attempt, bool) {
	if resp == nil || resp.Request == nil {
		return Attempt{}, false
	}
	r, _ := resp.Request.Context().Value(recordKey{}).(*recordContext)
	if r == nil {
		return Attempt{}, false
	}
	return r.of(resp)
}

type recordKey struct{}

// A recordContext is the context of a retry. It has the attempt's options and,
// once RoundTrip has returned the response, the record for Outcome, which may
// be called at any time.
type recordContext struct {
	context.Context
	options   callOptions
	request   *http.Request // the caller's
	partition string        // of a success; written before success is
	repeated  bool          // MaybeExecuted of a success; written before success is

	// Most retried calls end in a success, which needs only the response.
	success atomic.Pointer[http.Response]
	record  atomic.Pointer[Attempt] // of any other response
}

func newRecordContext(parent context.Context, req *http.Request, options callOptions, attempt int) *recordContext {
	r := &recordContext{Context: parent, options: options, request: req}
	r.options.attempt = attempt
	return r
}

// set stores the record of the response that RoundTrip returns.
func (r *recordContext) set(a *Attempt) {
	if a.Class == Success && a.Code == "" && a.Start.IsZero() && a.Number == r.options.attempt {
		r.partition, r.repeated = a.Partition, a.MaybeExecuted
		r.success.Store(a.Response)
		return
	}
	record := *a
	record.Body = nil // it is valid during the call
	r.record.Store(&record)
}

// of returns the record of resp, and false if resp is the response to another
// request with the same context.
func (r *recordContext) of(resp *http.Response) (Attempt, bool) {
	if record := r.record.Load(); record != nil && record.Response == resp {
		return *record, true
	}
	if r.success.Load() != resp {
		return Attempt{}, false
	}
	return Attempt{
		Request: r.request, Number: r.options.attempt, Response: resp, Class: Success, Stop: StopSuccess,
		Partition: r.partition, MaybeExecuted: r.repeated,
	}, true
}

func (r *recordContext) Value(key any) any {
	switch key {
	case optionsKey{}:
		return &r.options
	case recordKey{}:
		return r
	}
	return r.Context.Value(key)
}

// keepRecord stores the record of the last attempt for Outcome, in the context
// of the response's request. That is our request, or another one that Base sent
// in its place.
func (c *call) keepRecord() {
	sent := c.now.record.Response.Request
	var known *recordContext
	if sent != nil {
		known, _ = sent.Context().Value(recordKey{}).(*recordContext)
	}
	if sent == nil || known != nil && known != c.now.marked { // none, or one of another call
		sent, known = c.shownRequest(), c.now.marked
	}
	if known == nil {
		c.now.marked = newRecordContext(c.caller.Context, c.req, c.options, 0)
		sent = sent.WithContext(c.now.marked)
	}
	c.now.record.Response.Request = sent
	c.now.marked.set(&c.now.record)
}
