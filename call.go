package awsretry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// A call is one RoundTrip: what its attempts share. It lives on the goroutine's stack.
type call struct {
	*engine
	first     plainAnswer   // the first attempt's, where it is made already
	req       *http.Request // the caller's; never changed
	ctx       context.Context
	options   *callOptions // nil where the context has none
	partition *partition
	body      payload
	observed  bool // somebody is to be told of the attempts

	number         int             // of the last attempt that was sent, from 1
	out            *http.Request   // what is sent
	record         *recordContext  // of out, where it has one
	held           io.ReadCloser   // the body of out, until it is sent
	answer         *http.Response  // that is neither discarded nor the caller's yet
	attempt        *attemptContext // of out; nil where AttemptTimeout is 0
	sending        bool            // Base has out
	newConn        bool            // the next attempt is not to use the connection of the last one
	drawn          int             // tokens drawn for the attempt under way; put back where it is never made
	unpaid         int             // tokens that are still to be waited for
	sendToken      bool            // for the next attempt, taken already
	sendTokenTaken bool            // from the limiter, for an attempt that is not sent yet
	lastDelay      time.Duration   // the pause before the attempt under way
	lastErr        error           // the last failure, where it was a transport error
	lastCode       string          // else its status and code
	lastStatus     int
	id             string // of the invocation, for SDKHeaders

	// Of the attempt under way.
	abandoned bool // the caller's context ended it
	told      bool // its observers were called
	closed    bool // its answer was closed
}

// begin finds what the request needs.
func (c *call) begin(t *Transport, req *http.Request) error {
	if c.first.engine == nil {
		c.body.own(req)
	} else {
		c.body.req = req
	}
	e, err := t.start()
	if err != nil {
		return err
	}
	c.engine, c.req, c.ctx = e, req, req.Context()
	if why := c.ended(); why != nil && c.first.engine == nil {
		return c.error(StopCanceled, interruption(c.ctx, why, nil))
	}
	if c.options = c.first.options; !c.first.asked {
		c.options = optionsOf(c.ctx)
	}
	c.observed = e.observe != nil || c.options != nil && c.options.observe != nil
	c.partition = e.partitionOf(req, c.options)
	if e.initialCost > 0 {
		if err := c.acquire(e.initialCost); err != nil {
			return err
		}
	}
	c.body.split(e.maxBuffer)
	return nil
}

// end runs on every way out, a panic's too.
func (c *call) end() {
	if c.drawn > 0 {
		c.partition.quota.Release(c.drawn)
	}
	if c.sendTokenTaken {
		c.partition.limiter.putBack()
	}
	if c.partition != nil {
		c.partitions.release(c.partition)
	}
	if c.held != nil {
		c.held.Close()
	}
	if c.answer != nil {
		c.answer.Body.Close()
	}
	if c.sending && c.body.copied() { // Base panicked
		c.out.Body.Close()
	}
	c.body.release()
}

func (c *call) ended() error { return ended(c.ctx, cancelOf(c.req)) }

// acquire draws tokens, waiting for them where Quota.Wait says so.
func (c *call) acquire(tokens int) error {
	ctx, stop := c.waitContext()
	defer stop()
	if err := c.partition.quota.Acquire(ctx, tokens); err != nil {
		return c.notWaited(StopQuota, ErrQuotaExceeded, err)
	}
	c.drawn = tokens
	return nil
}

// takeSendToken is adaptive mode's: it waits for the rate limiter.
func (c *call) takeSendToken(a *Attempt) error {
	limiter := c.partition.limiter
	if limiter == nil || c.sendToken {
		c.sendToken = false
		return nil
	}
	var start time.Time
	if c.observed {
		start = time.Now()
	}
	ctx, stop := c.waitContext()
	taken, err := limiter.wait(ctx)
	stop()
	if err != nil {
		return c.notWaited(StopRateLimit, ErrRateLimited, err)
	}
	c.sendTokenTaken = taken
	if c.observed {
		a.Waited = time.Since(start)
	}
	return nil
}

// notWaited is the error of a wait for tokens: that they are refused, or that the caller wants no answer any more.
func (c *call) notWaited(stop Stop, refusal, err error) error {
	if errors.Is(err, refusal) {
		return c.error(stop, err)
	}
	if why := c.ended(); why != nil {
		err = why
	}
	return c.error(StopCanceled, interruption(c.ctx, err, c.lastFailure()))
}

// waitContext is the caller's context, which the deprecated Request.Cancel ends too where the caller uses it.
func (c *call) waitContext() (ctx context.Context, stop func()) {
	cancel := cancelOf(c.req)
	if cancel == nil || !c.maySleep() {
		return c.ctx, func() {}
	}
	return withCancelChannel(c.ctx, cancel)
}

// maySleep reports whether tokens may have to be waited for.
func (c *call) maySleep() bool {
	return c.waitTokens || c.partition.limiter != nil && c.partition.limiter.limiting.Load()
}

// tell calls the observers, once for each attempt.
func (c *call) tell(a *Attempt) {
	if !c.observed || c.told {
		return
	}
	c.told = true
	if c.observe != nil {
		c.observe(*a)
	}
	if c.options != nil && c.options.observe != nil {
		c.options.observe(*a)
	}
}

// finish returns the last answer.
func (c *call) finish(a *Attempt) (*http.Response, error) {
	if a.Err == nil && !c.closed && (a.Number > 1 || a.Class.Retryable()) {
		c.keepRecord(a)
	}
	c.tell(a)
	if a.Stop == StopQuota && a.Delay > 0 {
		c.sleepHolding(a.Delay) // so that the loop of a long-polling caller does not spin
	}
	if a.Err != nil || c.closed {
		return nil, c.error(a.Stop, c.failure(a))
	}
	c.answer = nil
	return a.Response, nil
}

// failure is what the caller is told where no answer goes back.
func (c *call) failure(a *Attempt) error {
	why := c.ended()
	if a.Stop != StopCanceled || why == nil {
		return a.Err
	}
	if c.closed || a.Err == nil {
		return interruption(c.ctx, why, c.lastFailure())
	}
	err := a.Err
	if last := c.lastFailure(); last != nil && c.abandoned {
		err = fmt.Errorf("%w; before that: %w", err, last)
	}
	return interruption(c.ctx, why, err)
}

// keepRecord leaves the record of the last attempt to Outcome, in the context of the response's request: of ours, or of the
// one that Base says it sent, which may have gone elsewhere.
func (c *call) keepRecord(a *Attempt) {
	sent := a.Response.Request
	var known *recordContext
	if sent != nil {
		known, _ = sent.Context().Value(recordKey{}).(*recordContext)
	}
	if sent == nil || known != nil && known != c.record { // none, or left there by another request
		sent, known = c.out, c.record
	}
	if known == nil {
		c.record = newRecordContext(c.ctx, c.req, c.options, 0)
		sent = sent.WithContext(c.record)
	}
	a.Response.Request = sent
	c.record.set(a)
}

// lastFailure is the attempt's before the one under way, whose answer is closed; nil where there is none.
func (c *call) lastFailure() error {
	if c.lastErr == nil && c.lastStatus != 0 {
		return &answerError{c.lastStatus, c.lastCode}
	}
	return c.lastErr
}

func (c *call) error(stop Stop, err error) error {
	return &Error{Attempts: c.number, Stop: stop, Err: err}
}
