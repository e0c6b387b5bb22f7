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
// Package delivery makes deliveries by Amazon SNS delivery policies. Package
// poll waits for an asynchronous operation.
package awsretry

import (
	"iter"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"example.com/awsretry/internal/admission"
	"example.com/awsretry/internal/retrier"
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
	// takes over its retry token bucket: the first whose bucket is full and
	// whose rate limiter does not limit, or if there is none, the first. In
	// Adaptive mode, with Quota.Wait and with ShareRetryAfter, a partition is
	// not replaced while it has requests.
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
	// change the headers and the URL. It must not change the body and its
	// length. To hash the body it may read what the request's GetBody returns, if
	// there is one. If Prepare returns an error, the attempt is not
	// sent and RoundTrip returns that error with StopPermanent, with
	// StopCanceled or StopDeadline if the caller's context has ended, or with the Stop of an
	// [*Error].
	Prepare func(*http.Request, int) error

	// LongPoll reports whether the caller repeats a request in its own loop. If
	// the retry token bucket refuses the retry of such a request, RoundTrip
	// waits for the delay before it returns, so that the loop does not spin.
	// Return true for every request if the callers take the next item at
	// once. LongPoll works in Standard and Adaptive mode and with either
	// revision. Nil means no request in Classic, and in Revision2026 the AWS
	// operations SQS ReceiveMessage, Step Functions GetActivityTask, and SWF
	// PollForActivityTask and PollForDecisionTask.
	LongPoll func(*http.Request) bool

	// SDKHeaders adds the headers of the AWS SDKs, amz-sdk-invocation-id and
	// amz-sdk-request: attempt=1; max=3. They are not added if an AWS signature
	// covers them and there is no Prepare to sign the request again.
	SDKHeaders bool

	// NestedRetries retries a request even if its amz-sdk-request header shows
	// that it is an attempt of an AWS SDK that retries it.
	NestedRetries bool

	// RetryAfterSpread is the longest time that is added to a delay that
	// Retry-After asks for. Each retry adds another part of it, so that callers
	// that were given the same second do not all retry in it. 0 means a quarter of that delay, at most 5 s, and
	// none in Legacy mode, which adds its own backoff. If negative, nothing is
	// added.
	RetryAfterSpread time.Duration

	// ShareRetryAfter makes a Retry-After of a retryable response delay every
	// attempt of its partition, first attempts included, unless it is longer
	// than MaxRetryAfter. The attempts resume within RetryAfterSpread after it.
	// A first attempt whose context ends before that fails at once with
	// ErrRateLimited.
	ShareRetryAfter bool

	// RetryAfter returns the delay that a retryable response asks for, for
	// services that do not use the headers Retry-After-Ms, X-Ms-Retry-After-Ms and
	// Retry-After, of which the first with a delay counts. body holds the first 64
	// KiB of the response body, decompressed as in [Attempt].Body, less if the
	// server is slow, and nothing if no retry can follow (see Attempt.Code).
	// RetryAfter must not change or keep body, and must not read resp.Body. If ok
	// is false, and if RetryAfter is nil, these headers are used.
	RetryAfter func(resp *http.Response, body []byte) (delay time.Duration, ok bool)

	// Peek reports whether Policy has to see more of the body of a 2xx than was
	// read so far, for services that report failures in a 2xx. It is first called
	// with a nil body, where false means that nothing is read, and then after
	// each Read, until it returns false, the body ends or 1 MiB is read. Policy
	// finds the bytes in [Attempt].Body. If the Content-Encoding is gzip or
	// deflate, both see the body decompressed, up to 1 MiB of it. Of a body with
	// another Content-Encoding, they see nothing. The response that RoundTrip
	// returns has the whole body, and streams on as soon as Peek has returned
	// false. A body that breaks off before that is a transient failure without
	// a response. AttemptTimeout and the context limit the time. As for
	// [Attempt].Code, a body is not read if no retry can follow. Peek must not
	// read resp.Body, nor change or keep body. Nil means that Policy does not see
	// the body of any 2xx. [WholeDocuments] reads small JSON and XML whole.
	Peek func(resp *http.Response, body []byte) (more bool)

	// IdempotencyKey returns the Idempotency-Key header of a POST or PATCH that
	// has neither that header nor X-Idempotency-Key, so that the service executes
	// it once although it is sent again. It is called once for each call: retries
	// and the redirects that http.Client follows have the same key. The header is
	// set on a copy of the request, before Prepare. "" means no key. A request
	// that is signed (by AWS, or as in RFC 9421) gets no key if there is no Prepare
	// to sign it again. [IdempotentOnly] retries a request with a key. Nil means
	// no keys; [RandomKey] makes random ones.
	IdempotencyKey func(*http.Request) string

	// KeepConnections lets a retry use the connection of the attempt that
	// failed. By default a retry after a transient failure or a timeout uses a
	// connection of a copy of Base, if Base is an *http.Transport without
	// MaxConnsPerHost. After an error of an HTTP/2 stream alone it uses the same
	// connection, which is known to work. A copy has the settings of Base.HTTP2.
	// A Base with another HTTP/2 than net/http's own in TLSNextProto is not
	// copied, because the settings of that cannot be read: such as one for
	// which golang.org/x/net/http2.ConfigureTransports was called. Nor is a
	// RoundTripper that wraps an *http.Transport. Pings find their dead
	// connections; see [http.HTTP2Config]. A copy does not have the protocols of
	// Base.RegisterProtocol for http and https. Set KeepConnections if Base has
	// these.
	KeepConnections bool

	// Resume continues a response body that breaks off: its Read requests the
	// rest from the service and continues at the byte where the body broke off. It
	// applies to a GET without a body whose response is a 200, or a 206 to a
	// single Range of the caller's, has a strong ETag and was not decompressed by
	// Base. If the body of another GET breaks off, its error says why it is not
	// continued. Last-Modified is not used: it does not change if an object is
	// replaced twice in a second, and RFC 9110 calls it strong only if the clock
	// of the service shows that this cannot be the case.
	//
	// The request for the rest has a Range and that ETag in If-Range. A 206 that
	// begins with the rest, and a 200 with the same ETag, continue the body. If
	// the body has a Content-Encoding, its last 16 bytes are requested again and
	// compared, and if it has no Content-Length, only a 206 with one continues
	// it: a service that compresses on the fly may compress each range by
	// itself. If the service sends anything but the rest of that version, Read
	// returns an error. Trailers are those of the response that ends the body.
	//
	// MaxAttempts counts the attempts in a row that bring no byte. The retry
	// tokens of a request for the rest come back when its response has brought
	// 16 KiB or the end of the body, or when the body is closed. If there are
	// too few tokens for a body that has brought a byte, its Read waits in line
	// while other retries may put theirs back or Quota.RefillPerSecond does, up
	// to the context's deadline, and no longer than a minute in which nobody in
	// the line got tokens. Then it ends with StopQuota, and at once if no other
	// retry has tokens and none come back with time.
	//
	// Policy classifies a break as an attempt with its error as the Err; by
	// DefaultPolicy it is Transient or a Timeout. Observe is called for a break
	// only if no attempt follows it. NestedRetries has no effect: the attempt of
	// an AWS SDK ends with the response.
	//
	// AttemptTimeout then limits each response, not the download, and a body
	// that stalls for StallTimeout is continued. Without a Prepare that signs
	// again, signatures must not cover Range and If-Range, and must be valid for
	// as long as the download takes.
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
	service     *service               // see ApplyService; nil if there is none
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
		return roundTrip(c, req, nil) // it joins a fleet before it is sent
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
	var c call
	defer c.finally()
	c.take(req)
	c.outer = config.retriedOutside(req)
	if err := c.begin(config, options); err != nil {
		return nil, err
	}
	c.key = c.chooseKey()
	c.start(1, past{})
	resp, err := c.run()
	if config.resume && err == nil {
		c.makeResumable()
	}
	return resp, err
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

// State describes the retry token bucket, the shared Retry-After and the rate
// limiter of a partition. The limiter's fields are zero except in adaptive mode.
type State struct {
	Tokens       int     // in the retry token bucket; math.MaxInt if there is no quota
	Capacity     int     // of that bucket; math.MaxInt if there is no quota
	Limited      bool    // the send rate is limited
	MeasuredRate float64 // outcomes per second; with ScaledPacing those that are not throttled
	SendRate     float64 // of the rate limiter, in requests per second

	Waiting      int           // requests in line for a send token, or held back by a shared Retry-After
	ExpectedWait time.Duration // of a new request, of the route that waits longest
	RetryAfter   time.Duration // until the end of the shared Retry-After; 0 if none is in force

	// Limits are the limits that the service announced, less the requests in
	// flight, with RateLimit.Limits.
	Limits []Limit

	Fleet FleetState // with Transport.Shared
}

// FleetState describes the buckets of all Transports that share a partition, as of
// the last grant. It is zero before the first one.
type FleetState struct {
	Leased  bool    // a grant is in force
	Idle    bool    // in adaptive mode: there is none because the process needs none; the store responds
	Slow    bool    // the store responds so late that the process sends less than its share
	Members int     // how many Transports share the partition, without those that are idle
	Rate    float64 // of all of them, in requests per second; 0 if it is not limited

	// Tokens is how many tokens the shared retry token bucket has. Each process has
	// a few more, which are its State.Tokens.
	Tokens int
}

// Shared lets many processes share the buckets of a Transport's partitions. Only
// packages of this repository can implement it: fleet does, with Valkey or Redis.
// Its methods must be safe for concurrent use and must not wait for a network.
type Shared interface {
	// Join begins to share a partition. The first request of the partition calls
	// it. If it panics, the next request calls it again. It is not called for a
	// Transport that has no quota, is not in adaptive mode and does not share a
	// Retry-After.
	Join(*admission.Share)

	// FirstRate is the highest send rate of a process in adaptive mode that has not
	// had a lease, in requests per second. 0 means any.
	FirstRate() float64

	// Validate returns an error if the configuration is not valid, or not valid
	// for Transports with that mode. It is part of what Transport.Validate
	// returns.
	Validate(Mode) error
}

// State returns the state of the named partition. It returns false if no
// request has used the partition, or newer partitions have replaced it. The
// name is that of a request, or the one that Partitions yields, which differs
// if the name is longer than 255 bytes.
func (t *Transport) State(partition string) (State, bool) {
	c := t.config.Load()
	if c == nil {
		return State{}, false
	}
	p := c.partitions.Find(partition)
	if p == nil {
		return State{}, false
	}
	return stateOf(p), true
}

// Partitions yields the name and the state of every partition, the most
// recently used first.
func (t *Transport) Partitions() iter.Seq2[string, State] {
	return func(yield func(string, State) bool) {
		c := t.config.Load()
		if c == nil {
			return
		}
		for _, p := range c.partitions.All() {
			if !yield(p.Name, stateOf(p)) {
				return
			}
		}
	}
}

func stateOf(p *admission.Partition) State {
	s := State{Tokens: p.Quota.Tokens(), Capacity: p.Quota.Size(), RetryAfter: p.Gate.ClosedFor(time.Now())}
	if p.Pacer != nil {
		s.MeasuredRate, s.SendRate, s.Limited = p.Pacer.Rates()
		s.Waiting, s.ExpectedWait = p.Pacer.Line()
		for _, limit := range p.Pacer.Limits() {
			s.Limits = append(s.Limits, Limit(limit))
		}
	}
	s.Waiting += p.HeldBack()
	s.ExpectedWait = max(s.ExpectedWait, s.RetryAfter)
	if grant := p.Share.Granted(); grant != nil {
		now := time.Now()
		s.Fleet = FleetState{
			Leased: now.Before(grant.Until), Slow: grant.Slow,
			Members: grant.Members, Rate: grant.FleetRate, Tokens: grant.FleetTokens,
		}
		s.Fleet.Idle = !s.Fleet.Leased && now.Before(grant.IdleUntil)
	}
	return s
}
