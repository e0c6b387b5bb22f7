// Package wait has the waits of a call: with the limit that its caller sets, and with
// others.
package wait

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// For waits until done is closed, d has passed or ctx has ended. It reports
// whether done is closed. A nil done never is.
func For(ctx context.Context, d time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// A Context is the context of the caller of RoundTrip, which the deprecated
// Request.Cancel ends, too. An http.Client with a Timeout sets that channel and a
// deadline. If there is a deadline, it ends long waits, and the channel is only
// polled.
type Context struct {
	context.Context                 // the request's
	cancel          <-chan struct{} // Request.Cancel

	merged context.Context // ends with either; nil until the first wait
	end    context.CancelFunc
}

// Of returns the context of a request.
func Of(req *http.Request) Context { return Context{Context: req.Context(), cancel: req.Cancel} }

// Canceled reports whether the request's Cancel ended it.
func Canceled(req *http.Request) bool { return isClosed(req.Cancel) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Ended returns the cancellation cause, or nil. An http.Client with a Timeout
// closes Request.Cancel at the deadline, possibly before the context ends.
func (c *Context) Ended() error {
	switch {
	case c.Err() != nil:
		return context.Cause(c.Context)
	case !isClosed(c.cancel):
		return nil
	case c.Outlives(0):
		return context.DeadlineExceeded
	}
	return context.Canceled
}

// TimedOut reports whether the deadline ended a call for which Ended returned why.
func (c *Context) TimedOut(why error) bool {
	return errors.Is(c.Err(), context.DeadlineExceeded) || errors.Is(why, context.DeadlineExceeded)
}

// Outlives reports whether a wait that starts now would last beyond the deadline.
func (c *Context) Outlives(wait time.Duration) bool {
	deadline, ok := c.Deadline()
	return ok && !time.Now().Add(wait).Before(deadline)
}

// Sleep sleeps for d. It returns false early if the context ends.
func (c *Context) Sleep(d time.Duration) bool {
	if d <= 0 {
		return c.Ended() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.Done():
	case <-c.cancel:
	}
	return false
}

// onlyCancel reports whether only Request.Cancel can end a wait.
func (c *Context) onlyCancel() bool {
	if c.cancel == nil {
		return false
	}
	_, ok := c.Deadline()
	return !ok
}

// Waiting returns a context for a wait. It is valid until Release.
func (c *Context) Waiting() context.Context {
	if c.merged == nil && c.onlyCancel() {
		ctx, end := context.WithCancel(c.Context)
		c.merged, c.end = ctx, end
		go func(cancel <-chan struct{}) {
			select {
			case <-cancel:
				end()
			case <-ctx.Done():
			}
		}(c.cancel)
	}
	if c.merged != nil {
		return c.merged
	}
	return c.Context
}

// Release ends the context that Waiting returned.
func (c *Context) Release() {
	if c.end != nil {
		c.end()
	}
}

type waitingKey struct{}

// ForHook returns ctx, the context of an attempt, for a hook. The hook gets its
// context for a wait from [InHook].
func (c *Context) ForHook(ctx context.Context) context.Context {
	if !c.onlyCancel() {
		return ctx
	}
	return context.WithValue(ctx, waitingKey{}, c.Waiting())
}

// InHook returns the context for a wait in a Prepare hook that gets a request with
// the context ctx. The deprecated Request.Cancel ends it, too.
func InHook(ctx context.Context) context.Context {
	if waiting, ok := ctx.Value(waitingKey{}).(context.Context); ok {
		return waiting
	}
	return ctx
}
