package awsretry

import (
	"errors"
	"io"
	"net/http"
	"time"

	"example.com/awsretry/internal/admission"
	"example.com/awsretry/internal/awsproto"
	"example.com/awsretry/internal/pacer"
	"example.com/awsretry/internal/replay"
	"example.com/awsretry/internal/respbody"
	"example.com/awsretry/internal/wait"
)

// A call is one RoundTrip: what its attempts share, and the present attempt. It
// lives on the goroutine's stack.
type call struct {
	config    *config
	req       *http.Request // the caller's; never changed
	caller    wait.Context
	options   callOptions          // of the context; the zero value if it has none
	partition *admission.Partition // released by end; nil before
	attempts  int                  // how often the request may be sent
	outer     bool                 // the AWS SDK that made the request retries it
	observed  bool                 // there are observers
	resumes   bool                 // its responses continue a body, whose beginning the caller has
	patient   bool                 // it waits for retry tokens that other calls may put back

	attempt // the present one; a new value for each

	body       replay.Body
	key        string // the Idempotency-Key that it sets, or ""
	invocation string // for SDKHeaders; "" until the first attempt that has them
	responded  bool   // RoundTrip returns a response
}

// take makes c the call of req. From here on, end closes the request's body.
func (c *call) take(req *http.Request) {
	c.req, c.caller = req, wait.Of(req)
	c.body.Own(req)
}

// begin finds what the attempts share. If options is nil, they are not known yet.
func (c *call) begin(config *config, options *callOptions) error {
	if options == nil {
		options = optionsOf(c.req.Context()) // Value may panic, so c has the body
	}
	c.resolve(config, options)
	if why := c.caller.Ended(); why != nil {
		return &Error{Stop: c.stopFor(why), Err: interruption(c.caller.Context, why, nil)}
	}
	if err := c.options.validate(); err != nil {
		return &Error{Stop: StopPermanent, Err: err}
	}
	c.partition = config.partitionOf(c.req, options)
	c.body.Plan(config.maxBuffer, !c.mayRetry(1))
	return nil
}

// resolve sets what the config, the options of the context, which may be nil, and the
// request say of the attempts.
func (c *call) resolve(config *config, options *callOptions) {
	c.config = config
	if options != nil {
		c.options = *options
	}
	c.observed = config.observe != nil || c.options.observe != nil
	switch c.attempts = config.attempts; {
	case c.options.hasAttempts:
		c.attempts = c.options.maxAttempts
	case config.dynamoDB != nil && awsproto.DynamoDB(c.req):
		c.attempts = config.dynamoDB.attempts
	}
}

// chooseKey returns the Idempotency-Key that the Transport sets, or "". A request
// that http.Client makes of a redirect has that of the request before it.
func (c *call) chooseKey() string {
	req := c.req
	if c.config.keyOf == nil || req.Method != http.MethodPost && req.Method != http.MethodPatch || hasKey(req) ||
		c.config.prepare == nil && awsproto.Signed(req) {
		return ""
	}
	if redirect := req.Response; redirect != nil && redirect.Request != nil {
		if key := redirect.Request.Header.Get(keyHeader); key != "" {
			return key
		}
	}
	return c.config.keyOf(req)
}

// finally runs on every way out, also when a hook or Base panics.
func (c *call) finally() {
	defer c.end()
	defer c.reportPanic()
	c.endAttempt()
}

// end releases what the attempts share.
func (c *call) end() {
	if c.partition != nil {
		c.config.partitions.Release(c.partition)
	}
	c.caller.Release()
	c.body.Release(!c.responded) // its Close may panic
}

// mayRetry reports whether a retry can follow the attempt of that number,
// depending on its outcome.
func (c *call) mayRetry(number int) bool {
	return number < c.attempts && !c.options.noRetry && !c.outer
}

// attemptTimeout returns how long an attempt may take. ok is false if there is
// no limit.
func (c *call) attemptTimeout() (timeout time.Duration, ok bool) {
	timeout = c.config.timeout
	if c.options.hasTimeout {
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
		if awsproto.LongPolls(c.req) {
			return true
		}
		open := c.body.Whole()
		return open != nil && awsproto.LongPollsByForm(c.req.Header, open())
	}
	return false
}

// interrupted returns the Stop of a call whose context has ended.
func (c *call) interrupted() Stop { return c.stopFor(c.caller.Ended()) }

// stopFor returns the Stop of a call that ended because of why, which
// caller.Ended returned.
func (c *call) stopFor(why error) Stop {
	if c.caller.TimedOut(why) {
		return StopDeadline
	}
	return StopCanceled
}

// An attempt is one sending of the request, from the wait for its turn to the
// decision about the next attempt. Each attempt has a new value.
type attempt struct {
	record Attempt
	permit admission.Permit
	before past

	// The request.
	out    *http.Request     // what is sent
	marked *recordContext    // the context of out; nil if out has no recordContext
	own    *respbody.Context // the context of out; nil if it is not the attempt's own
	unsent io.ReadCloser     // the body of out, until it is sent
	sentBy http.RoundTripper // nil before

	// The outcome.
	ahead     *respbody.Ahead // of the response; nil if nothing was read ahead
	fault     error           // why the outcome cannot be classified
	canceled  bool            // the caller's context ended the attempt
	abandoned bool            // later requests do not use its connection
	closed    bool            // the response is closed
	leaves    bool            // the next attempt must not use its connection
	reported  bool            // the observers were called

	// The next attempt.
	unpaid   int  // retry tokens that it still has to wait for
	granting bool // the wait is for a fleet, and a part of the delay
	next     admission.Permit
}

