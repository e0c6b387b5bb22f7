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

// A resumed body requests the rest of the same version of the object when it breaks
// off. One goroutine reads it, any may close it.
type resumed struct {
	config *config
	req    *http.Request  // the caller's
	resp   *http.Response // the caller's; its trailers are filled in at the end

	// For the goroutine that reads.
	progress byterange.Progress
	broken   error          // why src ended early; nil while it has not
	err      error          // what every later Read returns
	part     *http.Response // with the rest, whose body is read; nil before the first
	attempts int            // since the last byte; the first is the one whose body broke off
	sent     int            // all attempts of the call
	cause    error          // why the response before the present one ended early; nil before the first rest
	received int            // bytes of the present response, counted up to realProgress

	mu     sync.Mutex    // guards the fields below
	src    io.ReadCloser // nil between two responses
	closed bool
	rest   context.Context // of the requests for the rest; nil before the first
	cancel context.CancelFunc

	// permit has the tokens of the last request. They are put back when its response
	// has brought realProgress, or the end of the body, and are lost if it breaks
	// off before that.
	permit admission.Permit
}

// realProgress is how many bytes a response with the rest must bring to count
// as a success: about as many as a new connection sends before it waits for an
// acknowledgment (RFC 6928).
const realProgress = 16 << 10

// makeResumable replaces the response's body by one that continues, or by one
// whose error says why it does not. An outer retry loop makes no difference:
// its attempt ends with the response.
func (c *call) makeResumable() {
	if c.now.record.Class != Success || c.attempts <= 1 || c.options.noRetry {
		return
	}
	req, resp := c.req, c.now.record.Response
	progress, why := byterange.Begin(req, resp)
	switch {
	case why == "":
		resp.Body = &resumed{config: c.config, req: req, resp: resp, progress: progress, attempts: 1, sent: c.now.record.Number, src: resp.Body}
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

// errShort is why a response with less than the rest is followed by another
// request.
var errShort = fmt.Errorf("the service sent only a part of the rest: %w", io.ErrUnexpectedEOF)

// Read implements io.Reader.
func (r *resumed) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if r.err == nil && r.broken != nil {
			r.err = r.reopen()
		}
		if r.err != nil {
			r.release()
			return 0, r.err
		}
		src, _, closed := r.state()
		if closed || src == nil { // a hook panicked in requestRest
			return 0, http.ErrBodyReadAfterClose
		}
		n, err := r.read(src, p)
		if err != nil {
			r.release()
		}
		if n > 0 || r.broken == nil {
			return n, err
		}
	}
}

// read reads from src. It leaves an end that is too early to the next Read, and
// returns no error then.
func (r *resumed) read(src io.Reader, p []byte) (n int, err error) {
	n, err = r.progress.Read(src, p)
	if n > 0 {
		r.count(n)
	}
	if wrong, ok := err.(*byterange.ContentError); ok { // never wrapped, and errors.As would allocate
		r.err = r.endWith(err, wrong.Differs)
		return n, r.err
	}
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF && r.progress.AtEnd():
		r.finish()
		r.err = io.EOF
	case r.isClosed():
		return n, http.ErrBodyReadAfterClose
	case r.progress.Complete() && len(r.resp.Trailer) == 0: // what failed is not part of the body
		r.err = io.EOF
	case r.progress.Complete(): // no range has the trailers
		r.err = r.endWith(err, false)
	default:
		r.breakOff(err)
		return n, nil
	}
	if n > 0 {
		return n, nil
	}
	return 0, r.err
}

// breakOff makes the next Read request the rest.
func (r *resumed) breakOff(err error) {
	switch {
	case err != io.EOF:
	case r.part != nil && r.progress.Exhausted():
		err = errShort
	default:
		err = io.ErrUnexpectedEOF
	}
	r.broken = &bodyError{err}
	r.settle(false)
}

// finish copies the trailers of the response that was read last.
func (r *resumed) finish() {
	if r.part == nil || len(r.part.Trailer) == 0 {
		return
	}
	if r.resp.Trailer == nil {
		r.resp.Trailer = make(http.Header)
	}
	maps.Copy(r.resp.Trailer, r.part.Trailer)
}

// release ends the requests for the rest. Nothing more is read.
func (r *resumed) release() {
	_, cancel, closed := r.state()
	r.settle(r.err == io.EOF || closed)
	if cancel != nil {
		cancel()
	}
}

func (r *resumed) state() (src io.ReadCloser, cancel context.CancelFunc, closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.src, r.cancel, r.closed
}

func (r *resumed) isClosed() bool {
	_, _, closed := r.state()
	return closed
}

