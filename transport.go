// Package awsretry gives any HTTP client the retry behavior of the AWS SDKs.
//
// A [Transport] is an http.RoundTripper. It replays request bodies, classifies
// responses by their status and by the AWS error code in their body, draws
// tokens from a retry token bucket before each retry, sleeps a jittered
// backoff, and in adaptive mode paces all attempts with a rate limiter. The
// rules are those of the AWS SDKs and Tools Reference Guide, "Retry behavior".
// [Load] reads retry_mode and max_attempts from the environment and the shared
// AWS config files.
//
//	client := &http.Client{Transport: &awsretry.Transport{}}
//
// By default a POST or PATCH is retried like any other request, as in the SDKs, even
// if the service may have executed it. The policy [IdempotentOnly] prevents that.
// Package services has the rules of APIs other than AWS.
//
// Package delivery makes deliveries by Amazon SNS delivery policies. Package
// poll waits for an asynchronous operation.
package awsretry

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"example.com/awsretry/internal/invalid"
	"example.com/awsretry/internal/retrier"
	"github.com/hashicorp/go-cleanhttp"
)

// A Transport is an http.RoundTripper that retries requests by the rules of the
// AWS SDKs. The zero value is ready to use: it sends a request up to three
// times through a shared pooled transport, with the retry token bucket and the
// delays of standard mode. Set it as http.Client.Transport, and pass that
// client to any SDK that takes an *http.Client.
//
// The fields are read when the first request is sent and must not be changed
// after that. A Transport is safe for concurrent use. It keeps its token
// buckets for as long as it lives, so use one Transport for many requests.
//
// RoundTrip returns the last outcome: the last response, whatever its status,
// with its body whole and unread, or an [*Error] that wraps the last transport
// error. [Outcome] reports why a response was not retried.
type Transport struct {
	// Base sends each attempt. Nil means a shared pooled transport from
	// hashicorp/go-cleanhttp. If Base is not an *http.Transport, the attempts of
	// a request without a deadline have their own context, which ends with
	// the response body, unless MaxAttempts is 1: nothing else would end an error
	// body that hangs. That costs a first attempt three allocations, 576 bytes and
	// about 0.5 µs.
	Base http.RoundTripper

	// Mode is the set of retry rules. Empty means Standard.
	Mode Mode

	// Revision is the revision of these rules. DefaultRevision, the zero value,
	// means Classic, the rules of the AWS documents.
	Revision Revision

	// MaxAttempts is how often a request may be sent, the first attempt
	// included. 0 means the mode's default: 3, and 4 in Legacy mode. 1 means no
	// retry.
	MaxAttempts int

	// AttemptTimeout limits each attempt, from its sending to the end of its
	// response body, or to the headers of a 101. 0 means no limit.
	AttemptTimeout time.Duration

	// StallTimeout is the longest time that a Read of a response body may take
	// without a byte. The time runs only during a Read, so it limits neither a
	// long download nor a slow caller, and not the wait for the headers, which
	// AttemptTimeout covers. A Read that takes longer ends the attempt and
	// returns an error whose Timeout method returns true. The body of a 101, and
	// any other that is an io.Writer, has no such limit. 0 means none.
	StallTimeout time.Duration

	// Policy classifies the outcome of each attempt. Nil means DefaultPolicy.
	// Any other policy costs one allocation for each attempt, except
	// IdempotentOnly(nil).
	Policy Policy

	// Backoff computes the delay before each retry. Nil means the backoff of
	// the mode and revision.
	Backoff Backoff

	// MaxRetryAfter is the longest delay that a Retry-After header, or another that
	// RetryAfter names, may ask for.
	// If it asks for more, the response is returned without a retry. 0 means 1
	// minute. If negative, Retry-After is ignored.
	MaxRetryAfter time.Duration

	// Quota configures the retry token bucket. Legacy mode has none.
	Quota QuotaConfig

	// RateLimit configures the rate limiter of Adaptive mode.
	RateLimit RateLimitConfig

	// Partition names the partition of a request. Each partition has its own
	// retry token bucket and rate limiter. Nil means the URL's host and
	// port in lower case. WithPartition takes precedence. A name longer than
	// 255 bytes is replaced by its beginning and a hash.
	Partition func(*http.Request) string

	// MaxPartitions limits how many partitions are kept. 0 means 1024. A new
	// partition beyond that replaces one of the 128 least recently used and
	// takes over its retry token bucket: the first that is as good as new, or the
	// first. In Adaptive mode and with Quota.Wait, ShareRetryAfter or Shared, a
	// partition is not replaced while it has requests.
	MaxPartitions int

	// MaxBodyBuffer limits how much of a one-shot request body is buffered for
	// retries, in bytes. A body is one-shot unless it is in memory, is an
	// io.ReaderAt with a size, or has a length and a GetBody, of which up to 64
	// KiB are buffered to check GetBody. A longer one-shot body is sent once. 0
	// means 1 MiB. If negative, only the result of a Read in progress is buffered.
	// A body is closed once, also if its Read hangs, and is not closed during a
	// Read before the call has ended; see docs/BODIES.md.
	MaxBodyBuffer int64

	// Prepare is called before each attempt with its own request and the
	// attempt's number, from 1, for example to sign or date the request. It may
	// change the headers and the URL, but not the body and its length. To hash the
	// body it may read what the request's GetBody returns, if there is one. If it
	// returns an error, the attempt is not sent and RoundTrip returns that error with
	// StopPermanent, with StopCanceled or StopDeadline if the caller's context has
	// ended, or with the Stop of an [*Error].
	Prepare func(*http.Request, int) error

	// LongPoll reports whether the caller repeats a request in its own loop. If
	// the retry token bucket refuses the retry of such a request, RoundTrip
	// waits for the delay before it returns, so that the loop does not spin.
	// Nil means no request in Classic, and in Revision2026 the AWS operations SQS
	// ReceiveMessage, Step Functions GetActivityTask, and SWF PollForActivityTask
	// and PollForDecisionTask. Legacy mode has no bucket, and so no such wait.
	LongPoll func(*http.Request) bool

	// SDKHeaders adds the headers of the AWS SDKs, amz-sdk-invocation-id and
	// amz-sdk-request: attempt=1; max=3. They are not added if an AWS signature
	// covers them and there is no Prepare to sign the request again.
	SDKHeaders bool

	// NestedRetries retries a request even if its amz-sdk-request header shows
	// that it is an attempt of an AWS SDK that retries it.
	NestedRetries bool

	// RetryAfterSpread is the longest time that is added to a delay that
	// Retry-After asks for, so that callers that were given the same second do not
	// all retry in it. 0 means a quarter of that delay, at most 5 s, and none in
	// Legacy mode, which adds its own backoff. If negative, nothing is added.
	RetryAfterSpread time.Duration

	// ShareRetryAfter makes a Retry-After of a retryable response delay every
	// attempt of its partition, first attempts included, unless it is longer
	// than MaxRetryAfter. The attempts resume within RetryAfterSpread after it.
	// A first attempt whose context ends before that fails at once with
	// ErrRateLimited.
	ShareRetryAfter bool

	// RetryAfter returns the delay that a retryable response asks for. If ok is false,
	// or RetryAfter is nil, the first of the headers Retry-After-Ms,
	// X-Ms-Retry-After-Ms and Retry-After with a delay counts. body holds
	// the first 64 KiB of the response body, decompressed as in [Attempt].Body, less
	// if the server is slow, and nothing if no retry can follow.
	// RetryAfter must not change or keep body, and must not read resp.Body.
	RetryAfter func(resp *http.Response, body []byte) (delay time.Duration, ok bool)

	// Peek reports whether Policy has to see more of the body of a 2xx than was
	// read so far, for services that report failures in a 2xx; see docs/BODIES.md.
	// It is called with a nil body first, where false means that nothing is read,
	// and then after each Read, until it returns false, the body ends or 1 MiB is
	// read. Policy finds the bytes in [Attempt].Body. Peek must not read resp.Body,
	// nor change or keep body. Nil means that Policy sees the body of no 2xx.
	// [WholeDocuments] reads small JSON and XML whole.
	Peek func(resp *http.Response, body []byte) (more bool)

	// IdempotencyKey returns the Idempotency-Key header of a POST or PATCH that has
	// neither that header nor X-Idempotency-Key, or "" for none. It is called once
	// for each call: retries and the redirects that http.Client follows have the
	// same key, which is set on a copy of the request before Prepare. A request that
	// is signed (by AWS, or as in RFC 9421) gets no key if there is no Prepare to
	// sign it again. Nil means no keys; [RandomKey] makes random ones.
	IdempotencyKey func(*http.Request) string

	// KeepConnections lets a retry use the connection of the attempt that
	// failed. By default a retry after a transient failure or a timeout uses a
	// connection of a copy of Base, unless an HTTP/2 stream alone failed. Only an
	// *http.Transport without MaxConnsPerHost and with net/http's own HTTP/2 is
	// copied; see docs/decisions/copies-of-base.md. Set KeepConnections if Base has
	// protocols of RegisterProtocol for http and https, which a copy lacks.
	KeepConnections bool

	// Resume continues a response body that breaks off: its Read requests the rest
	// from the service and continues at the byte where the body broke off. It
	// applies to a GET without a body whose response is a 200, or a 206 to a
	// single Range, has a strong ETag and was not decompressed by Base. The error
	// of any other body says why it is not continued. MaxAttempts counts the attempts
	// in a row that bring no byte, and AttemptTimeout limits each response, not the
	// download. Prepare must sign each attempt if signatures cover Range and
	// If-Range. docs/BODIES.md says what the retry tokens pay for.
	Resume bool

	// Shared lets many processes share the buckets of this Transport: the retry
	// token bucket, the rate limiter and, with ShareRetryAfter, a Retry-After.
	// Requests do not wait for it. Quota.InitialCost and Quota.RefillPerSecond
	// must be 0 with it. Nil means that this process has its own buckets. Package
	// fleet implements it.
	Shared Shared

	// Observe is called once for every attempt, after the decision about a
	// retry and before the delay. With RateLimit.FailFast it is called after the
	// delay, when the decision is made. It is also called, with the Number 0, for
	// a call that is refused before its first attempt. It must not keep the
	// Response's body. Nil means no observer.
	Observe func(Attempt)

	retrying
	service     service                // see ApplyService
	spreadStart uint64                 // see StartSpread
	config      atomic.Pointer[config] // nil until the first request
	resolving   sync.Mutex             // guards the making of config
}

