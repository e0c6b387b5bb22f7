package awsretry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"example.com/awsretry/internal/admission"
	"example.com/awsretry/internal/byterange"
	"example.com/awsretry/internal/respbody"
	"example.com/awsretry/internal/resume"
)

// A resumed body requests its rest when it breaks off. It implements
// [resume.Source].
type resumed struct {
	body   resume.Body
	config *config
	req    *http.Request  // the caller's
	resp   *http.Response // the caller's

	// For the goroutine that reads.
	progress *byterange.Progress
	attempts int   // since the last byte; the first is the one whose body broke off
	cause    error // why the response before the present one ended early; nil before the first rest
	received int   // bytes of the present response, up to realProgress

	// permit has the tokens of the last request. They are put back when its response
	// has brought realProgress, or the end of the body, and are lost if it breaks
	// off before that.
	mu     sync.Mutex
	permit admission.Permit // guarded by mu
}

// realProgress is how many bytes a response with the rest must bring to count
// as a success: about as many as a new connection sends before it waits for an
// acknowledgment (RFC 6928).
const realProgress = 16 << 10

// makeResumable replaces the response's body by one that continues, or by one
// whose error says why it does not. An outer retry loop makes no difference:
// its attempt ends with the response.
func (c *call) makeResumable() {
	if c.record.Class != Success || c.attempts <= 1 || c.options.noRetry {
		return
	}
	req, resp := c.req, c.record.Response
	progress, why := byterange.Begin(req, resp)
	switch {
	case why == "":
		r := &resumed{config: c.config, req: req, resp: resp, attempts: 1}
		r.progress = r.body.Begin(req.Context(), resp, progress, r)
	case byterange.HasContent(req, resp):
		resp.Body = &finalBody{resp.Body, req, why}
	}
}

// A finalBody is a body that is not continued. Its error says why.
type finalBody struct {
	io.ReadCloser
	req *http.Request
	why string
}

func (b *finalBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && b.req.Context().Err() == nil {
		err = fmt.Errorf("%w; the body is not continued: %s", err, b.why)
	}
	return n, err
}

// Received implements [resume.Source].
func (r *resumed) Received(n int) {
	r.attempts = 1
	if r.cause == nil || r.received >= realProgress {
		return
	}
	if r.received += n; r.received >= realProgress {
		r.Settle(true)
	}
}

// Fail implements [resume.Source].
func (r *resumed) Fail(err error, differs bool) error {
	if differs {
		err = r.before().after(err)
	}
	return r.fail(r.attempts, StopPermanent, err)
}

// Settle implements [resume.Source]. It puts the tokens back, or gives them up.
func (r *resumed) Settle(ok bool) {
	r.mu.Lock()
	permit := r.permit.Move()
	r.mu.Unlock()
	permit.Release(ok)
}

// BrokenOff implements [resume.Source].
func (r *resumed) BrokenOff(err error) error { return &bodyError{err} }

// Rest implements [resume.Source]: it makes a retry of the attempt whose body broke
// off.
func (r *resumed) Rest(ctx context.Context, cause error) (*http.Response, error) {
	r.cause, r.received = cause, 0
	req := r.req.WithContext(ctx)
	if req.Header = r.req.Header.Clone(); req.Header == nil {
		req.Header = make(http.Header)
	}
	from := r.progress.Ask(req.Header)

	var c call
	defer c.finally()
	c.take(req)
	c.resumes, c.patient = true, r.progress.Offset() > 0
	if why := c.caller.Ended(); why != nil {
		return nil, r.fail(r.attempts, c.stopFor(why), interruption(ctx, why, cause))
	}
	if err := c.begin(r.config, nil); err != nil {
		return nil, r.explain(err)
	}
	c.start(r.attempts, past{}) // the attempt whose body broke off
	c.record.Err, c.record.Offset = cause, r.progress.Position()
	c.classify()
	if !c.decide() || !c.pause() {
		_, err := c.finish()
		return nil, r.explain(err)
	}
	c.advance()
	resp, err := c.run()
	if c.sent() {
		r.mu.Lock()
		r.permit = c.permit.Move()
		r.mu.Unlock()
	}
	if err != nil {
		return nil, r.explain(r.interrupted(err))
	}
	r.attempts = c.record.Number
	stop, err := r.accept(&c, from)
	if err == nil {
		return resp, nil
	}
	respbody.Close(resp, c.own.Ender())
	if err != io.EOF {
		err = r.fail(r.attempts, stop, r.before().after(err))
	}
	return nil, err
}

// accept returns an error if the response of c is not the rest from a byte on,
// with the reason to stop, and io.EOF if there is no rest.
func (r *resumed) accept(c *call, from int64) (Stop, error) {
	resp := c.record.Response
	switch {
	case c.caller.Ended() != nil && c.record.Stop == c.interrupted():
		return c.record.Stop, c.lastError()
	case r.progress.EndsWith(resp) && len(r.resp.Trailer) == 0:
		return StopSuccess, io.EOF
	case c.record.Class != Success:
		return c.record.Stop, fmt.Errorf("the request for the rest failed: %w", c.failure().error())
	}
	return StopPermanent, r.progress.Continue(resp, from)
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
	return r.fail(max(failed.Attempts, r.attempts), failed.Stop, failed.Err)
}

// fail returns the error of a body that is not continued.
func (r *resumed) fail(attempts int, stop Stop, err error) error {
	return &Error{Attempts: attempts, Stop: stop, Err: fmt.Errorf(
		"the response body broke off after %d bytes: %w", r.progress.Offset(), err)}
}
