package awsretry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"

	"example.com/awsretry/internal/admission"
	"example.com/awsretry/internal/byterange"
	"example.com/awsretry/internal/respbody"
)

// A resumingBody is the body of a response that continues when it breaks off:
// it requests the rest of the same version of the object. One goroutine reads
// it, any may close it.
type resumingBody struct {
	config *config
	req    *http.Request  // the caller's
	resp   *http.Response // the caller's; its trailers are filled in at the end

	// For the goroutine that reads.
	progress byterange.Progress
	attempts int   // since the last byte; the first is the one whose body broke off
	err      error // what every later Read returns
	rest     *rest // nil until the body breaks off; set with mu locked

	mu     sync.Mutex    // guards the fields below
	src    io.ReadCloser // nil between two responses
	closed bool
}

// A rest is what a body that broke off has of the requests for the rest.
type rest struct {
	broken   error          // why src ended early; nil while it has not
	cause    error          // why the one before ended early
	resp     *http.Response // whose body is read; nil before the first
	received int64          // bytes of it that were not read before

	// permit has the tokens of the request. They are put back when its response
	// has brought realProgress, or the end of the body, and are lost if it
	// breaks off before that. Guarded by mu.
	permit admission.Permit

	ctx    context.Context // of the requests
	cancel context.CancelFunc
}

// realProgress is how many bytes a response with the rest must bring to count
// as a success: about as many as a new connection sends before it waits for an
// acknowledgment (RFC 6928).
const realProgress = 16 << 10

// errShort is why a response with less than the rest is followed by another
// request.
var errShort = fmt.Errorf("the service sent only a part of the rest: %w", io.ErrUnexpectedEOF)

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
		resp.Body = &resumingBody{
			config: c.config, req: req, resp: resp, progress: progress, attempts: 1, src: resp.Body,
		}
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

// Read implements io.Reader.
func (b *resumingBody) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if b.err == nil && b.isBroken() {
			b.err = b.reopen()
		}
		if b.err != nil {
			b.release()
			return 0, b.err
		}
		src := b.source()
		if src == nil {
			return 0, http.ErrBodyReadAfterClose
		}
		n, err := b.read(src, p)
		if err != nil {
			b.release()
		}
		if n > 0 || !b.isBroken() {
			return n, err
		}
	}
}

func (b *resumingBody) isBroken() bool { return b.rest != nil && b.rest.broken != nil }

// read reads from src. It leaves an end that is too early to the next Read, and
// returns no error then.
func (b *resumingBody) read(src io.Reader, p []byte) (n int, err error) {
	n, err = b.progress.Read(src, p)
	if n > 0 {
		b.advance(n)
	}
	if wrong, ok := err.(*byterange.ContentError); ok { // never wrapped, and errors.As would allocate
		if wrong.Differs {
			err = b.before().after(err)
		}
		b.err = b.fail(b.attempts, StopPermanent, err)
		return n, b.err
	}
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF && b.progress.AtEnd():
		b.finish()
		b.err = io.EOF
	case b.isClosed():
		return n, http.ErrBodyReadAfterClose
	case b.progress.Complete() && len(b.resp.Trailer) == 0: // what failed is not part of the body
		b.err = io.EOF
	case b.progress.Complete(): // no range has the trailers
		b.err = b.fail(b.attempts, StopPermanent, err)
	default:
		b.breakOff(err)
		return n, nil
	}
	if n > 0 {
		return n, nil
	}
	return 0, b.err
}

// advance counts n bytes that were read.
func (b *resumingBody) advance(n int) {
	b.attempts = 1
	if b.rest == nil {
		return
	}
	before := b.rest.received
	b.rest.received += int64(n)
	if before < realProgress && b.rest.received >= realProgress {
		b.settle(true)
	}
}

