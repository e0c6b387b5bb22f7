package awsretry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"

	"example.com/awsretry/internal/byterange"
	"example.com/awsretry/internal/respbody"
)

// A resumingBody is the body of a response that continues when it breaks off:
// it asks for the rest with a Range of the same version of the object. One
// goroutine reads it, any may close it.
type resumingBody struct {
	config   *config
	req      *http.Request  // the caller's
	resp     *http.Response // the caller's; its trailers are filled in at the end
	etag     string
	encoding string         // the Content-Encoding
	span     byterange.Span // what the body has, of the object

	// Of the goroutine that reads.
	offset   int64 // bytes that were read
	attempts int   // that were made without progress; 1 is the one whose body broke off
	broken   error // why src ended early; nil while it has not
	err      error // what every later Read returns

	mu     sync.Mutex
	src    io.ReadCloser      // nil between two responses; guarded by mu
	cancel context.CancelFunc // of the requests for the rest, nil before the first; guarded by mu
	closed bool               // guarded by mu
}

// makeResumable makes the response's body one that continues, if it can. An
// outer loop does not prevent that: its attempt ends with the response.
func (a *attempt) makeResumable(c *call) {
	if a.Class != Success || c.maxAttempts() <= 1 || c.switchedOff() {
		return
	}
	req, resp := c.req, a.Response
	part, why := byterange.Resumable(req, resp)
	if why != "" {
		return
	}
	resp.Body = &resumingBody{
		config: c.config, req: req, resp: resp, etag: resp.Header.Get("Etag"),
		encoding: resp.Header.Get("Content-Encoding"), span: part, attempts: 1, src: resp.Body,
	}
}