// start makes the attempt of that number the present one, of which nothing else is
// set.
func (c *call) start(number int, before past) {
	c.attempt = attempt{before: before}
	c.record.Request, c.record.Partition = c.req, c.partition.Name
	c.record.Number, c.record.MaxAttempts, c.record.IdempotencyKey = number, c.attempts, c.key
}

// advance starts the attempt that follows the present one.
func (c *call) advance() {
	permit, offset := c.next, c.record.Offset
	c.start(c.record.Number+1, past{
		attempts: c.record.Number, delay: c.record.Delay, failure: c.failure(),
		left: c.leaves, maybeExecuted: c.record.MaybeExecuted,
	})
	c.permit, c.record.Offset = permit, offset
}

// endAttempt releases what the present attempt has.
func (c *call) endAttempt() {
	c.permit.Release(true)
	c.next.Release(true)
	switch {
	case c.record.Response != nil && !c.closed && !c.responded:
		respbody.Close(c.record.Response, c.own.Ender())
	case c.record.Response == nil && c.own != nil: // nothing was sent, or it failed
		c.own.End()
	}
	if c.unsent != nil {
		c.unsent.Close() // may panic
	}
}

// sent reports whether Base was called.
func (c *call) sent() bool { return c.sentBy != nil }

// failure returns what an error says about the attempt.
func (c *call) failure() failure {
	if c.record.Response != nil {
		return failure{status: c.record.Response.StatusCode, code: c.record.Code}
	}
	return failure{err: c.record.Err}
}

// A past is what the attempts before one left.
type past struct {
	attempts int           // how many were sent
	delay    time.Duration // between the last one and the next
	failure  failure       // of the last one
	left     bool          // the connection of the last one must not be used again

	maybeExecuted bool // see Attempt
}

// waitTurn waits until the attempt may be sent.
func (c *call) waitTurn() error {
	if c.record.Number == 1 {
		if err := c.permit.AcquireInitial(c.partition, &c.caller, c.config.initialCost, c.config.waitTokens); err != nil {
			return c.refuse(StopQuota, err)
		}
	}
	if err := c.admit(&c.permit); err != nil {
		return c.refuse(StopRateLimit, err)
	}
	c.record.Waited = c.permit.Waited
	return nil
}

// admit waits until the attempt of that permit may be sent.
func (c *call) admit(p *admission.Permit) error {
	return p.Admit(c.partition, &c.caller, c.req, c.observed)
}

// refuse ends the call before its attempt is sent: because the caller's context has
// ended, or because of an error of Quota.Acquire or RateLimiter.Wait.
func (c *call) refuse(stop Stop, err error) error {
	why := c.caller.Ended()
	if why == nil && !errors.Is(err, ErrQuotaExceeded) && !errors.Is(err, ErrRateLimited) {
		why = err
	}
	if why != nil {
		return c.endUnsent(c.stopFor(why), interruption(c.caller.Context, why, c.before.failure.error()))
	}
	if c.before.attempts > 0 && errors.Is(err, pacer.ErrTooLate) {
		stop = StopDeadline
	}
	return c.endUnsent(stop, c.before.failure.after(err))
}

// endUnsent returns the error of a call that ends before its attempt is sent, and
// calls the observers, unless the caller canceled it.
func (c *call) endUnsent(stop Stop, err error) error {
	e := &Error{Attempts: c.before.attempts, Stop: stop, Err: err, MaybeExecuted: c.before.maybeExecuted}
	if !c.observed || e.Stop == StopCanceled {
		return e
	}
	class := Throttled
	if e.Stop == StopPermanent || e.interrupted() {
		class = Permanent
	}
	c.observe(Attempt{
		Request: c.req, MaxAttempts: c.attempts, Err: e.Err, Class: class, Stop: e.Stop,
		MaybeExecuted: e.MaybeExecuted, Partition: c.partition.Name,
	})
	return e
}

// observe calls the observers.
func (c *call) observe(a Attempt) {
	if c.config.observe != nil {
		c.config.observe(a)
	}
	if c.options.observe != nil {
		c.options.observe(a)
	}
}

// report calls the observers, once. An attempt whose response body broke off is
// reported again only if no attempt follows it.
func (c *call) report() {
	broke := c.resumes && !c.sent()
	if !c.observed || c.reported || broke && c.record.Stop == "" {
		return
	}
	c.reported = true
	c.observe(c.record)
}

// reportPanic calls the observers if a hook or Base panicked after the attempt
// was sent.
func (c *call) reportPanic() {
	if !c.sent() || c.reported || !c.observed {
		return
	}
	c.record.Class = Permanent
	c.stopAt(StopPermanent)
	if c.record.Response == nil && c.record.Err == nil {
		c.record.Err = errPanicked
	}
	c.report()
}

var errPanicked = errors.New("awsretry: Base panicked")

// stopAt ends the call with its attempt, even if a retry was planned.
func (c *call) stopAt(stop Stop) { c.record.Stop, c.record.Delay = stop, 0 }