// retrying is embedded in a RoundTripper whose requests are not to be retried by
// another one of this repository.
type retrying = retrier.Always

// StartSpread makes the parts of RetryAfterSpread a sequence with that beginning, so
// that package simulate gets the same ones in each run. 0 means a random sequence.
func (t *Transport) StartSpread(_ retrier.Seal, at uint64) { t.spreadStart = at }

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	c := t.config.Load()
	if c == nil {
		var err error
		if c, err = t.resolve(); err != nil {
			if req.Body != nil {
				req.Body.Close()
			}
			return nil, err
		}
		return roundTrip(c, req, nil) // which joins a fleet, if there is one, before it sends
	}
	var f fastPath
	if c.fastPathAllowed {
		if f.send(c, req); f.sent() {
			return f.finish(req) // most requests end there
		}
	}
	return roundTrip(c, req, f.options)
}

// roundTrip makes the call of a request. If options is nil, they are not known
// yet.
func roundTrip(config *config, req *http.Request, options *callOptions) (*http.Response, error) {
	c := call{outer: config.retriedOutside(req)}
	defer c.release()
	if err := c.begin(config, req, options); err != nil {
		return nil, err
	}
	c.key = c.chooseKey()
	c.start(1, past{})
	resp, err := c.run()
	if config.transport.Resume && err == nil {
		c.makeResumable()
	}
	return resp, err
}

