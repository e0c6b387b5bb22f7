package awsretry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"example.com/awsretry/internal/byterange"
	"example.com/awsretry/internal/respbody"
)

// A resumed is a response body that is continued when it breaks off.
type resumed struct {
	byterange.Body
	config *config
	req    *http.Request // the caller's
	sent   int           // all attempts of the call
	cause  error         // why the response before the present one ended early; nil before the first rest
}

// makeResumable replaces the response's body by one that continues, or by one
// whose error says why it does not. An outer retry loop makes no difference:
// its attempt ends with the response.
func (c *call) makeResumable() {
	if c.now.record.Class != Success || c.attempts <= 1 || c.options.noRetry {
		return
	}
	resp := c.now.record.Response
	progress, why := byterange.Begin(c.req, resp)
	if why != "" {
		byterange.Explain(c.req, resp, why)
		return
	}
	r := &resumed{config: c.config, req: c.req, sent: c.now.record.Number}
	r.Begin(c.req, resp, progress)
	resp.Body = r
}

// Read implements io.Reader.
func (r *resumed) Read(p []byte) (int, error) { return r.Body.Read(p, r.requestRest, r.endWith) }

// endWith returns the error of a body that cannot be continued because of err.
// differs reports that the rest is not that of the body.
func (r *resumed) endWith(err error, differs bool) error {
	if differs {
		err = r.before().after(err)
	}
	return r.fail(r.Attempts, StopPermanent, err)
}

// requestRest makes a retry of the attempt whose body broke off because of cause; see
// byterange.Rest.
func (r *resumed) requestRest(
	ctx context.Context, cause error, much bool,
) (resp *http.Response, settle func(ok bool), err error) {
	r.cause = &bodyError{cause}
	earlier := r.sent - r.Attempts
	req, from := r.requestAfter(ctx, earlier)

	c := call{resumes: true}
	defer c.release()
	if err := c.begin(r.config, req, nil); err != nil {
		if why := c.caller.Ended(); why != nil {
			err = &Error{Stop: c.stopFor(why), Err: c.caller.Interruption(why, r.cause)}
		}
		return nil, nil, r.explain(err)
	}
	c.start(r.Attempts, past{}) // the attempt whose body broke off
	c.now.free = much
	c.now.record.Err, c.now.record.Offset = r.cause, r.Progress.Position()
	c.classify()
	if !c.decide() || !c.pause() {
		_, err := c.finish()
		return nil, nil, r.explain(err)
	}
	c.advance()
	if resp, err = c.run(); err != nil {
		err = r.explain(r.interrupted(err))
	} else {
		r.Attempts, r.sent = c.now.record.Number, earlier+c.now.record.Number
		err = r.accept(&c, from)
	}
	if c.sent() {
		permit := c.now.permit.Move()
		settle = permit.Release
	}
	return resp, settle, err
}

type restKey struct{}

// A rest is what the log needs to know of a request for the rest of a body.
type rest struct {
	req     *http.Request
	first   *http.Request // whose body it continues
	earlier int           // attempts of the call before those that Attempt.Number counts
}

// requestAfter returns a copy of the caller's request that firstOf knows, and the byte
// from which on it requests the rest.
func (r *resumed) requestAfter(ctx context.Context, earlier int) (req *http.Request, from int64) {
	known := &rest{first: r.req, earlier: earlier}
	req = r.req.WithContext(context.WithValue(ctx, restKey{}, known))
	if req.Header = r.req.Header.Clone(); req.Header == nil {
		req.Header = make(http.Header)
	}
	known.req = req
	return req, r.Progress.Ask(req.Header)
}

// firstOf returns the first request of the call of req, which may be a request for
// the rest of its body, and how many attempts Attempt.Number does not count.
func firstOf(req *http.Request) (first *http.Request, earlier int) {
	if req == nil {
		return nil, 0
	}
	if known, ok := req.Context().Value(restKey{}).(*rest); ok && known.req == req { // and not a call in its context
		return known.first, known.earlier
	}
	return req, 0
}

// accept returns the error of Read if the response of c is not the rest from a byte
// on, and io.EOF if there is no rest. Then it closes the response.
func (r *resumed) accept(c *call, from int64) error {
	stop, err := r.check(c, from)
	if err == nil {
		return nil
	}
	respbody.Close(c.now.record.Response, c.now.own.Ender())
	if err == io.EOF {
		return err
	}
	return r.fail(r.Attempts, stop, r.before().after(err))
}

// check is accept with the reason to stop.
func (r *resumed) check(c *call, from int64) (Stop, error) {
	resp := c.now.record.Response
	switch {
	case c.caller.Ended() != nil && c.now.record.Stop == c.stopOfContext():
		return c.now.record.Stop, c.lastError()
	case r.Progress.EndsWith(resp) && len(r.Response.Trailer) == 0:
		return StopSuccess, io.EOF
	case c.now.record.Class != Success:
		return c.now.record.Stop, fmt.Errorf("the request for the rest failed: %w", c.failure().error())
	}
	return StopPermanent, r.Progress.Continue(resp, from)
}

// before returns why the response before the current one broke off.
func (r *resumed) before() failure { return failure{err: r.cause} }

// interrupted returns err with what the body broke off with, if err is that of
// a call for the rest that the end of the context ended. The call's own error
// has only the failure of its last attempt.
func (r *resumed) interrupted(err error) error {
	failed := new(Error)
	if !errors.As(err, &failed) || !failed.interrupted() || errors.Is(err, r.cause) {
		return err
	}
	return &Error{Attempts: failed.Attempts, Stop: failed.Stop, Err: r.before().after(failed.Err)}
}

// explain returns the error of a call for the rest, with how many bytes were
// read before it.
func (r *resumed) explain(err error) error {
	failed := &Error{Stop: StopPermanent, Err: err}
	errors.As(err, &failed)
	return r.fail(max(failed.Attempts, r.Attempts), failed.Stop, failed.Err)
}

// fail returns the error of a body that is not continued.
func (r *resumed) fail(attempts int, stop Stop, err error) error {
	return &Error{Attempts: attempts, Stop: stop, Err: fmt.Errorf(
		"the response body broke off after %d bytes: %w", r.Progress.Offset(), err)}
}
