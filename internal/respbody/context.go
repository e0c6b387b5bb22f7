package respbody

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// A TimeoutError reports that an attempt took longer than
// Transport.AttemptTimeout, or that its body stalled for
// Transport.StallTimeout. It does not match context.DeadlineExceeded, which is
// the caller's own deadline.
type TimeoutError struct {
	After   time.Duration
	Stalled bool // After is the StallTimeout
}

func (e *TimeoutError) Error() string {
	if e.Stalled {
		return fmt.Sprintf("awsretry: the response body stalled for StallTimeout, %v", e.After)
	}
	return fmt.Sprintf("awsretry: the attempt took longer than AttemptTimeout, %v", e.After)
}

// Timeout returns true, as net.Error does for a time-out.
func (*TimeoutError) Timeout() bool { return true }

// Temporary returns true, as net.Error does for a time-out.
func (*TimeoutError) Temporary() bool { return true }

// A Context is the context of one attempt. It ends with a time-out, with its
// parent, or with the response body.
//
// It is not context.WithTimeout because the headers of a 101 end the time-out
// and not the context. A nil Context is that of an attempt without one of its
// own: Ender, Left and Hold work on it.
type Context struct {
	context.Context
	Parent   context.Context
	cancel   context.CancelCauseFunc
	timeout  time.Duration // 0: none
	deadline time.Time     // expires, or the parent's where that is earlier
	expires  time.Time     // when the time-out ends the context, unless it is held; the attempt's goroutine alone uses it

	// timer is that of the time-out, nil until Start, and if there is none. What
	// Prepare started may have the context before Start.
	timer atomic.Pointer[time.Timer]

	stall      time.Duration // 0: none
	stallTimer *time.Timer   // runs during a Read of the body; nil until Bind, and if there is none

	body boundBody // after Bind
}

// NewContext returns a context with a time-out, which begins with Start, and
// with a limit to the time that a Read of the response body takes. 0 means
// none.
func NewContext(parent context.Context, timeout, stall time.Duration) *Context {
	ctx, cancel := context.WithCancelCause(parent)
	return &Context{Context: ctx, Parent: parent, cancel: cancel, timeout: timeout, stall: stall}
}

// Start begins the time-out. It is called once.
func (c *Context) Start() {
	if c.timeout == 0 {
		return
	}
	c.expires = time.Now().Add(c.timeout)
	c.deadline = c.expires
	if earlier, ok := c.Context.Deadline(); ok && earlier.Before(c.deadline) {
		c.deadline = earlier
	}
	c.timer.Store(time.AfterFunc(c.timeout, func() { c.cancel(&TimeoutError{After: c.timeout}) }))
}

// Deadline implements context.Context. Until Start, and without a time-out, it
// is the parent's.
func (c *Context) Deadline() (time.Time, bool) {
	if c.timer.Load() == nil {
		return c.Context.Deadline()
	}
	return c.deadline, true
}

// End releases what the context holds. It may be called more than once, and by
// several goroutines.
func (c *Context) End() {
	c.cancel(context.Canceled)
	if timer := c.timer.Load(); timer != nil {
		timer.Stop()
	}
}

// Ender returns End, and nil for an attempt without a context of its own.
func (c *Context) Ender() func() {
	if c == nil {
		return nil
	}
	return c.End
}

// Left returns how much of the time-out is left, at least a nanosecond. It
// reports false for an attempt without a time-out.
func (c *Context) Left() (left time.Duration, ok bool) {
	if c == nil || c.timer.Load() == nil {
		return 0, false
	}
	return max(time.Until(c.expires), 1), true
}

// Hold stops the time-out of an attempt whose response is kept for a while,
// until resume is called.
func (c *Context) Hold() (resume func()) {
	if c == nil {
		return func() {}
	}
	timer := c.timer.Load()
	if timer == nil || !timer.Stop() {
		return func() {}
	}
	left := time.Until(c.expires)
	return func() {
		c.expires = time.Now().Add(left)
		timer.Reset(left)
		if c.Err() != nil { // End stops the timer, but perhaps before the Reset
			timer.Stop()
		}
	}
}

// Explain returns the time-out in place of err if it is what ended the attempt.
func (c *Context) Explain(err error) error {
	var timeout *TimeoutError
	if errors.As(context.Cause(c.Context), &timeout) {
		return timeout
	}
	return err
}

// Bind makes the response's body end the context. The end of what is read of a
// body that can be written to, such as a 101's, is not the end of that body:
// only Close is.
func (c *Context) Bind(resp *http.Response) {
	body := resp.Body
	if body == nil || body == http.NoBody {
		c.End()
		return
	}
	if timer := c.timer.Load(); timer != nil && resp.StatusCode == http.StatusSwitchingProtocols {
		timer.Stop() // the connection has changed hands
	}
	c.body = boundBody{body, c}
	if w, ok := body.(io.Writer); ok {
		resp.Body = &boundWriter{&c.body, w}
		return
	}
	if c.stall > 0 {
		c.stallTimer = time.AfterFunc(c.stall, func() { c.cancel(&TimeoutError{c.stall, true}) })
		c.stallTimer.Stop()
	}
	resp.Body = &c.body
}

// A boundBody is the body of a response whose attempt has a context of its own.
type boundBody struct {
	src io.ReadCloser
	ctx *Context
}

func (b *boundBody) Read(p []byte) (int, error) {
	if b.ctx.stallTimer != nil {
		b.ctx.stallTimer.Reset(b.ctx.stall)
		defer b.ctx.stallTimer.Stop()
	}
	n, err := b.read(p)
	if err != nil {
		b.ctx.End()
	}
	return n, err
}

// read explains an io.EOF too: a server that sees that the request was canceled
// may end its response as if that were whole.
func (b *boundBody) read(p []byte) (int, error) {
	n, err := b.src.Read(p)
	if err != nil {
		err = b.ctx.Explain(err)
	}
	return n, err
}

func (b *boundBody) Close() error {
	err := b.src.Close()
	b.ctx.End()
	return err
}

// Bookkeeping implements Wrapper.
func (b *boundBody) Bookkeeping() io.ReadCloser { return b.src }

// A boundWriter is the body of a response that can be written to, such as a
// 101's.
type boundWriter struct {
	*boundBody
	io.Writer
}

func (b *boundWriter) Read(p []byte) (int, error) { return b.read(p) }

// CloseWrite closes the sending side, as net/http's own body does.
func (b *boundWriter) CloseWrite() error { return CloseWrite(b.Writer) }
