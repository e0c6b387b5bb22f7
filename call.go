package awsretry

import (
	"net/http"
	"time"

	"example.com/awsretry/internal/admission"
	"example.com/awsretry/internal/awsproto"
	"example.com/awsretry/internal/replay"
	"example.com/awsretry/internal/respbody"
	"example.com/awsretry/internal/wait"
)

// A call is one RoundTrip: what its attempts share, and the present attempt. It
// lives on the goroutine's stack.
type call struct {
	config     *config
	req        *http.Request // the caller's; never changed
	caller     wait.Context
	options    callOptions          // of the context; the zero value if it has none
	partition  *admission.Partition // released at the end; nil before
	attempts   int                  // how often the request may be sent
	timeout    time.Duration        // of each attempt; 0 means none
	policy     Policy               // nil means DefaultPolicy
	outer      bool                 // the AWS SDK that made the request retries it
	observed   bool                 // there are observers
	resumes    bool                 // its responses continue a body, whose beginning the caller has
	body       replay.Body
	key        string // the Idempotency-Key that it sets, or ""
	invocation string // for SDKHeaders; "" until the first attempt that has them

	now attempt // a new value for each
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
	sentBy http.RoundTripper // nil before

	// The outcome.
	ahead     *respbody.Ahead // of the response; nil if nothing was read ahead
	fault     error           // why the outcome cannot be classified
	owner     owner           // of the response
	canceled  bool            // the caller's context ended the attempt
	abandoned bool            // later requests do not use its connection
	reported  bool            // the observers were called

	// The next attempt.
	free   bool // it costs no retry tokens, because the response has brought much
	unpaid int  // retry tokens that it has to wait for
	next   admission.Permit
}

// An owner is who has to close a response, if there is one.
type owner int

const (
	ours    owner = iota
	callers       // RoundTrip returns it
	nobody        // it is closed
)

// A past is what the attempts before one left.
type past struct {
	attempts int           // how many were sent
	delay    time.Duration // between the last one and the next
	failure  failure       // of the last one
	left     bool          // the connection of the last one must not be used again

	maybeExecuted bool // see Attempt
}

// begin makes c the call of req, and finds what its attempts share. From here on,
// release closes the request's body. If options is nil, they are not known yet.
func (c *call) begin(config *config, req *http.Request, options *callOptions) error {
	c.req, c.caller = req, wait.Of(req)
	c.body.Own(req)
	if options == nil {
		options = optionsOf(req.Context()) // Value may panic, so c has the body
	}
	c.configure(config, options)
	if why := c.caller.Ended(); why != nil {
		return &Error{Stop: c.stopFor(why), Err: c.caller.Interruption(why, nil)}
	}
	if err := c.options.validate(); err != nil {
		return &Error{Stop: StopPermanent, Err: err}
	}
	c.partition = config.partitionOf(req, options)
	c.body.Plan(config.maxBuffer, !c.mayRetry())
	return nil
}

// configure sets what the config, the options of the context, which may be nil, and the
// request say of the attempts.
func (c *call) configure(config *config, options *callOptions) {
	c.config = config
	if options != nil {
		c.options = *options
	}
	c.observed = config.observe != nil || c.options.observe != nil
	if c.policy = config.policy; c.options.hasPolicy {
		c.policy = c.options.policy
	}
	if c.timeout = config.transport.AttemptTimeout; c.options.hasTimeout {
		c.timeout = c.options.timeout
	}
	switch c.attempts = config.attempts; {
	case c.options.hasAttempts:
		c.attempts = c.options.maxAttempts
	case config.dynamoDB != nil && awsproto.DynamoDB(c.req):
		c.attempts = config.dynamoDB.attempts
	}
}

// run makes the present attempt and those that follow it, up to the last.
func (c *call) run() (*http.Response, error) {
	for {
		if err := c.waitTurn(); err != nil {
			return nil, err
		}
		if err := c.exchange(); err != nil {
			return nil, err
		}
		if !c.conclude() {
			return c.finish()
		}
	}
}

// conclude classifies the outcome of the present attempt. It returns true when
// another attempt is due, which is the present one then.
func (c *call) conclude() bool {
	if c.now.record.Err == nil {
		c.now.record.Code = c.findCode()
	}
	c.classify()
	c.applyOutcome()
	if !c.decide() || !c.pause() {
		return false
	}
	c.advance()
	return true
}

// start makes the attempt of that number the present one, of which nothing else is
// set.
func (c *call) start(number int, before past) {
	c.now = attempt{before: before}
	c.now.record.Request, c.now.record.Partition = c.req, c.partition.Name
	c.now.record.Number, c.now.record.MaxAttempts, c.now.record.IdempotencyKey = number, c.attempts, c.key
}

// advance starts the attempt that follows the present one.
func (c *call) advance() {
	permit, offset := c.now.next, c.now.record.Offset
	c.start(c.now.record.Number+1, past{
		attempts: c.now.record.Number, delay: c.now.record.Delay, failure: c.failure(),
		left: c.leavesConn(), maybeExecuted: c.now.record.MaybeExecuted,
	})
	c.now.permit, c.now.record.Offset = permit, offset
}

// release runs on every way out, also when a hook or Base panics.
func (c *call) release() {
	defer c.releaseShared()
	defer c.reportPanic()
	c.releaseAttempt()
}

// releaseShared releases what the attempts share.
func (c *call) releaseShared() {
	if c.partition != nil {
		c.config.partitions.Release(c.partition)
	}
	c.caller.Release()
	c.body.Release(c.now.owner != callers) // its Close may panic
}

// releaseAttempt releases what the present attempt has.
func (c *call) releaseAttempt() {
	c.now.permit.Release(true)
	c.now.next.Release(true)
	switch {
	case c.now.record.Response != nil && c.now.owner == ours:
		respbody.Close(c.now.record.Response, c.now.own.Ender())
	case c.now.record.Response == nil && c.now.own != nil: // nothing was sent, or it failed
		c.now.own.End()
	}
	if out := c.now.out; !c.sent() && out != nil && out != c.req && out.Body != nil {
		out.Body.Close() // may panic
	}
}

// sent reports whether Base was called.
func (c *call) sent() bool { return c.now.sentBy != nil }

// mayRetry reports whether a retry can follow the first attempt, depending on its
// outcome.
func (c *call) mayRetry() bool {
	return c.attempts > 1 && !c.options.noRetry && !c.outer
}

// failure returns what an error says about the attempt.
func (c *call) failure() failure {
	if c.now.record.Response != nil {
		return failure{status: c.now.record.Response.StatusCode, code: c.now.record.Code}
	}
	return failure{err: c.now.record.Err}
}
