package awsretry

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"example.com/awsretry/internal/replay"
	"example.com/awsretry/internal/retrier"
)

// A Transport is an http.RoundTripper that retries requests by the rules of the AWS SDKs. The zero value is ready to use: it
// sends through a shared pooled transport, at most three times, with the standard mode's bucket and pauses. Set it as
// http.Client.Transport, or below any SDK that takes an *http.Client.
//
// The fields are read when the first request is sent, and must not be changed from then on. A Transport is safe
// for concurrent use, and keeps its buckets for as long as it lives: use one for many requests.
//
// RoundTrip returns the last answer: the last response, its body whole and unread, whatever its status; or an [*Error]
// around the last transport error. [Outcome] says of a response why it was not retried again.
type Transport struct {
	Base     http.RoundTripper // sends each attempt; nil: a shared pooled transport from go-cleanhttp
	Mode     Mode              // "": Standard
	Revision Revision          // zero: Classic, the documents' rules

	MaxAttempts    int           // in all, the first included; 0: the mode's default, 3 (Legacy 4); 1: never retry
	AttemptTimeout time.Duration // 0: none; covers an attempt from its sending to the end of its response body, or to the headers of a 101

	Policy  Policy  // what an answer means; nil: DefaultPolicy. With a policy of your own each attempt allocates its record
	Backoff Backoff // the pauses; nil: the mode's and revision's

	// MaxRetryAfter is the longest pause that a Retry-After header may ask for. A longer one is not made: the answer goes
	// back with its header. 0: 1 minute; negative: Retry-After is not looked at.
	MaxRetryAfter time.Duration

	Quota     QuotaConfig     // the retry token bucket; not in Legacy mode
	RateLimit RateLimitConfig // in Adaptive mode only

	// Partition names the partition of a request; each has buckets of its own. nil: the URL's host with its port, in lower
	// case. WithPartition goes before it. Of a name longer than 255 bytes, the beginning and a hash are kept.
	Partition func(*http.Request) string

	// MaxPartitions is how many partitions are kept; 0: 1024. For another one, the least recently used is dropped of those whose
	// retry token bucket is full and whose rate limiter does not limit, else of all, and the new one takes over its retry token
	// bucket. In adaptive mode, with Quota.Wait and with ShareRetryAfter a partition is kept as long as requests of it are under
	// way.
	MaxPartitions int

	// MaxBodyBuffer limits, in bytes, how much of a one-shot request body is kept
	// for retries: of one without GetBody that is not an io.ReaderAt with a size
	// either, and of any body with trailers. A longer one is sent once. 0: 1 MiB;
	// negative: none, but for what a Read brings that is under way when the
	// response comes early. Where such a Read takes longer than the pause, and
	// longer than a second, there is no retry.
	//
	// A one-shot body, and one from GetBody whose Close may not end its Read, is
	// read by a goroutine while an attempt waits for it. An io.ReaderAt with a
	// size, such as an *os.File, is read by its ReadAt alone: its Read must not
	// give other bytes.
	MaxBodyBuffer int64

	// Prepare is called before each attempt with a request of its own and the
	// attempt's number, from 1: to sign it again, to date it. It may change headers
	// and URL; it must leave the body and its length alone. Its error ends the
	// request with StopPermanent; an [*Error] ends it with its own Stop and Err.
	// nil: nothing.
	Prepare func(*http.Request, int) error

	// LongPoll marks operations that a caller repeats in a loop of its own: when the retry token bucket refuses their retry, the
	// pause is slept before the answer goes back. nil: none in Classic, in Revision2026 the AWS operations SQS
	// ReceiveMessage, Step Functions GetActivityTask, SWF PollForActivityTask and PollForDecisionTask.
	LongPoll func(*http.Request) bool

	// SDKHeaders sends amz-sdk-invocation-id and amz-sdk-request: attempt=1; max=3, as the AWS SDKs do; not where an AWS signature
	// covers these headers and no Prepare signs anew.
	SDKHeaders    bool
	NestedRetries bool // retry although the request says, in amz-sdk-request, that an outer AWS SDK loop retries it

	// RetryAfterSpread is the longest time that is added at random to a pause that
	// Retry-After asks for, so that callers that were given the same second do not
	// all come back in it. 0: a quarter of that pause, 5 s at most, and none in
	// Legacy mode, which adds its own pause to it; negative: none.
	RetryAfterSpread time.Duration

	// ShareRetryAfter makes a Retry-After of up to MaxRetryAfter, on a retryable
	// response, hold back every attempt of its partition, first attempts included;
	// they go on within RetryAfterSpread after it. One whose context would end
	// before is refused at once: a first attempt with ErrRateLimited.
	ShareRetryAfter bool

	// RetryAfter finds the pause that a retryable response asks for, at which the
	// Retry-After header does not. body is the first 64 KiB of the response's body,
	// less where the server is slow; it must not be changed or kept, nor may
	// resp.Body be read. Where ok is false, and where RetryAfter is nil, the header
	// counts.
	RetryAfter func(resp *http.Response, body []byte) (pause time.Duration, ok bool)

	// KeepConnections lets a retry use the connection of the attempt that failed.
	// By default a retry after a transient failure or a time-out has another one,
	// of a copy of Base, if Base is an *http.Transport without MaxConnsPerHost.
	// That copy does not know the protocols of Base.RegisterProtocol for http or
	// https, nor an HTTP/2 of its own in Base.TLSNextProto: set KeepConnections
	// where there are such.
	KeepConnections bool

	// Observe is called once for every attempt, after the decision on it and before the pause (with RateLimit.FailFast, which
	// decides then, behind it). It must not keep the Response's body. nil: nobody is told.
	Observe func(Attempt)

	mark
	running  atomic.Pointer[engine] // set by the first request
	starting sync.Mutex             // held while running is made
}

