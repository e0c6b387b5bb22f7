package awsretry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"example.com/awsretry/internal/awsproto"
	"example.com/awsretry/internal/replay"
)

// A call is one RoundTrip: what its attempts share. It lives on the goroutine's
// stack.
type call struct {
	config    *config
	req       *http.Request // the caller's; never changed
	caller    callerContext
	options   *callOptions // nil where the context has none
	partition *partition
	observers bool
	elsewhere bool // another library sends the attempts, see Loop
	continues bool // it asks for the rest of a response body, which no outer loop does
	patient   bool // it waits for retry tokens that other calls may put back
	limit     int  // Loop.SetMaxAttempts

	body       replay.Body
	invocation string // for SDKHeaders; "" until the first attempt that has them
	responded  bool   // RoundTrip returns a response
}

// A plainResult is the outcome of a first attempt that needed nothing but
// sending.
type plainResult struct {
	config       *config // nil where nothing was sent
	via          http.RoundTripper
	partition    *partition    // in adaptive mode, which is the only one to find it before sending
	sendTime     time.Duration // of the permit
	resp         *http.Response
	err          error
	memory       replay.Memory // of the request's body
	options      *callOptions  // the context's, if optionsKnown is set
	optionsKnown bool
}

func (p *plainResult) sent() bool { return p.config != nil }

// succeeded reports whether there is nothing to retry and nothing to look into.
func (p *plainResult) succeeded(req *http.Request) bool {
	return p.resp != nil && p.err == nil && p.resp.StatusCode < 400 && p.resp.Body != nil &&
		!awsproto.MayHideError(p.resp, req)
}

// reward puts back the tokens that a success earns, and notes its protocol.
func (p *plainResult) reward(req *http.Request) {
	if conns := p.config.conns; conns != nil {
		conns.Saw(req, p.resp.ProtoMajor)
	}
	partition := p.partition
	if partition == nil {
		partition = p.partitionOf(p.config, req, nil)
	} else {
		partition.limiter.updateAt(p.sendTime, false)
	}
	partition.quota.Release(p.config.increment)
	p.config.partitions.release(partition)
}

// partitionOf returns the partition of the request. If Shared.Join panics, it
// closes the response that is there already.
func (p *plainResult) partitionOf(c *config, req *http.Request, options *callOptions) *partition {
	if c.partitions.newShare == nil || p.resp == nil || p.resp.Body == nil {
		return c.partitionOf(req, options)
	}
	return p.joined(c, req, options)
}

func (p *plainResult) joined(c *config, req *http.Request, options *callOptions) *partition {
	found := false
	defer func() {
		if !found {
			p.resp.Body.Close()
		}
	}()
	partition := c.partitionOf(req, options)
	found = true
	return partition
}

// own takes over the request's body: from here on end closes it.
func (c *call) own(req *http.Request, first *plainResult) {
	c.req, c.caller = req, callerOf(req)
	if first.sent() {
		c.config, c.partition = first.config, first.partition
		c.body.Sent(req, first.memory)
	} else {
		c.body.Own(req)
	}
}

// begin finds what the attempts share. It draws the tokens that a first attempt
// costs.
func (c *call) begin(shared *config, first *plainResult) (permit, error) {
	if err := c.share(shared, first); err != nil {
		return permit{}, err
	}
	if shared.initialCost > 0 {
		if err := c.acquire(shared.initialCost); err != nil {
			return permit{}, c.refuse(StopQuota, err, past{})
		}
	}
	c.body.Share(shared.maxBuffer, !c.mayRetry(1))
	return permit{retryTokens: shared.initialCost, sendTime: first.sendTime, admitted: first.partition != nil}, nil
}