// Validate returns an error if the configuration is not valid. The error names
// each such field, its value and what is allowed. RoundTrip returns the same
// error and sends nothing.
func (t *Transport) Validate() error {
	var f faults
	modes := []Mode{"", Standard, Adaptive, Legacy}
	f.check(slices.Contains(modes, t.Mode), "Mode", strconv.Quote(string(t.Mode)),
		"%q, %q or %q, or empty for %[1]q", Standard, Adaptive, Legacy)
	f.check(t.Revision >= DefaultRevision && t.Revision <= Revision2026, "Revision", int(t.Revision),
		"Classic or Revision2026, or 0 for Classic")
	f.check(t.MaxAttempts >= 0, "MaxAttempts", t.MaxAttempts, "above 0, where 1 means no retry, or 0 for the mode's default")
	f.check(t.AttemptTimeout >= 0, "AttemptTimeout", t.AttemptTimeout, "above 0, or 0 for none")
	f.check(t.StallTimeout >= 0, "StallTimeout", t.StallTimeout, "above 0, or 0 for none")
	f.check(t.MaxPartitions >= 0, "MaxPartitions", t.MaxPartitions, "above 0, or 0 for %d", defaultMaxPartitions)
	f.add(validBackoff(t.Backoff))
	f.add(t.service.validate())
	f.add(t.Quota.validate())
	f.add(t.RateLimit.validate())
	t.validateLimits(&f)
	if t.Shared != nil {
		t.validateShared(&f)
	}
	f.add(retrier.CheckBase("Base", t.Base))
	return errors.Join(f...)
}

