package wait

import (
	"context"
	"errors"
	"strings"
)

// An Interruption is the error of a call whose context ended.
type Interruption struct {
	ctx  error // the context's error; nil if Request.Cancel ended the call
	why  error // the cause
	last error // the failure before; nil if there was none
}

// Interruption returns the error of a call for which Ended returned why, after the
// failure last, if that is not nil.
func (c *Context) Interruption(why, last error) error { return &Interruption{c.Err(), why, last} }

// TimedOut reports whether the deadline ended the call.
func (e *Interruption) TimedOut() bool {
	return errors.Is(e.why, context.DeadlineExceeded) || errors.Is(e.ctx, context.DeadlineExceeded)
}

func (e *Interruption) Error() string {
	if e.last != nil && errors.Is(e.last, e.why) { // last names the cause
		return e.last.Error()
	}
	text := e.why.Error()
	if e.ctx != nil && !errors.Is(e.why, e.ctx) {
		text = e.ctx.Error() + ": " + text
	}
	if e.last == nil {
		return text
	}
	const before = "; before that: "
	last := before + e.last.Error()
	if e.ctx != nil { // last may begin with the same event
		if rest, ok := strings.CutPrefix(last, before+e.ctx.Error()); ok && (rest == "" || strings.HasPrefix(rest, before)) {
			last = rest
		}
	}
	return text + last
}

func (e *Interruption) Unwrap() []error {
	all := []error{e.why}
	for _, err := range []error{e.ctx, e.last} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}