// share finds what the attempts share.
func (c *call) share(shared *config, first *plainResult) error {
	c.config = shared
	if why := c.caller.ended(); why != nil && !first.sent() {
		return &Error{Stop: StopCanceled, Err: interruption(c.caller, why, nil)}
	}
	if c.options = first.options; !first.optionsKnown {
		c.options = optionsOf(c.caller.Context)
	}
	if c.options != nil && c.options.fault != nil {
		return &Error{Stop: StopPermanent, Err: c.options.fault}
	}
	c.observers = shared.observe != nil || c.options != nil && c.options.observe != nil
	if c.partition == nil {
		c.partition = first.partitionOf(shared, c.req, c.options)
	}
	return nil
}

// end runs on every way out, also when a hook or Base panics.
func (c *call) end() {
	if c.partition != nil {
		c.config.partitions.release(c.partition)
	}
	c.caller.release()
	c.body.Release(!c.responded) // its Close may panic
}

// partitionOf returns the partition of a request, which the caller must
// release.
func (c *config) partitionOf(req *http.Request, options *callOptions) *partition {
	switch {
	case options != nil && options.hasPartition:
		return c.partitions.get(options.partition, "")
	case c.partitionName != nil:
		return c.partitions.get(c.partitionName(req), "")
	case req.URL == nil:
		return c.partitions.get("", "")
	}
	host := req.URL.Host
	if p := c.partitions.recent.Load(); p != nil && p.host == host && host != "" && c.partitions.hold(p) {
		return p
	}
	return c.partitions.get(strings.ToLower(host), host)
}

// mayRetry reports whether any outcome of the attempt of that number can be
// followed by a retry.
func (c *call) mayRetry(number int) bool {
	return number < c.maxAttempts() && !c.switchedOff() && !c.outerRetries()
}

// switchedOff reports whether the context is one of WithoutRetry.
func (c *call) switchedOff() bool { return c.options != nil && c.options.noRetry }

// outerRetries reports whether the AWS SDK that made the request retries it.
func (c *call) outerRetries() bool {
	return !c.config.nested && !c.elsewhere && !c.continues && awsproto.OuterLoop(c.req)
}

// maxAttempts returns how often the request may be sent.
func (c *call) maxAttempts() int {
	switch {
	case c.options != nil && c.options.maxAttempts > 0 && c.limit > 0:
		return min(c.options.maxAttempts, c.limit)
	case c.options != nil && c.options.maxAttempts > 0:
		return c.options.maxAttempts
	case c.limit > 0:
		return c.limit
	case c.config.dynamoDB != nil && awsproto.DynamoDB(c.req):
		return c.config.dynamoDB.attempts
	}
	return c.config.attempts
}

// mayHang reports whether a response body that hangs would go on for as long as
// its connection lasts, so that an attempt needs a context of its own to end it.
// Close ends the bodies of an http.Transport.
func (c *config) mayHang(ctx context.Context) bool {
	if !c.foreign {
		return false
	}
	_, ok := ctx.Deadline()
	return !ok
}

// attemptTimeout returns how long an attempt may take, if that is limited.
func (c *call) attemptTimeout() (timeout time.Duration, ok bool) {
	timeout = c.config.timeout
	if c.options != nil && c.options.hasTimeout {
		timeout = c.options.timeout
	}
	return timeout, timeout > 0
}

// longPolls reports whether the caller repeats the request in a loop of its
// own.
func (c *call) longPolls() bool {
	switch {
	case c.config.longPoll != nil:
		return c.config.longPoll(c.req)
	case c.config.revision == Revision2026:
		return awsproto.LongPolls(c.req)
	}
	return false
}

// acquire draws retry tokens. With Quota.Wait it waits for them.
func (c *call) acquire(tokens int) error {
	ctx := c.caller.Context
	if c.config.waitTokens {
		ctx = c.caller.waiting()
	}
	return c.partition.quota.Acquire(ctx, tokens)
}

// sleep reports whether the caller's context lasted for all of d.
func (c *call) sleep(d time.Duration) bool {
	if d <= 0 {
		return c.caller.ended() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.caller.Done():
	case <-c.caller.cancel:
	}
	return false
}