// mark is an alias so that the embedded field is not exported.
type mark = retrier.Mark

var _ retrier.Retrier = new(Transport).mark

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := t.sendPlain(req)
	if sent.succeeded(req) {
		sent.reward(req)
		return sent.resp, nil // what most requests do, and all that it costs
	}

	var c call
	defer c.end()
	c.own(req, &sent)
	e, err := t.start()
	if err != nil {
		return nil, err
	}
	permit, err := c.begin(e, &sent)
	if err != nil {
		return nil, err
	}

	a := firstAttempt(permit, &sent)
	defer a.end(&c)
	for {
		if err := a.waitTurn(&c); err != nil {
			return nil, err
		}
		if err := a.prepare(&c); err != nil {
			return nil, err
		}
		a.send(&c)
		a.classify(&c)
		a.settle(&c)
		if !a.decide(&c) || !a.pause(&c) {
			return a.finish(&c)
		}
		a = a.successor()
	}
}

// sendPlain makes the first attempt if neither the settings nor the request ask
// for more than sending it.
func (t *Transport) sendPlain(req *http.Request) plainResult {
	e := t.running.Load()
	if e == nil || !e.plain || cancelOf(req) != nil || req.Trailer != nil ||
		req.Body != nil && req.Body != http.NoBody && (req.GetBody == nil || !replay.InMemory(req.Body)) {
		return plainResult{}
	}
	ctx := req.Context()
	if ctx.Err() != nil {
		return plainResult{}
	}
	if options := optionsOf(ctx); options != nil {
		return plainResult{options: options, asked: true}
	}
	via := e.base
	if e.conns != nil {
		via = e.conns.For(req.URL)
	}
	resp, err := via.RoundTrip(req)
	return plainResult{engine: e, via: via, resp: resp, err: err, asked: true}
}

// CloseIdleConnections closes the idle connections of Base, where it has such a
// method, and of every transport that was made from it.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
	if e := t.running.Load(); e != nil && e.conns != nil {
		e.conns.CloseIdleConnections()
	}
}
