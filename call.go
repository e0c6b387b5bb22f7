package awsretry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"example.com/awsretry/internal/replay"
	"example.com/awsretry/internal/respbody"
)

// A call is one RoundTrip: what its attempts share. It lives on the goroutine's
// stack.
type call struct {
	*engine
	first     plainResult   // of the first attempt, where that is made already
	req       *http.Request // the caller's; never changed
	ctx       context.Context
	options   *callOptions // nil where the context has none
	partition *partition
	body      replay.Body
	observed  bool // there is somebody to tell of the attempts

	number    int           // of attempts sent
	next      admission     // of the next attempt
	drawn     int           // tokens drawn for the next attempt; put back where it is never sent
	newConn   bool          // the next attempt needs a connection of its own
	lastDelay time.Duration // before the attempt under way
	last      failure       // before the attempt under way
	id        string        // of the invocation, for SDKHeaders
	waiting   waitContext
	attempt   attempt // under way, or the last one
}

// An admission is what the next attempt needs to be sent, apart from its pause
// and its retry tokens.
type admission struct {
	given  bool
	token  bool // a send token was taken from the limiter
	waited time.Duration
}

// A failure is what an error says of an attempt whose response is closed, or
// that had none.
type failure struct {
	err    error
	status int // where err is nil; 0: there was no failure
	code   string
}

func (f failure) error() error {
	if f.err == nil && f.status != 0 {
		return &answerError{f.status, f.code}
	}
	return f.err
}

// begin finds what the request needs.
func (c *call) begin(t *Transport) error {
	sent := c.first.engine != nil
	if sent {
		c.body.Sent(c.req)
	} else {
		c.body.Own(c.req)
	}
	e, err := t.start()
	if err != nil {
		return err
	}
	c.engine, c.ctx = e, c.req.Context()
	if why := c.ended(); why != nil && !sent {
		return c.error(StopCanceled, interruption(c.ctx, why, nil))
	}
	if c.options = c.first.options; !c.first.asked {
		c.options = optionsOf(c.ctx)
	}
	if c.options != nil && c.options.fault != nil {
		return c.error(StopPermanent, c.options.fault)
	}
	c.observed = e.observe != nil || c.options != nil && c.options.observe != nil
	c.partition = e.partitionOf(c.req, c.options)
	if e.initialCost > 0 {
		if err := c.acquire(e.initialCost); err != nil {
			return c.refused(StopQuota, err)
		}
	}
	c.body.Share(e.maxBuffer, !c.mayRetry(1))
	return nil
}

// end runs on every way out, a panic's too.
func (c *call) end() {
	if c.drawn > 0 {
		c.partition.quota.Release(c.drawn)
	}
	if c.next.token {
		c.partition.limiter.putBack()
	}
	if c.partition != nil {
		c.partitions.release(c.partition)
	}
	a := &c.attempt
	if a.held != nil {
		a.held.Close()
	}
	if a.Response != nil && !a.closed && !a.returned {
		respbody.Discard(a.Response, false, a.timeout.ender())
	}
	c.body.Release(!a.returned)
	c.waiting.stop()
}

// ended returns why the caller has no use for a response any more, nil where it
// has.
func (c *call) ended() error { return ended(c.ctx, cancelOf(c.req)) }

// waitCtx is the context of whatever waits: the caller's, which the deprecated
// Request.Cancel ends too.
func (c *call) waitCtx() context.Context {
	return c.waiting.of(c.ctx, cancelOf(c.req))
}

// acquire draws tokens, and waits for them where Quota.Wait says so.
func (c *call) acquire(tokens int) error {
	ctx := c.ctx
	if c.waitTokens {
		ctx = c.waitCtx()
	}
	if err := c.partition.quota.Acquire(ctx, tokens); err != nil {
		return err
	}
	c.drawn = tokens
	return nil
}

// admit lets the attempt be sent: it waits for a Retry-After that is shared,
// and in adaptive mode for a send token.
func (c *call) admit(a *attempt) error {
	if !c.next.given {
		if err := c.waitForAdmission(false); err != nil {
			return c.refused(StopRateLimit, err)
		}
	}
	a.Waited = c.next.waited
	c.next.given, c.next.waited = false, 0
	return nil
}

// returnMargin is how long before the context's deadline a response is returned
// that was kept while its retry stood in line.
const returnMargin = 100 * time.Millisecond

