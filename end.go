package awsretry

import (
	"errors"
	"fmt"
	"net/http"

	"example.com/awsretry/internal/neterr"
	"example.com/awsretry/internal/pacer"
	"example.com/awsretry/internal/respbody"
)

// finish returns the last response, or an error.
func (c *call) finish() (*http.Response, error) {
	if c.now.ahead != nil {
		c.now.ahead.Stop() // only a Read in progress goes on
		if c.now.owner == ours && c.now.fault == nil && c.bodyCanceled() {
			c.stopAndDiscard()
		}
	}
	kept := c.now.record.Err == nil && c.now.owner == ours && c.now.fault == nil
	if kept && (c.now.record.Number > 1 || c.now.record.Class != Success) {
		c.keepRecord()
	}
	c.report()
	if c.now.record.Stop == StopQuota && c.now.record.Delay > 0 {
		c.sleepKeeping() // so that the loop of a long-polling caller does not spin
	}
	switch {
	case c.now.fault != nil:
		return nil, c.error(StopPermanent, c.now.fault)
	case !kept:
		return nil, c.error(c.now.record.Stop, c.lastError())
	}
	c.now.owner = callers
	return c.now.record.Response, nil
}

// sleepKeeping sleeps for the delay and keeps the response.
func (c *call) sleepKeeping() {
	defer c.now.own.Hold()() // the caller's context may panic
	c.caller.Sleep(c.now.record.Delay)
}

// error returns the error of a call that ends after its attempt.
func (c *call) error(stop Stop, err error) error {
	lost := c.now.record.Class == Success // the end of the context took the response away
	return &Error{Attempts: c.now.record.Number, Stop: stop, Err: err, MaybeExecuted: c.now.record.MaybeExecuted || lost}
}

// bodyCanceled reports whether the end of the caller's context broke off the body
// that is read ahead. After its deadline the caller still gets the response, as from
// net/http, except for a 2xx, for whose body it has been waited.
func (c *call) bodyCanceled() bool {
	why := c.caller.Ended()
	if why == nil || c.now.ahead.Ended() && c.now.ahead.Err() == nil {
		return false
	}
	return c.now.record.Response.StatusCode < 400 || !c.caller.TimedOut(why)
}

// lastError returns the error of a call that returns no response.
func (c *call) lastError() error {
	why := c.caller.Ended()
	switch {
	case c.now.record.BodyErr != nil && c.body.Err() != nil: // an earlier attempt sent another body
		return c.now.before.failure.after(c.now.record.Err)
	case c.now.record.BodyErr != nil:
		return fmt.Errorf("%w; %w", c.now.record.Err, c.now.record.BodyErr)
	case why == nil || c.now.record.Stop != c.stopFor(why):
		return neterr.SchemeMismatch(c.now.record.Err)
	}
	err := c.now.record.Err
	if c.now.record.Response != nil {
		err = c.failure().error()
	} else if last := c.now.before.failure.error(); last != nil && c.now.canceled {
		err = fmt.Errorf("%w; before that: %w", err, last)
	}
	return c.caller.Interruption(why, err)
}

// stopAndDiscard stops and discards the response: the caller's context has ended,
// and the body with it.
func (c *call) stopAndDiscard() {
	c.stop(c.stopOfContext())
	if c.now.record.Response != nil {
		c.now.owner = nobody
		respbody.Close(c.now.record.Response, c.now.own.Ender())
	}
}

// finishRefused returns the error of a call whose attempt must not be sent: because
// the caller's context has ended, or because of an error of Quota.Acquire or
// RateLimiter.Wait.
func (c *call) finishRefused(stop Stop, err error) error {
	why := c.caller.Ended()
	if why == nil && !errors.Is(err, ErrQuotaExceeded) && !errors.Is(err, ErrRateLimited) {
		why = err
	}
	if why != nil {
		return c.finishUnsent(c.stopFor(why), c.caller.Interruption(why, c.now.before.failure.error()))
	}
	if c.now.before.attempts > 0 && errors.Is(err, pacer.ErrTooLate) {
		stop = StopDeadline
	}
	return c.finishUnsent(stop, c.now.before.failure.after(err))
}

// finishUnsent returns the error of a call that ends before its attempt is sent, and
// calls the observers, unless the caller canceled it.
func (c *call) finishUnsent(stop Stop, err error) error {
	e := &Error{Attempts: c.now.before.attempts, Stop: stop, Err: err, MaybeExecuted: c.now.before.maybeExecuted}
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
	if !c.observed || c.now.reported || broke && c.now.record.Stop == "" {
		return
	}
	c.now.reported = true
	c.observe(c.now.record)
}

// reportPanic calls the observers if a hook or Base panicked after the attempt
// was sent.
func (c *call) reportPanic() {
	if !c.sent() || c.now.reported || !c.observed {
		return
	}
	c.now.record.Class = Permanent
	c.stop(StopPermanent)
	if c.now.record.Response == nil && c.now.record.Err == nil {
		c.now.record.Err = errPanicked
	}
	c.report()
}

var errPanicked = errors.New("awsretry: Base panicked")

// stop makes the attempt the last one, even if a retry was planned.
func (c *call) stop(stop Stop) { c.now.record.Stop, c.now.record.Delay = stop, 0 }

// stopOfContext returns the Stop of a call whose context has ended.
func (c *call) stopOfContext() Stop { return c.stopFor(c.caller.Ended()) }

// stopFor returns the Stop of a call that ended because of why, which
// caller.Ended returned.
func (c *call) stopFor(why error) Stop {
	if c.caller.TimedOut(why) {
		return StopDeadline
	}
	return StopCanceled
}