// Close implements io.Closer. It ends a Read in progress.
func (r *resumed) Close() error {
	r.mu.Lock()
	src, cancel, closed := r.src, r.cancel, r.closed
	r.closed = true
	r.mu.Unlock()
	if cancel != nil {
		defer cancel()
	}
	r.settle(true)
	if src == nil || closed {
		return nil
	}
	return src.Close()
}

// reopen replaces the body that broke off by that of a response with the rest.
func (r *resumed) reopen() error {
	cause := r.broken
	r.broken = nil
	if !r.replace(nil) {
		return http.ErrBodyReadAfterClose
	}
	resp, err := r.requestRest(r.rest, cause)
	switch {
	case err != nil && r.isClosed():
		return http.ErrBodyReadAfterClose
	case err != nil:
		return err
	case !r.replace(resp.Body):
		r.settle(true)
		return http.ErrBodyReadAfterClose
	}
	r.part = resp
	return nil
}

// replace makes r read from src, and closes what it read before. If the caller
// has closed r, it closes src and returns false.
func (r *resumed) replace(src io.ReadCloser) bool {
	r.mu.Lock()
	if r.rest == nil {
		r.rest, r.cancel = context.WithCancel(r.req.Context())
	}
	toClose, closed := r.src, r.closed
	if closed {
		toClose = src
	} else {
		r.src = src
	}
	r.mu.Unlock()
	if toClose != nil {
		toClose.Close()
	}
	return !closed
}

// count counts the bytes that were read.
func (r *resumed) count(n int) {
	r.attempts = 1
	if r.received >= realProgress {
		return
	}
	if r.received += n; r.received >= realProgress {
		r.settle(true)
	}
}

// endWith returns the error of a body that cannot be continued because of err.
// differs reports that the rest is not that of the body.
func (r *resumed) endWith(err error, differs bool) error {
	if differs {
		err = r.before().after(err)
	}
	return r.fail(r.attempts, StopPermanent, err)
}

// settle ends the last request for the rest, if there was one: it puts the tokens
// back, or gives them up. ok reports whether its response was read as far as the
// caller wanted it. Close may call it during any other call.
func (r *resumed) settle(ok bool) {
	r.mu.Lock()
	permit := r.permit.Move()
	r.mu.Unlock()
	permit.Release(ok)
}

// requestRest makes a retry of the attempt whose body broke off because of cause. It
// returns a response that has the rest or begins with it, io.EOF if there is no
// rest, or the error of Read.
func (r *resumed) requestRest(ctx context.Context, cause error) (*http.Response, error) {
	brought := r.received
	r.cause, r.received = cause, 0
	earlier := r.sent - r.attempts
	req, from := r.requestAfter(ctx, earlier)

	c := call{resumes: true}
	defer c.release()
	if err := c.begin(r.config, req, nil); err != nil {
		if why := c.caller.Ended(); why != nil {
			err = &Error{Stop: c.stopFor(why), Err: c.caller.Interruption(why, cause)}
		}
		return nil, r.explain(err)
	}
	c.start(r.attempts, past{}) // the attempt whose body broke off
	c.now.free = brought >= realProgress
	c.now.record.Err, c.now.record.Offset = cause, r.progress.Position()
	c.classify()
	if !c.decide() || !c.pause() {
		_, err := c.finish()
		return nil, r.explain(err)
	}
	c.advance()
	resp, err := c.run()
	if c.sent() {
		r.mu.Lock()
		r.permit = c.now.permit.Move()
		r.mu.Unlock()
	}
	if err != nil {
		return nil, r.explain(r.interrupted(err))
	}
	r.attempts, r.sent = c.now.record.Number, earlier+c.now.record.Number
	if err := r.accept(&c, from); err != nil {
		respbody.Close(resp, c.now.own.Ender())
		return nil, err
	}
	return resp, nil
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
	return req, r.progress.Ask(req.Header)
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
// on, and io.EOF if there is no rest.
func (r *resumed) accept(c *call, from int64) error {
	stop, err := r.check(c, from)
	if err == nil || err == io.EOF {
		return err
	}
	return r.fail(r.attempts, stop, r.before().after(err))
}

// check is accept with the reason to stop.
func (r *resumed) check(c *call, from int64) (Stop, error) {
	resp := c.now.record.Response
	switch {
	case c.caller.Ended() != nil && c.now.record.Stop == c.stopOfContext():
		return c.now.record.Stop, c.lastError()
	case r.progress.EndsWith(resp) && len(r.resp.Trailer) == 0:
		return StopSuccess, io.EOF
	case c.now.record.Class != Success:
		return c.now.record.Stop, fmt.Errorf("the request for the rest failed: %w", c.failure().error())
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