// errNoTime ends the wait in line of a retry that would come too late.
var errNoTime = errors.New("awsretry: no send token before the context's deadline")

// A lineContext is the context of a retry in line. It ends in time before the
// deadline. It does not have one that RateLimiter.Wait could judge the line by:
// there is something to return if the wait proves too long.
type lineContext struct{ context.Context }

func (lineContext) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// inLine returns the context of a retry in line, whose end has to be called.
func (c *call) inLine() (ctx context.Context, end context.CancelFunc) {
	ctx = c.waitCtx()
	deadline, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	left := time.Until(deadline)
	ctx, end = context.WithTimeoutCause(ctx, left-min(returnMargin, left/2), errNoTime)
	return lineContext{ctx}, end
}

// waitForAdmission fails with ErrRateLimited where the wait would be too long,
// and with the cause of the context's end. Where the response before is kept, it
// fails with errNoTime in time before that end.
func (c *call) waitForAdmission(kept bool) error {
	gate, limiter := &c.partition.gate, c.partition.limiter
	if gate.Load() == nil && limiter == nil {
		c.next.given = true
		return nil
	}
	var start time.Time
	if c.observed {
		start = time.Now()
	}
	for {
		if gate.Load() != nil {
			if err := c.waitForGate(); err != nil {
				return err
			}
		}
		if limiter == nil {
			break
		}
		if err := c.takeSendToken(kept); err != nil {
			return err
		}
		if gate.Load() == nil {
			break
		}
		if closed, _ := gate.closedFor(time.Now()); closed == 0 {
			break
		}
		if c.next.token { // the gate closed while this stood in line
			limiter.putBack()
			c.next.token = false
		}
	}
	c.next.given = true
	if c.observed {
		c.next.waited = time.Since(start)
	}
	return nil
}

// takeSendToken takes a token from the limiter, where it limits.
func (c *call) takeSendToken(kept bool) error {
	limiter := c.partition.limiter
	ctx, end := c.ctx, context.CancelFunc(func() {})
	if limiter.limiting.Load() {
		if ctx = c.waitCtx(); kept {
			ctx, end = c.inLine()
		}
	}
	taken, err := limiter.wait(ctx)
	end()
	c.next.token = taken
	return err
}

// waitForGate waits until no Retry-After is in force for the partition.
func (c *call) waitForGate() error {
	for {
		wait, closed := c.partition.gate.left(time.Now())
		if !closed {
			return nil
		}
		if c.outlivesDeadline(wait) {
			return fmt.Errorf("%w: the service asked for a pause of %v, which ends after the context's deadline",
				ErrRateLimited, wait.Round(time.Millisecond))
		}
		if !c.sleep(wait) {
			return c.ended()
		}
	}
}

// refused is the error of a call that may not send its next attempt: it got no
// tokens, or the caller's context ended while it waited.
func (c *call) refused(stop Stop, err error) error {
	why := c.ended()
	if why == nil && (errors.Is(err, ErrQuotaExceeded) || errors.Is(err, ErrRateLimited)) {
		if last := c.last.error(); last != nil {
			err = fmt.Errorf("%w; before that: %w", err, last)
		}
		return c.error(stop, err)
	}
	if why == nil {
		why = err
	}
	return c.error(StopCanceled, interruption(c.ctx, why, c.last.error()))
}

// tell calls the observers, once for each attempt.
func (c *call) tell(a *attempt) {
	if !c.observed || a.told {
		return
	}
	a.told = true
	if c.observe != nil {
		c.observe(a.Attempt)
	}
	if c.options != nil && c.options.observe != nil {
		c.options.observe(a.Attempt)
	}
}

// sleep reports whether the whole pause was slept.
func (c *call) sleep(d time.Duration) bool {
	if d <= 0 {
		return c.ended() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.ctx.Done():
	case <-cancelOf(c.req):
	}
	return false
}

// outlivesDeadline reports whether a wait from now on would not end before the
// context's deadline.
func (c *call) outlivesDeadline(wait time.Duration) bool {
	deadline, ok := c.ctx.Deadline()
	return ok && !time.Now().Add(wait).Before(deadline)
}

func (c *call) error(stop Stop, err error) error {
	return &Error{Attempts: c.number, Stop: stop, Err: err}
}
