package simulate

import (
	"context"
	"slices"
	"sync"
	"time"
)

type callKey struct{}

// A callContext is the context of a call. It ends at the call's deadline or with
// the run. One of package context would need a map for each attempt with a
// timeout, and another one for all calls of the run.
type callContext struct {
	call     call
	deadline time.Time   // the zero time: none
	timer    *time.Timer // nil without a deadline

	mu   sync.Mutex    // guards the fields below
	done chan struct{} // nil until it is asked for
	err  error         // nil until the end
	ends []*func()     // what the end calls
}

// Deadline implements context.Context.
func (c *callContext) Deadline() (deadline time.Time, ok bool) {
	return c.deadline, !c.deadline.IsZero()
}

// Done implements context.Context.
func (c *callContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		}
	}
	return c.done
}

// Err implements context.Context.
func (c *callContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Value implements context.Context.
func (c *callContext) Value(key any) any {
	if key == (callKey{}) {
		return &c.call
	}
	return nil
}

// AfterFunc is what package context calls for the contexts that are made of this
// one.
func (c *callContext) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	end := &f
	c.ends = append(c.ends, end)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.Index(c.ends, end)
		if i >= 0 {
			c.ends = slices.Delete(c.ends, i, i+1)
		}
		return i >= 0
	}
}

// end ends the context, unless it has ended.
func (c *callContext) end(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
	}
	ends := c.ends
	c.ends = nil
	c.mu.Unlock()
	for _, f := range ends {
		(*f)()
	}
}

// contexts are those of the calls under way.
type contexts struct {
	mu    sync.Mutex
	open  map[*callContext]struct{}
	ended bool
}

// add begins a call's context.
func (l *contexts) add(c *callContext) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		c.end(context.Canceled)
		return
	}
	if l.open == nil {
		l.open = map[*callContext]struct{}{}
	}
	l.open[c] = struct{}{}
	if !c.deadline.IsZero() {
		c.timer = time.AfterFunc(time.Until(c.deadline), func() { c.end(context.DeadlineExceeded) })
	}
}

// remove ends a call's context with the call.
func (l *contexts) remove(c *callContext) {
	if c.timer != nil {
		c.timer.Stop()
	}
	l.mu.Lock()
	delete(l.open, c)
	l.mu.Unlock()
	c.end(context.Canceled)
}

// over reports whether the run is over.
func (l *contexts) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// end ends all contexts with the run.
func (l *contexts) end() {
	l.mu.Lock()
	l.ended = true
	open := l.open
	l.open = nil // those that are removed now end twice, which is harmless
	l.mu.Unlock()
	for c := range open {
		c.end(context.Canceled)
	}
}