// Read implements io.Reader.
func (b *resumingBody) Read(p []byte) (int, error) {
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
		src := b.source()
		if src == nil {
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

// release ends the context of the requests for the rest: nothing more is read.
func (b *resumingBody) release() {
	b.mu.Lock()
	cancel := b.cancel
	b.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// read reads from src. An end that is too early is left to the next Read, and
// returned as no error.
func (b *resumingBody) read(src io.Reader, p []byte) (int, error) {
	length, known := b.span.Length()
	if known && length-b.offset < int64(len(p)) {
		p = p[:max(length-b.offset, 0)+1] // one more shows a body that is too long
	}
	n, err := src.Read(p)
	if known && b.offset+int64(n) > length {
		n = int(length - b.offset)
		b.offset = length
		b.err = b.fail(b.attempts, StopPermanent,
			fmt.Errorf("the body is longer than the %d bytes that were announced", length))
		return n, b.err
	}
	if n > 0 {
		b.offset += int64(n)
		b.attempts = 1
	}
	complete := known && b.offset == length
	switch {
	case err == io.EOF && (complete || !known):
		b.finish()
		b.err = io.EOF
	case err == nil:
		return n, nil
	case b.isClosed():
		return n, http.ErrBodyReadAfterClose
	case complete && len(b.resp.Trailer) == 0: // what failed is not part of the body
		b.err = io.EOF
	case complete: // no range has the trailers
		b.err = b.fail(b.attempts, StopPermanent, err)
	default:
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		b.broken = &bodyError{err}
		return n, nil
	}
	if n > 0 {
		return n, nil
	}
	return 0, b.err
}

// finish copies the trailers of the response that was read last.
func (b *resumingBody) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	last, ok := b.src.(*continued)
	if !ok || len(last.resp.Trailer) == 0 {
		return
	}
	if b.resp.Trailer == nil {
		b.resp.Trailer = make(http.Header)
	}
	maps.Copy(b.resp.Trailer, last.resp.Trailer)
}

// A continued is the body of a response that has the rest of another.
type continued struct {
	io.ReadCloser
	resp *http.Response
}

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

// Close implements io.Closer. It ends a Read that waits.
func (b *resumingBody) Close() error {
	b.mu.Lock()
	src, cancel := b.src, b.cancel
	if b.closed {
		src = nil
	}
	b.closed = true
	b.mu.Unlock()
	if cancel != nil {
		defer cancel()
	}
	if src == nil {
		return nil
	}
	return src.Close()
}

// reopen replaces the body that broke off by that of a response with the rest.
func (b *resumingBody) reopen() error {
	cause := b.broken
	b.broken = nil
	ctx, ok := b.drop()
	if !ok {
		return http.ErrBodyReadAfterClose
	}
	resp, err := b.request(ctx, cause)
	switch {
	case err != nil && b.isClosed():
		return http.ErrBodyReadAfterClose
	case err != nil:
		return err
	case !b.install(resp):
		resp.Body.Close()
		return http.ErrBodyReadAfterClose
	}
	return nil
}

// install makes b read from resp. It reports false if the caller has closed b.
func (b *resumingBody) install(resp *http.Response) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.src = &continued{resp.Body, resp}
	return true
}

// drop closes the body that broke off. It returns the context of the requests
// for the rest, and false if the caller has closed b.
func (b *resumingBody) drop() (context.Context, bool) {
	ctx, cancel := context.WithCancel(b.req.Context())
	b.mu.Lock()
	src, before, closed := b.src, b.cancel, b.closed
	b.src, b.cancel = nil, cancel
	b.mu.Unlock()
	if src != nil && !closed {
		src.Close()
	}
	if before != nil {
		before()
	}
	if closed {
		cancel()
	}
	return ctx, !closed
}

// request asks for the rest, as the retry of an attempt that failed with cause.
// It returns a response that has the rest.
func (b *resumingBody) request(ctx context.Context, cause error) (*http.Response, error) {
	req := b.req.WithContext(ctx)
	req.Header = b.req.Header.Clone()
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	rest := fmt.Sprintf("bytes=%d-", b.span.First+b.offset)
	if !b.span.Open {
		rest += strconv.FormatInt(b.span.Last, 10)
	}
	req.Header.Set("Range", rest)
	req.Header.Set("If-Range", b.etag)

	var c call
	defer c.end()
	c.own(req, new(plainResult))
	c.continues = true
	if why := c.caller.ended(); why != nil {
		return nil, b.fail(b.attempts, StopCanceled, interruption(ctx, why, cause))
	}
	if err := c.share(b.config, new(plainResult)); err != nil {
		return nil, b.explain(err)
	}
	var a attempt
	defer a.end(&c)
	a.Number, a.sent, a.reported, a.Err = b.attempts, true, true, cause
	a.Request, a.Partition, a.Offset, a.out = req, c.partition.name, b.span.First+b.offset, req
	a.classify(&c)
	if !a.decide(&c) || !a.pause(&c) {
		a.reported = false
		_, err := a.finish(&c)
		return nil, b.explain(err)
	}
	a = a.successor()
	resp, err := a.run(&c)
	if err != nil {
		return nil, b.explain(interrupted(err, cause))
	}
	b.attempts = a.Number
	stop := a.Stop
	switch {
	case stop == StopCanceled:
		err = a.lastError(&c)
	case b.endsHere(resp):
		err = io.EOF
	case a.Class != Success:
		err = fmt.Errorf("the request for the rest failed: %w", a.failure().error())
	default:
		stop, err = StopPermanent, b.check(resp)
	}
	if err != nil {
		respbody.Close(resp, nil)
	}
	switch err {
	case nil:
		return resp, nil
	case io.EOF:
		return nil, err
	default:
		return nil, b.fail(a.Number, stop, failure{err: cause}.after(err))
	}
}

// endsHere reports whether the response says that there is no rest: only the
// end of a body of unknown length was lost.
func (b *resumingBody) endsHere(resp *http.Response) bool {
	if _, known := b.span.Length(); known || resp.StatusCode != http.StatusRequestedRangeNotSatisfiable {
		return false
	}
	etag := resp.Header.Get("Etag")
	total, ok := byterange.Unsatisfied(resp)
	return ok && total == b.span.First+b.offset && (etag == "" || etag == b.etag) && len(b.resp.Trailer) == 0
}

// interrupted returns the error of a call for the rest with what the body broke
// off with, if the context ended the call. The call's own error has only the
// failure of its last attempt.
func interrupted(err, cause error) error {
	failed := new(Error)
	if !errors.As(err, &failed) || failed.Stop != StopCanceled || errors.Is(err, cause) {
		return err
	}
	return &Error{Attempts: failed.Attempts, Stop: failed.Stop, Err: failure{err: cause}.after(failed.Err)}
}

// explain returns the error of a call for the rest with how many bytes were
// read before it.
func (b *resumingBody) explain(err error) error {
	failed := &Error{Stop: StopPermanent, Err: err}
	errors.As(err, &failed)
	return b.fail(max(failed.Attempts, b.attempts), failed.Stop, failed.Err)
}

// check returns why a response is not the rest of the body, and learns from it
// how long that is.
func (b *resumingBody) check(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusPartialContent:
	case http.StatusOK:
		why := "the service does not support range requests"
		if etag := resp.Header.Get("Etag"); etag != b.etag {
			why = fmt.Sprintf("the object has changed: its ETag is %q, it was %q", etag, b.etag)
		}
		return fmt.Errorf("%s; it sent the whole object again", why)
	default:
		return fmt.Errorf("the service responded to the request for the rest with %d", resp.StatusCode)
	}
	if etag := resp.Header.Get("Etag"); etag != b.etag {
		return fmt.Errorf("the object has changed: its ETag is %q, it was %q", etag, b.etag)
	}
	if encoding := resp.Header.Get("Content-Encoding"); encoding != b.encoding || resp.Uncompressed {
		return fmt.Errorf("the service sent the rest with another Content-Encoding, %q; it was %q", encoding, b.encoding)
	}
	first, last, total, ok := byterange.ContentRange(resp)
	if !ok || first != b.span.First+b.offset || !b.span.Ends(last, total) {
		return fmt.Errorf("the service sent another part than the one from byte %d on, its Content-Range is %q",
			b.span.First+b.offset, resp.Header.Get("Content-Range"))
	}
	if n := resp.ContentLength; n >= 0 && n != last-first+1 {
		return fmt.Errorf("the service sent %d bytes with the Content-Range %q", n, resp.Header.Get("Content-Range"))
	}
	b.span.Last, b.span.Total = last, max(total, b.span.Total)
	return nil
}

// fail returns the error of a body that is not continued.
func (b *resumingBody) fail(attempts int, stop Stop, err error) error {
	return &Error{Attempts: attempts, Stop: stop, Err: fmt.Errorf(
		"the response body broke off after %d bytes: %w", b.offset, err)}
}
