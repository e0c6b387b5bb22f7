package respbody

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// A TimeoutError reports that an attempt took longer than
// Transport.AttemptTimeout. It does not match context.DeadlineExceeded, which
// is the caller's own deadline.
type TimeoutError struct{ After time.Duration }

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("awsretry: the attempt took longer than AttemptTimeout, %v", e.After)
}

// Timeout returns true, as net.Error does for a time-out.
func (*TimeoutError) Timeout() bool { return true }

// Temporary returns true, as net.Error does for a time-out.
func (*TimeoutError) Temporary() bool { return true }

// A TimedContext is the context of one attempt with a time-out. It ends with
// the time-out, with its parent, or with the response body.
//
// It is not context.WithTimeout because the headers of a 101 end the time-out
// and not the context. A nil TimedContext is that of an attempt without a
// time-out: Ender, Left and Hold work on it.
type TimedContext struct {
	context.Context
	deadline time.Time // expires, or the parent's where that is earlier
	expires  time.Time // when the time-out ends the context, unless it is held; the attempt's goroutine alone uses it
	timeout  time.Duration
	cancel   context.CancelCauseFunc
	timer    *time.Timer // nil until Start
}

// NewTimedContext returns a context whose time-out begins with Start.
func NewTimedContext(parent context.Context, timeout time.Duration) *TimedContext {
	ctx, cancel := context.WithCancelCause(parent)
	return &TimedContext{Context: ctx, timeout: timeout, cancel: cancel}
}

// Start begins the time-out. It is called once, before the context is shared.
func (c *TimedContext) Start() {
	c.expires = time.Now().Add(c.timeout)
	c.deadline = c.expires
	if earlier, ok := c.Context.Deadline(); ok && earlier.Before(c.deadline) {
		c.deadline = earlier
	}
	c.timer = time.AfterFunc(c.timeout, func() { c.cancel(&TimeoutError{c.timeout}) })
}

// Deadline implements context.Context. Until Start it is the parent's.
func (c *TimedContext) Deadline() (time.Time, bool) {
	if c.timer == nil {
		return c.Context.Deadline()
	}
	return c.deadline, true
}

// End releases what the context holds. It may be called more than once, and by
// several goroutines.
func (c *TimedContext) End() {
	if c.timer != nil {
		c.timer.Stop()
	}
	c.cancel(context.Canceled)
}

// Ender returns End, and nil for an attempt without a time-out.
func (c *TimedContext) Ender() func() {
	if c == nil {
		return nil
	}
	return c.End
}

// Left returns how much of the time-out is left, at least a nanosecond. It
// reports false for an attempt without a time-out.
func (c *TimedContext) Left() (left time.Duration, ok bool) {
	if c == nil {
		return 0, false
	}
	return max(time.Until(c.expires), 1), true
}

// Hold stops the clock of an attempt whose response is kept for a while, until
// resume is called.
func (c *TimedContext) Hold() (resume func()) {
	if c == nil || !c.timer.Stop() {
		return func() {}
	}
	left := time.Until(c.expires)
	return func() {
		if c.Err() == nil {
			c.expires = time.Now().Add(left)
			c.timer.Reset(left)
		}
	}
}

// Explain returns the time-out in place of err if it is what ended the attempt.
func (c *TimedContext) Explain(err error) error {
	var timeout *TimeoutError
	if errors.As(context.Cause(c.Context), &timeout) {
		return timeout
	}
	return err
}

// Bind makes the response's body end the context.
func (c *TimedContext) Bind(resp *http.Response) {
	body := resp.Body
	if body == nil || body == http.NoBody {
		c.End()
		return
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		c.timer.Stop() // the connection has changed hands
	}
	timed := &timedBody{body, c}
	if w, ok := body.(io.Writer); ok {
		resp.Body = &timedWriter{timed, w}
	} else {
		resp.Body = timed
	}
}

// A timedBody is the body of a response whose attempt has a time-out.
type timedBody struct {
	src io.ReadCloser
	ctx *TimedContext
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.src.Read(p)
	if err != nil {
		if err != io.EOF {
			err = b.ctx.Explain(err)
		}
		b.ctx.End()
	}
	return n, err
}

func (b *timedBody) Close() error {
	err := b.src.Close()
	b.ctx.End()
	return err
}

// Bookkeeping implements Wrapper.
func (b *timedBody) Bookkeeping() io.ReadCloser { return b.src }

// A timedWriter is the body of a response that can be written to, such as a
// 101's.
type timedWriter struct {
	*timedBody
	io.Writer
}

// CloseWrite closes the sending side, as net/http's own body does.
func (b *timedWriter) CloseWrite() error { return CloseWrite(b.Writer) }
