package awsretry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"example.com/awsretry/internal/respbody"
)

// An attemptTimeoutError says that an attempt took longer than Transport.AttemptTimeout. It is no
// context.DeadlineExceeded, which speaks of the caller's own deadline.
type attemptTimeoutError struct{ after time.Duration }

func (e *attemptTimeoutError) Error() string {
	return fmt.Sprintf("awsretry: the attempt took longer than AttemptTimeout, %v", e.after)
}

func (*attemptTimeoutError) Timeout() bool   { return true }
func (*attemptTimeoutError) Temporary() bool { return true }

// outran reports whether AttemptTimeout is what ended an attempt.
func outran(err error) bool {
	var timeout *attemptTimeoutError
	return errors.As(err, &timeout)
}

// An attemptContext is the context of one attempt with a time-out. It ends with the time-out, the caller's context, or the
// end of the response body.
//
// It is not context.WithTimeout because the headers of a 101 end the time-out and not the context.
type attemptContext struct {
	context.Context
	deadline time.Time // expires, or the parent's where that is earlier
	expires  time.Time // when the time-out ends the context, unless it is held; the call's alone
	timeout  time.Duration
	cancel   context.CancelCauseFunc
	timer    *time.Timer // nil until start
}

func newAttemptContext(parent context.Context, timeout time.Duration) *attemptContext {
	ctx, cancel := context.WithCancelCause(parent)
	return &attemptContext{Context: ctx, timeout: timeout, cancel: cancel}
}

// start begins the time-out. It is called once, before Base has the context.
func (c *attemptContext) start() {
	c.expires = time.Now().Add(c.timeout)
	c.deadline = c.expires
	if earlier, ok := c.Context.Deadline(); ok && earlier.Before(c.deadline) {
		c.deadline = earlier
	}
	c.timer = time.AfterFunc(c.timeout, func() { c.cancel(&attemptTimeoutError{c.timeout}) })
}

func (c *attemptContext) Deadline() (time.Time, bool) {
	if c.timer == nil { // Prepare asks
		return c.Context.Deadline()
	}
	return c.deadline, true
}

// end releases what the context holds. It may be called more than once, and by several goroutines.
func (c *attemptContext) end() {
	if c.timer != nil {
		c.timer.Stop()
	}
	c.cancel(context.Canceled)
}

// ender returns end, nil for an attempt without a time-out.
func (c *attemptContext) ender() func() {
	if c == nil {
		return nil
	}
	return c.end
}

// left is what remains of the time-out; of an attempt without one, more than
// any wait.
func (c *attemptContext) left() time.Duration {
	if c == nil {
		return math.MaxInt64
	}
	return max(time.Until(c.expires), 1)
}

// hold stops the clock of an attempt whose answer the call keeps for a while, until the function that it returns is called. Of
// an attempt without a time-out it does nothing.
func (c *attemptContext) hold() (resume func()) {
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

// explain returns the time-out in place of err, where it is what ended the attempt.
func (c *attemptContext) explain(err error) error {
	var timeout *attemptTimeoutError
	if errors.As(context.Cause(c.Context), &timeout) {
		return timeout
	}
	return err
}

// bind ends the context with the response's body.
func (c *attemptContext) bind(resp *http.Response) {
	body := resp.Body
	if body == nil || body == http.NoBody {
		c.end()
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
	ctx *attemptContext
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.src.Read(p)
	if err != nil {
		if err != io.EOF {
			err = b.ctx.explain(err)
		}
		b.ctx.end()
	}
	return n, err
}

// Bookkeeping implements respbody.Wrapper.
func (b *timedBody) Bookkeeping() io.ReadCloser { return b.src }

func (b *timedBody) Close() error {
	err := b.src.Close()
	b.ctx.end()
	return err
}

// A timedWriter is the body of a response that can be written to, such as a 101's.
type timedWriter struct {
	*timedBody
	io.Writer
}

// CloseWrite closes the sending side, as the body that net/http gives can.
func (b *timedWriter) CloseWrite() error { return respbody.CloseWrite(b.Writer) }