// outlivesDeadline reports whether a wait from now on would not end before the
// caller's deadline.
func (c *call) outlivesDeadline(wait time.Duration) bool {
	deadline, ok := c.caller.Deadline()
	return ok && !time.Now().Add(wait).Before(deadline)
}

// A permit is what one attempt needs to be sent, apart from its request. Tokens
// of an attempt that is not sent are put back.
type permit struct {
	retryTokens int           // drawn from the retry token bucket
	lent        bool          // by Quota.lend
	sendToken   bool          // taken from the rate limiter
	sendTime    time.Duration // when it was, on the limiter's clock; notLimited where the time is not needed
	admitted    bool          // neither the rate limiter nor a Retry-After holds the attempt back
	waited      time.Duration
	freshConn   bool // use a connection that no other request has used
}

// putBack puts the tokens back.
func (p *permit) putBack(to *partition) {
	if p.lent {
		to.quota.settle(p.retryTokens, true)
	} else if p.retryTokens > 0 {
		to.quota.Release(p.retryTokens)
	}
	if p.sendToken {
		to.limiter.putBack()
	}
	*p = permit{}
}

// takeTokens takes the retry tokens out of p. The caller settles them.
func (p *permit) takeTokens() (tokens int) {
	tokens = p.retryTokens
	p.retryTokens, p.lent = 0, false
	return tokens
}

// A past is what the attempts before one left.
type past struct {
	attempts int           // that were sent
	delay    time.Duration // before the attempt that follows
	failure  failure       // of the last one
	hung     bool          // the response body of one of them hung

	maybeExecuted bool // one of them, see Attempt
}

// error returns the error of a call that ends before the next attempt.
func (p past) error(stop Stop, err error) *Error {
	return &Error{Attempts: p.attempts, Stop: stop, Err: err, MaybeExecuted: p.maybeExecuted}
}

// A failure is what an error says of an attempt that failed: the transport's
// error, or of a response that is closed the status and the code. The zero
// failure is none.
type failure struct {
	err    error
	status int
	code   string
}

func (f failure) error() error {
	if f.err == nil && f.status != 0 {
		return &responseError{f.status, f.code}
	}
	return f.err
}

// refuse returns the error of a call that may not send its next attempt, for
// which Acquire or Wait returned err. It reports a call that has sent nothing.
func (c *call) refuse(stop Stop, err error, before past) error {
	why := c.caller.ended()
	if before.attempts > 0 && errors.Is(err, errTooLate) {
		stop = StopDeadline
	}
	if why == nil && (errors.Is(err, ErrQuotaExceeded) || errors.Is(err, ErrRateLimited)) {
		return c.reportUnsent(before.error(stop, before.failure.after(err)))
	}
	if why == nil {
		why = err
	}
	return c.cancellation(why, before)
}

// reportUnsent calls the observers if e ends a call before its first attempt,
// unless the caller's context has ended. It returns e.
func (c *call) reportUnsent(e *Error) error {
	if !c.observers || e.Attempts > 0 || e.Stop == StopCanceled {
		return e
	}
	class := Throttled
	if e.Stop == StopPermanent {
		class = Permanent
	}
	c.tell(Attempt{Request: c.req, Err: e.Err, Class: class, Stop: e.Stop, Partition: c.partition.name})
	return e
}

// tell calls the observers.
func (c *call) tell(a Attempt) {
	if c.config.observe != nil {
		c.config.observe(a)
	}
	if c.options != nil && c.options.observe != nil {
		c.options.observe(a)
	}
}

// after returns err with the failure, if there is one.
func (f failure) after(err error) error {
	if last := f.error(); last != nil {
		return fmt.Errorf("%w; before that: %w", err, last)
	}
	return err
}

// cancellation returns the error of a call whose context ended between two
// attempts.
func (c *call) cancellation(why error, before past) error {
	return before.error(StopCanceled, interruption(c.caller.Context, why, before.failure.error()))
}
