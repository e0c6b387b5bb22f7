package simulate

import (
	"context"
	"net/http"
	"time"
)

// An impatient RoundTripper gives up on a response after a time, as an
// http.Transport with a ResponseHeaderTimeout does.
type impatient struct {
	base     http.RoundTripper
	grid     grid
	patience time.Duration
}

// newImpatient returns the link's base with its attempt timeout.
func newImpatient(l link) http.RoundTripper {
	if l.attemptTimeout == 0 {
		return l.base
	}
	return &impatient{l.base, l.grid, l.attemptTimeout}
}

func (i *impatient) RoundTrip(req *http.Request) (*http.Response, error) {
	c, err := callOf(req)
	if err != nil {
		return nil, err
	}
	end := i.grid.start.Add(i.grid.deadline(c.owner, i.grid.now()+i.patience))
	ctx, cancel := context.WithDeadline(req.Context(), end)
	defer cancel()
	resp, err := i.base.RoundTrip(req.WithContext(ctx))
	if err != nil && ctx.Err() != nil && req.Context().Err() == nil {
		return nil, timeoutError{}
	}
	if err == nil {
		untilDone(req.Context(), resp)
	}
	return resp, err
}

// A timeoutError has the methods of net/http's error for a response that does not
// arrive in time.
type timeoutError struct{}

func (timeoutError) Error() string   { return "simulate: timeout awaiting response headers" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }
