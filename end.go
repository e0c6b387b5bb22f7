package awsretry

import (
	"fmt"
	"net/http"
	"time"

	"example.com/awsretry/internal/neterr"
	"example.com/awsretry/internal/respbody"
)

// finish returns the last response, or an error.
func (c *call) finish() (*http.Response, error) {
	if c.ahead != nil {
		c.ahead.Stop() // only a Read in progress goes on
		if !c.closed && c.fault == nil && c.bodyCanceled() {
			c.giveUp()
		}
	}
	kept := c.record.Err == nil && !c.closed && c.fault == nil
	if kept && (c.record.Number > 1 || c.record.Class != Success) {
		c.keepRecord()
	}
	c.report()
	if c.record.Stop == StopQuota && c.record.Delay > 0 {
		c.sleepKeeping(c.record.Delay) // so that the loop of a long-polling caller does not spin
	}
	switch {
	case c.fault != nil:
		return nil, c.error(StopPermanent, c.fault)
	case !kept:
		return nil, c.error(c.record.Stop, c.lastError())
	}
	c.responded = true
	return c.record.Response, nil
}

// error returns the error of a call that ends after its attempt.
func (c *call) error(stop Stop, err error) error {
	lost := c.record.Class == Success // the end of the context took the response away
	return &Error{Attempts: c.record.Number, Stop: stop, Err: err, MaybeExecuted: c.record.MaybeExecuted || lost}
}

// bodyCanceled reports whether the end of the caller's context broke off the body
// that is read ahead. After its deadline the caller still gets the response, as from
// net/http, except for a 2xx, for whose body it has been waited.
func (c *call) bodyCanceled() bool {
	why := c.caller.Ended()
	if why == nil || c.ahead.Ended() && c.ahead.Err() == nil {
		return false
	}
	return c.record.Response.StatusCode < 400 || !c.caller.TimedOut(why)
}

// lastError returns the error of a call that returns no response.
func (c *call) lastError() error {
	why := c.caller.Ended()
	switch {
	case c.record.BodyErr != nil && c.body.Err() != nil: // an earlier attempt sent another body
		return c.before.failure.after(c.record.Err)
	case c.record.BodyErr != nil:
		return fmt.Errorf("%w; %w", c.record.Err, c.record.BodyErr)
	case why == nil || c.record.Stop != c.stopFor(why):
		return neterr.SchemeMismatch(c.record.Err)
	}
	err := c.record.Err
	if c.record.Response != nil {
		err = c.failure().error()
	} else if last := c.before.failure.error(); last != nil && c.canceled {
		err = fmt.Errorf("%w; before that: %w", err, last)
	}
	return interruption(c.caller.Context, why, err)
}

// giveUp stops and discards the response: the caller's context has ended, and
// the body with it.
func (c *call) giveUp() {
	c.stopAt(c.interrupted())
	if c.record.Response != nil {
		c.closed = true
		respbody.Close(c.record.Response, c.own.Ender())
	}
}

// sleepKeeping sleeps for d and keeps the response.
func (c *call) sleepKeeping(d time.Duration) {
	defer c.own.Hold()() // the caller's context may panic
	c.caller.Sleep(d)
}

// keepRecord stores the record of the last attempt for Outcome, in the context
// of the response's request. That is our request, or another one that Base sent
// in its place.
func (c *call) keepRecord() {
	sent := c.record.Response.Request
	var known *recordContext
	if sent != nil {
		known, _ = sent.Context().Value(recordKey{}).(*recordContext)
	}
	if sent == nil || known != nil && known != c.marked { // none, or one of another call
		sent, known = c.shownRequest(), c.marked
	}
	if known == nil {
		c.marked = newRecordContext(c.caller.Context, c.req, c.options, 0)
		sent = sent.WithContext(c.marked)
	}
	c.record.Response.Request = sent
	c.marked.set(&c.record)
}
