package byterange

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
)

// realProgress is how many bytes a response with the rest must bring to count
// as a success: about as many as a new connection sends before it waits for an
// acknowledgment (RFC 6928).
const realProgress = 16 << 10

// A Body requests the rest of the same version of the object when it breaks off.
// One goroutine reads it, any may close it.
type Body struct {
	Response *http.Response // the caller's; its trailers are filled in at the end
	Progress Progress

	// Attempts is how many requests were sent since the last byte; the first is the one
	// whose body broke off.
	Attempts int

	ctx context.Context // of the caller's request

	// For the goroutine that reads.
	broken   error          // why src ended early; nil while it has not
	err      error          // what every later Read returns
	part     *http.Response // with the rest, whose body is read; nil before the first
	received int            // bytes of the present response, counted up to realProgress

	mu     sync.Mutex    // guards the fields below
	src    io.ReadCloser // nil between two responses
	closed bool
	rest   context.Context // of the requests for the rest; nil before the first
	cancel context.CancelFunc
	settle func(ok bool) // of the last request for the rest; nil once it was called
}

// Begin makes b the body of resp, the response to req, of which p was read.
func (b *Body) Begin(req *http.Request, resp *http.Response, p Progress) {
	b.ctx, b.Response, b.Progress, b.Attempts, b.src = req.Context(), resp, p, 1, resp.Body
}

// Explain makes the error of a body that breaks off say why it is not continued, if it
// has a part of an object.
func Explain(req *http.Request, resp *http.Response, why string) {
	if hasContent(req, resp) {
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

// A Rest requests the rest of a body that broke off because of cause. much reports that
// the response that broke off has brought realProgress. It returns a response that
// Progress has accepted, io.EOF if there is no rest, or the error of Read. If settle is
// not nil, it is called once: with true if the response has brought realProgress, the
// end of the body, or as much as the caller wanted.
type Rest func(ctx context.Context, cause error, much bool) (resp *http.Response, settle func(ok bool), err error)

// A Fail returns the error of Read for a body that cannot be continued because of err.
// differs reports that bytes that were read again are not the same.
type Fail func(err error, differs bool) error

// Read is that of io.Reader, with what it calls when the body breaks off.
func (b *Body) Read(p []byte, rest Rest, fail Fail) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if b.err == nil && b.broken != nil {
			b.err = b.reopen(rest)
		}
		if b.err != nil {
			b.end()
			return 0, b.err
		}
		src, closed := b.source()
		if closed || src == nil { // Rest panicked
			return 0, http.ErrBodyReadAfterClose
		}
		n, err := b.read(src, p, fail)
		if err != nil {
			b.end()
		}
		if n > 0 || b.broken == nil {
			return n, err
		}
	}
}

// source returns what is read, and whether the body was closed.
func (b *Body) source() (src io.ReadCloser, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.src, b.closed
}

func (b *Body) isClosed() bool {
	_, closed := b.source()
	return closed
}

// read reads from src. It leaves an end that is too early to the next Read, and
// returns no error then.
func (b *Body) read(src io.Reader, p []byte, fail Fail) (n int, err error) {
	n, err = b.Progress.Read(src, p)
	if n > 0 {
		b.count(n)
	}
	if wrong, ok := err.(*ContentError); ok { // never wrapped, and errors.As would allocate
		b.err = fail(err, wrong.differs)
		return n, b.err
	}
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF && b.Progress.AtEnd():
		b.copyTrailers()
		b.err = io.EOF
	case b.isClosed():
		return n, http.ErrBodyReadAfterClose
	case b.Progress.Complete() && len(b.Response.Trailer) == 0: // what failed is not part of the body
		b.err = io.EOF
	case b.Progress.Complete(): // no range has the trailers
		b.err = fail(err, false)
	default:
		b.breakOff(err)
		return n, nil
	}
	if n > 0 {
		return n, nil
	}
	return 0, b.err
}

// count counts the bytes that were read.
func (b *Body) count(n int) {
	b.Attempts = 1
	if b.received >= realProgress {
		return
	}
	if b.received += n; b.received >= realProgress {
		b.settleRest(true)
	}
}

// breakOff makes the next Read request the rest.
func (b *Body) breakOff(err error) {
	switch {
	case err != io.EOF:
	case b.part != nil && b.Progress.Exhausted():
		err = errShort
	default:
		err = io.ErrUnexpectedEOF
	}
	b.broken = err
	b.settleRest(false)
}

// errShort is why a response with less than the rest is followed by another
// request.
var errShort = fmt.Errorf("the service sent only a part of the rest: %w", io.ErrUnexpectedEOF)

// reopen replaces the body that broke off by that of a response with the rest.
func (b *Body) reopen(rest Rest) error {
	cause, much := b.broken, b.received >= realProgress
	b.broken = nil
	if !b.replace(nil) {
		return http.ErrBodyReadAfterClose
	}
	b.received = 0
	resp, settle, err := rest(b.rest, cause, much)
	b.mu.Lock()
	b.settle = settle
	b.mu.Unlock()
	switch {
	case err != nil && b.isClosed():
		return http.ErrBodyReadAfterClose
	case err != nil:
		return err
	case !b.replace(resp.Body):
		b.settleRest(true)
		return http.ErrBodyReadAfterClose
	}
	b.part = resp
	return nil
}

// replace makes b read from src, and closes what it read before. If the caller
// has closed b, it closes src and returns false.
func (b *Body) replace(src io.ReadCloser) bool {
	b.mu.Lock()
	if b.rest == nil {
		b.rest, b.cancel = context.WithCancel(b.ctx)
	}
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

// copyTrailers copies the trailers of the response that was read last.
func (b *Body) copyTrailers() {
	if b.part == nil || len(b.part.Trailer) == 0 {
		return
	}
	if b.Response.Trailer == nil {
		b.Response.Trailer = make(http.Header)
	}
	maps.Copy(b.Response.Trailer, b.part.Trailer)
}

// end ends the requests for the rest. Nothing more is read.
func (b *Body) end() {
	b.settleRest(b.err == io.EOF || b.isClosed())
	b.mu.Lock()
	cancel := b.cancel
	b.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// settleRest settles the last request for the rest, if there was one. Close may call
// it during any other call.
func (b *Body) settleRest(ok bool) {
	b.mu.Lock()
	settle := b.settle
	b.settle = nil
	b.mu.Unlock()
	if settle != nil {
		settle(ok)
	}
}

// Close implements io.Closer. It ends a Read in progress.
func (b *Body) Close() error {
	b.mu.Lock()
	src, cancel, closed := b.src, b.cancel, b.closed
	b.closed = true
	b.mu.Unlock()
	if cancel != nil {
		defer cancel()
	}
	b.settleRest(true)
	if src == nil || closed {
		return nil
	}
	return src.Close()
}
