// Package resume reads a response body, and continues it when it breaks off.
package resume

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"

	"example.com/awsretry/internal/byterange"
)

// A Source requests the rest of a body that broke off.
type Source interface {
	// Rest requests the rest, after the body broke off because of cause. It returns
	// a response that has it or begins with it, io.EOF if there is no rest, or the
	// error of Read.
	Rest(ctx context.Context, cause error) (*http.Response, error)

	// Received is called for n bytes that were read.
	Received(n int)

	// Settle ends the last request for the rest, if there was one. ok reports
	// whether its response was read as far as the caller wanted it. The caller's
	// Close may call it during any other call.
	Settle(ok bool)

	// Fail returns the error of a body that cannot be continued because of err.
	// differs reports that the rest is not that of the body.
	Fail(err error, differs bool) error

	// BrokenOff returns the error of a body that ended early because of err.
	BrokenOff(err error) error
}

// A Body requests the rest of the same version of the object when it breaks off.
// One goroutine reads it, any may close it.
type Body struct {
	source   Source
	ctx      context.Context // the caller's
	resp     *http.Response  // the caller's; its trailers are filled in at the end
	progress byterange.Progress
	broken   error          // why src ended early; nil while it has not
	err      error          // what every later Read returns
	part     *http.Response // with the rest, whose body is read; nil before the first

	mu     sync.Mutex    // guards the fields below
	src    io.ReadCloser // nil between two responses
	closed bool
	rest   context.Context // of the requests for the rest; nil before the first
	cancel context.CancelFunc
}

// Begin makes b the body of resp, and returns its progress.
func (b *Body) Begin(
	ctx context.Context, resp *http.Response, progress byterange.Progress, source Source,
) *byterange.Progress {
	b.source, b.ctx, b.resp, b.progress, b.src = source, ctx, resp, progress, resp.Body
	resp.Body = b
	return &b.progress
}

// errShort is why a response with less than the rest is followed by another
// request.
var errShort = fmt.Errorf("the service sent only a part of the rest: %w", io.ErrUnexpectedEOF)

// Read implements io.Reader.
func (b *Body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if b.err == nil && b.broken != nil {
			b.err = b.reopen()
		}
		if b.err != nil {
			b.release()
			return 0, b.err
		}
		src, _, closed := b.state()
		if closed || src == nil { // a hook panicked in Rest
			return 0, http.ErrBodyReadAfterClose
		}
		n, err := b.read(src, p)
		if err != nil {
			b.release()
		}
		if n > 0 || b.broken == nil {
			return n, err
		}
	}
}

// read reads from src. It leaves an end that is too early to the next Read, and
// returns no error then.
func (b *Body) read(src io.Reader, p []byte) (n int, err error) {
	n, err = b.progress.Read(src, p)
	if n > 0 {
		b.source.Received(n)
	}
	if wrong, ok := err.(*byterange.ContentError); ok { // never wrapped, and errors.As would allocate
		b.err = b.source.Fail(err, wrong.Differs)
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
		b.err = b.source.Fail(err, false)
	default:
		b.breakOff(err)
		return n, nil
	}
	if n > 0 {
		return n, nil
	}
	return 0, b.err
}

// breakOff makes the next Read request the rest.
func (b *Body) breakOff(err error) {
	switch {
	case err != io.EOF:
	case b.part != nil && b.progress.Exhausted():
		err = errShort
	default:
		err = io.ErrUnexpectedEOF
	}
	b.broken = b.source.BrokenOff(err)
	b.source.Settle(false)
}

// finish copies the trailers of the response that was read last.
func (b *Body) finish() {
	if b.part == nil || len(b.part.Trailer) == 0 {
		return
	}
	if b.resp.Trailer == nil {
		b.resp.Trailer = make(http.Header)
	}
	maps.Copy(b.resp.Trailer, b.part.Trailer)
}

// release ends the requests for the rest. Nothing more is read.
func (b *Body) release() {
	_, cancel, closed := b.state()
	b.source.Settle(b.err == io.EOF || closed)
	if cancel != nil {
		cancel()
	}
}

func (b *Body) state() (src io.ReadCloser, cancel context.CancelFunc, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.src, b.cancel, b.closed
}

func (b *Body) isClosed() bool {
	_, _, closed := b.state()
	return closed
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
	b.source.Settle(true)
	if src == nil || closed {
		return nil
	}
	return src.Close()
}

// reopen replaces the body that broke off by that of a response with the rest.
func (b *Body) reopen() error {
	cause := b.broken
	b.broken = nil
	if !b.replace(nil) {
		return http.ErrBodyReadAfterClose
	}
	resp, err := b.source.Rest(b.rest, cause)
	switch {
	case err != nil && b.isClosed():
		return http.ErrBodyReadAfterClose
	case err != nil:
		return err
	case !b.replace(resp.Body):
		b.source.Settle(true)
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