// breakOff makes the next Read request the rest.
func (b *resumingBody) breakOff(err error) {
	if b.rest == nil {
		b.beginRest()
	} else if err == io.EOF && b.progress.Exhausted() {
		err = errShort
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	b.rest.broken = &bodyError{err}
	b.settle(false)
}

// beginRest sets rest.
func (b *resumingBody) beginRest() {
	ctx, cancel := context.WithCancel(b.req.Context())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest = &rest{ctx: ctx, cancel: cancel}
	if b.closed {
		cancel()
	}
}

// finish copies the trailers of the response that was read last.
func (b *resumingBody) finish() {
	if b.rest == nil || len(b.rest.resp.Trailer) == 0 {
		return
	}
	if b.resp.Trailer == nil {
		b.resp.Trailer = make(http.Header)
	}
	maps.Copy(b.resp.Trailer, b.rest.resp.Trailer)
}

// settle puts the tokens of the last request back, or gives them up.
func (b *resumingBody) settle(putBack bool) {
	b.mu.Lock()
	permit := b.rest.permit.Move()
	b.mu.Unlock()
	permit.Release(putBack)
}

// release ends the context of the requests for the rest and settles their
// tokens. Nothing more is read.
func (b *resumingBody) release() {
	if b.rest == nil {
		return
	}
	b.settle(b.err == io.EOF || b.isClosed())
	b.rest.cancel()
}

// source returns what is read now, nil after Close.
func (b *resumingBody) source() io.Reader {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	return b.src
}

func (b *resumingBody) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// Close implements io.Closer. It ends a Read in progress.
func (b *resumingBody) Close() error {
	b.mu.Lock()
	src, rest, closed := b.src, b.rest, b.closed
	b.closed = true
	b.mu.Unlock()
	if rest != nil {
		defer rest.cancel()
		b.settle(true)
	}
	if src == nil || closed {
		return nil
	}
	return src.Close()
}

// reopen replaces the body that broke off by that of a response with the rest.
func (b *resumingBody) reopen() error {
	b.rest.cause, b.rest.broken = b.rest.broken, nil
	if !b.replace(nil) {
		return http.ErrBodyReadAfterClose
	}
	resp, err := b.request()
	switch {
	case err != nil && b.isClosed():
		return http.ErrBodyReadAfterClose
	case err != nil:
		return err
	case !b.replace(resp.Body):
		b.settle(true)
		return http.ErrBodyReadAfterClose
	}
	b.rest.resp, b.rest.received = resp, 0
	return nil
}

// replace makes b read from src, and closes what it read before. If the caller
// has closed b, it closes src and returns false.
func (b *resumingBody) replace(src io.ReadCloser) bool {
	b.mu.Lock()
	toClose, closed := b.src, b.closed
	if closed {
		toClose = src
	} else {
		b.src = src
	}
	b.mu.Unlock()
	if toClose != nil {
		toClose.Close()
	}
	return !closed
}

// request requests the rest, as a retry of the attempt whose body broke off. It
// returns a response that has the rest or begins with it, and io.EOF if there
// is no rest.
func (b *resumingBody) request() (*http.Response, error) {
	ctx, cause := b.rest.ctx, b.rest.cause
	req := b.req.WithContext(ctx)
	if req.Header = b.req.Header.Clone(); req.Header == nil {
		req.Header = make(http.Header)
	}
	from := b.progress.Ask(req.Header)

	var c call
	defer c.finally()
	c.take(req)
	c.resumes, c.patient = true, b.progress.Offset() > 0
	if why := c.caller.Ended(); why != nil {
		return nil, b.fail(b.attempts, c.stopFor(why), interruption(ctx, why, cause))
	}
	if err := c.begin(b.config, nil); err != nil {
		return nil, b.explain(err)
	}
	c.start(b.attempts, past{}) // the attempt whose body broke off
	c.record.Err, c.record.Offset = cause, b.progress.Position()
	c.classify()
	if !c.decide() || !c.pause() {
		_, err := c.finish()
		return nil, b.explain(err)
	}
	c.advance()
	resp, err := c.run()
	if c.sent() {
		b.mu.Lock()
		b.rest.permit = c.permit.Move()
		b.mu.Unlock()
	}
	if err != nil {
		return nil, b.explain(b.interrupted(err))
	}
	b.attempts = c.record.Number
	stop, err := b.accept(&c, from)
	if err == nil {
		return resp, nil
	}
	respbody.Close(resp, nil)
	if err != io.EOF {
		err = b.fail(b.attempts, stop, b.before().after(err))
	}
	return nil, err
}

// accept returns an error if the response of c is not the rest from a byte on,
// with the reason to stop, and io.EOF if there is no rest.
func (b *resumingBody) accept(c *call, from int64) (Stop, error) {
	resp := c.record.Response
	switch {
	case c.caller.Ended() != nil && c.record.Stop == c.interrupted():
		return c.record.Stop, c.lastError()
	case b.progress.EndsWith(resp) && len(b.resp.Trailer) == 0:
		return StopSuccess, io.EOF
	case c.record.Class != Success:
		return c.record.Stop, fmt.Errorf("the request for the rest failed: %w", c.failure().error())
	}
	return StopPermanent, b.progress.Continue(resp, from)
}

// before returns why the response before the current one broke off.
func (b *resumingBody) before() failure {
	if b.rest == nil {
		return failure{}
	}
	return failure{err: b.rest.cause}
}

// interrupted returns err with what the body broke off with, if err is that of
// a call for the rest that the end of the context ended. The call's own error
// has only the failure of its last attempt.
func (b *resumingBody) interrupted(err error) error {
	failed := new(Error)
	if !errors.As(err, &failed) || !failed.interrupted() || errors.Is(err, b.rest.cause) {
		return err
	}
	return &Error{Attempts: failed.Attempts, Stop: failed.Stop, Err: b.before().after(failed.Err)}
}

// explain returns the error of a call for the rest, with how many bytes were
// read before it.
func (b *resumingBody) explain(err error) error {
	failed := &Error{Stop: StopPermanent, Err: err}
	errors.As(err, &failed)
	return b.fail(max(failed.Attempts, b.attempts), failed.Stop, failed.Err)
}

// fail returns the error of a body that is not continued.
func (b *resumingBody) fail(attempts int, stop Stop, err error) error {
	return &Error{Attempts: attempts, Stop: stop, Err: fmt.Errorf(
		"the response body broke off after %d bytes: %w", b.progress.Offset(), err)}
}