// validateLimits adds the faults of the fields that are for announced limits.
func (t *Transport) validateLimits(f *faults) {
	where, limits, hasLimits := "with Limits", t.RateLimit, t.Mode == Adaptive && t.limits() != nil
	if t.Mode != Adaptive {
		where = fmt.Sprintf("in Mode %q, and Mode is %q", Adaptive, cmp.Or(t.Mode, Standard))
		if t.ownLimits() {
			f.add(fmt.Errorf("RateLimit.Limits is set; it must be nil except %s", where))
		}
		if limits.Pacing == ScaledPacing {
			f.add(fmt.Errorf("RateLimit.Pacing is %v; it must be %v except %s", limits.Pacing, CubicPacing, where))
		}
	}
	if limits.Cost != nil && !hasLimits {
		f.add(fmt.Errorf("RateLimit.Cost is set; it must be nil except %s", where))
	}
	if limits.Reserve != 0 && !hasLimits {
		f.add(fmt.Errorf("RateLimit.Reserve is %v; it must be 0 except %s", limits.Reserve, where))
	}
}

// validateShared adds the faults of the fields that a fleet cannot have.
func (t *Transport) validateShared(f *faults) {
	if err := t.Shared.Validate(t.Mode); err != nil {
		f.add(fmt.Errorf("Shared: %w", err))
	}
	if t.Quota.InitialCost > 0 {
		f.add(fmt.Errorf("Quota.InitialCost is %d; with Shared it must be 0: each process has few of the tokens at a time, "+
			"so first attempts would be refused", t.Quota.InitialCost))
	}
	if t.Quota.RefillPerSecond > 0 {
		f.add(fmt.Errorf("Quota.RefillPerSecond is %v; with Shared it must be 0: it would be that of each process",
			t.Quota.RefillPerSecond))
	}
}

// faults are the errors of invalid fields.
type faults []error

func (f *faults) add(err error) {
	if err != nil {
		*f = append(*f, &invalid.Field{In: "awsretry: Transport.", Err: err})
	}
}

func (f *faults) check(ok bool, field string, value any, allowed string, args ...any) {
	f.add(invalid.Check(ok, field, value, allowed, args...))
}

// CloseIdleConnections calls the method of that name of Base, if it has one,
// and closes the idle connections of every copy of Base.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
	if c := t.config.Load(); c != nil && c.conns != nil {
		c.conns.CloseIdleConnections()
	}
}

// base returns Base or its default.
func (t *Transport) base() http.RoundTripper {
	if t.Base != nil {
		return t.Base
	}
	return defaultBase()
}

// HTTP/2 connections of the default Base are pinged after sendPingTimeout
// without a frame, and closed if no reply comes within pingTimeout.
const (
	sendPingTimeout = 15 * time.Second
	pingTimeout     = 5 * time.Second
)

// defaultBase returns the default of Base. There is one for the process, so
// that Transports share its connections.
var defaultBase = sync.OnceValue(func() http.RoundTripper {
	t := cleanhttp.DefaultPooledTransport()
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: sendPingTimeout, PingTimeout: pingTimeout}
	return t
})
