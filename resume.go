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
	offset   int64         // bytes that were read
	tail     [overlap]byte // the last of them
	attempts int           // that were made without progress; 1 is the one whose body broke off
	err      error         // what every later Read returns
	rest     *rest         // nil until the body breaks off; set with mu held

	mu     sync.Mutex
	src    io.ReadCloser // nil between two responses; guarded by mu
	closed bool          // guarded by mu
}

// A rest is what a body that broke off has of the requests for the rest.
type rest struct {
	broken   error          // why src ended early; nil while it has not
	cause    error          // why the one before ended early
	resp     *http.Response // whose body is read; nil before the first
	skip     int64          // bytes of it that were read before
	end      int64          // how many bytes there are when it ends; below 0: unknown
	received int64          // bytes of it that were not read before

	// permit has the tokens of the request. They are put back when its response
	// has brought realProgress, or the end of the body, and are lost if it
	// breaks off before that. Guarded by mu.
	permit permit

	cancel context.CancelFunc // of the requests; guarded by mu
}

const (
	// overlap is how many bytes are requested again of a body with a
	// Content-Encoding, and compared. A service that compresses on the fly may
	// compress each range of the plain bytes by itself.
	overlap = 16

	// realProgress is how many bytes a response with the rest must bring to
	// count as a success: about as many as a new connection sends before it
	// waits for an acknowledgment (RFC 6928).
	realProgress = 16 << 10
)

// errShort is why a response with less than the rest is followed by another
// request.
var errShort = fmt.Errorf("the service sent only a part of the rest: %w", io.ErrUnexpectedEOF)

// errOtherBytes is why a response is not the rest of a body, although its
// header says so.
var errOtherBytes = errors.New("the service sent other bytes than before under the same ETag: " +
	"it has replaced the object, or compresses each response by itself")

// makeResumable makes the response's body one that continues, or one whose
// error says why it does not. An outer loop does not prevent the former: its
// attempt ends with the response.
func (a *attempt) makeResumable(c *call) {
	if a.record.Class != Success || c.maxAttempts() <= 1 || c.switchedOff() {
		return
	}
	req, resp := c.req, a.record.Response
	part, why := byterange.Resumable(req, resp)
	switch {
	case why == "":
		resp.Body = &resumingBody{
			config: c.config, req: req, resp: resp, etag: byterange.Field(resp.Header, "Etag"),
			encoding: byterange.Field(resp.Header, "Content-Encoding"), span: part, attempts: 1, src: resp.Body,
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

// release ends the context of the requests for the rest and settles their
// tokens: nothing more is read.
func (b *resumingBody) release() {
	if b.rest == nil {
		return
	}
	b.settle(b.err == io.EOF || b.isClosed())
	b.mu.Lock()
	cancel := b.rest.cancel
	b.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// settle puts the tokens of the last request back, or gives them up.
func (b *resumingBody) settle(back bool) {
	b.mu.Lock()
	permit := b.rest.permit.move()
	b.mu.Unlock()
	permit.release(back)
}

// read reads from src. An end that is too early is left to the next Read, and
// returned as no error.
func (b *resumingBody) read(src io.Reader, p []byte) (n int, err error) {
	if err = b.skip(src, p); err == nil {
		n, err = b.readNew(src, p)
	}
	length, known := b.span.Length()
	complete := known && b.offset == length
	switch {
	case b.err != nil:
		return n, b.err
	case err == nil:
		return n, nil
	case err == io.EOF && (complete || b.end() < 0 && b.skipped()):
		b.finish()
		b.err = io.EOF
	case b.isClosed():
		return n, http.ErrBodyReadAfterClose
	case complete && b.skipped() && len(b.resp.Trailer) == 0: // what failed is not part of the body
		b.err = io.EOF
	case complete && b.skipped(): // no range has the trailers
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

// skip reads the bytes that were read before. Those that are known must be the
// same.
func (b *resumingBody) skip(src io.Reader, p []byte) error {
	for !b.skipped() {
		left := b.rest.skip
		n, err := src.Read(p[:min(int64(len(p)), left)])
		for i, c := range p[:n] {
			if before := left - int64(i); before <= overlap && c != b.tail[overlap-before] {
				b.err = b.fail(b.attempts, StopPermanent, failure{err: b.rest.cause}.after(errOtherBytes))
				return b.err
			}
		}
		b.rest.skip -= int64(n)
		if err != nil && (err != io.EOF || !b.skipped()) {
			return err
		}
	}
	return nil
}

func (b *resumingBody) skipped() bool { return b.rest == nil || b.rest.skip == 0 }

// readNew reads bytes that were not read before.
func (b *resumingBody) readNew(src io.Reader, p []byte) (int, error) {
	end := b.end()
	if end >= 0 && end-b.offset < int64(len(p)) {
		p = p[:max(end-b.offset, 0)+1] // one more shows a body that is too long
	}
	n, err := src.Read(p)
	if end >= 0 && b.offset+int64(n) > end {
		n = int(end - b.offset)
		b.advance(p[:n])
		b.err = b.fail(b.attempts, StopPermanent,
			fmt.Errorf("the body is longer than the %d bytes that were announced", end))
		return n, b.err
	}
	b.advance(p[:n])
	return n, err
}

// end returns how many bytes there are when src ends, below 0 if that is not
// known.
func (b *resumingBody) end() int64 {
	if b.rest != nil {
		return b.rest.end
	}
	if length, known := b.span.Length(); known {
		return length
	}
	return -1
}

// advance counts the bytes that were read.
func (b *resumingBody) advance(read []byte) {
	n := len(read)
	if n == 0 {
		return
	}
	b.offset += int64(n)
	b.attempts = 1
	if n < overlap {
		copy(b.tail[:], b.tail[n:])
	}
	copy(b.tail[max(overlap-n, 0):], read[max(n-overlap, 0):])
	if r := b.rest; r != nil {
		before := r.received
		if r.received += int64(n); before < realProgress && r.received >= realProgress {
			b.settle(true)
		}
	}
}

// breakOff makes the next Read ask for the rest.
func (b *resumingBody) breakOff(err error) {
	switch {
	case b.rest == nil:
		b.mu.Lock()
		b.rest = new(rest)
		b.mu.Unlock()
	case err == io.EOF && b.offset == b.rest.end && b.skipped():
		err = errShort
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	b.rest.broken = &bodyError{err}
	b.settle(false)
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
	src, rest := b.src, b.rest
	if b.closed {
		src = nil
	}
	b.closed = true
	var cancel context.CancelFunc
	if rest != nil {
		cancel = rest.cancel
	}
	b.mu.Unlock()
	if rest != nil {
		b.settle(true)
	}
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
	cause := b.rest.broken
	b.rest.broken, b.rest.cause = nil, cause
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
		b.settle(true)
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
	b.src, b.rest.resp = resp.Body, resp
	return true
}

// drop closes the body that broke off. It returns the context of the requests
// for the rest, and false if the caller has closed b.
func (b *resumingBody) drop() (context.Context, bool) {
	ctx, cancel := context.WithCancel(b.req.Context())
	b.mu.Lock()
	src, before, closed := b.src, b.rest.cancel, b.closed
	b.src, b.rest.cancel = nil, cancel
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

// whole reports whether the body is that of a whole object.
func (b *resumingBody) whole() bool { return b.span.First == 0 && b.span.Open }

// ask returns the request for the rest, and its first byte, counted from the
// beginning of the body. Of a whole object of which nothing was read that is
// the first request again.
func (b *resumingBody) ask(ctx context.Context) (req *http.Request, from int64) {
	req = b.req.WithContext(ctx)
	req.Header = b.req.Header.Clone()
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	if b.offset == 0 && b.whole() && byterange.Field(req.Header, "Range") == "" {
		req.Header.Del("If-Range")
		return req, 0
	}
	from = b.offset
	if b.encoding != "" {
		from = max(from-overlap, 0)
	}
	part := fmt.Sprintf("bytes=%d-", b.span.First+from)
	if !b.span.Open {
		part += strconv.FormatInt(b.span.Last, 10)
	}
	req.Header.Set("Range", part)
	req.Header.Set("If-Range", b.etag)
	return req, from
}

// request asks for the rest, as the retry of an attempt that failed with cause.
// It returns a response that has the rest, or begins with it.
func (b *resumingBody) request(ctx context.Context, cause error) (*http.Response, error) {
	req, from := b.ask(ctx)
	var c call
	defer c.end()
	c.own(req)
	c.kind, c.patient = restCall, b.offset > 0
	if why := c.caller.ended(); why != nil {
		return nil, b.fail(b.attempts, StopCanceled, interruption(ctx, why, cause))
	}
	if err := c.begin(b.config, optionsOf(ctx)); err != nil {
		return nil, b.explain(err)
	}
	var a attempt
	defer a.end(&c)
	a.begin(&c, b.attempts) // the one whose body broke off
	a.record.Err, a.record.Offset = cause, b.span.First+b.offset
	a.classify(&c)
	if !a.decide(&c) || !a.pause(&c) {
		_, err := a.finish(&c)
		return nil, b.explain(err)
	}
	a.advance(&c)
	resp, err := a.run(&c)
	if a.sent() {
		b.mu.Lock()
		b.rest.permit = a.permit.move()
		b.mu.Unlock()
	}
	if err != nil {
		return nil, b.explain(interrupted(err, cause))
	}
	b.attempts = a.record.Number
	stop := a.record.Stop
	switch {
	case stop == StopCanceled:
		err = a.lastError(&c)
	case b.endsHere(resp):
		err = io.EOF
	case a.record.Class != Success:
		err = fmt.Errorf("the request for the rest failed: %w", a.failure().error())
	default:
		stop, err = StopPermanent, b.check(resp, from)
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
		return nil, b.fail(a.record.Number, stop, failure{err: cause}.after(err))
	}
}

// endsHere reports whether the response says that there is no rest: only the
// end of a body of unknown length was lost. Without an ETag it may be of another
// version, from a service that ignores If-Range.
func (b *resumingBody) endsHere(resp *http.Response) bool {
	if _, known := b.span.Length(); known || b.encoding != "" ||
		resp.StatusCode != http.StatusRequestedRangeNotSatisfiable {
		return false
	}
	total, ok := byterange.Unsatisfied(resp)
	return ok && total == b.span.First+b.offset && byterange.Field(resp.Header, "Etag") == b.etag &&
		len(b.resp.Trailer) == 0
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

// check returns why a response is not the rest of the body from a byte on. It
// learns from it how long the body is, and where the response begins and ends.
func (b *resumingBody) check(resp *http.Response, from int64) error {
	again := ""
	switch resp.StatusCode {
	case http.StatusPartialContent:
	case http.StatusOK:
		again = "; it sent the whole object again"
	default:
		return fmt.Errorf("the service responded to the request for the rest with %d", resp.StatusCode)
	}
	if etag := byterange.Field(resp.Header, "Etag"); etag != b.etag {
		return fmt.Errorf("the object has changed: its ETag is %q, it was %q%s", etag, b.etag, again)
	}
	if encoding := byterange.Field(resp.Header, "Content-Encoding"); encoding != b.encoding || resp.Uncompressed {
		return fmt.Errorf("the service sent the rest with another Content-Encoding, %q; it was %q", encoding, b.encoding)
	}
	if _, known := b.span.Length(); b.offset > 0 && b.encoding != "" && !known &&
		(again != "" || resp.ContentLength < 0 || b.offset <= overlap) {
		return fmt.Errorf("the service may compress each response by itself: the body has no length "+
			"and the Content-Encoding %q", b.encoding)
	}
	if again != "" {
		return b.checkWhole(resp)
	}
	return b.checkPart(resp, from)
}

// checkWhole is check of a response with the whole object.
func (b *resumingBody) checkWhole(resp *http.Response) error {
	before, after := b.resp.Header.Get("Content-Type"), resp.Header.Get("Content-Type")
	length, known := b.span.Length()
	n := resp.ContentLength
	switch {
	case !b.whole():
		return errors.New("the service does not support range requests; it sent the whole object again")
	case before != after:
		return fmt.Errorf("the service sent the object again with another Content-Type, %q; it was %q", after, before)
	case known && n >= 0 && n != length, n >= 0 && n < b.offset:
		return fmt.Errorf("the service sent the object again with another length, %d bytes", n)
	}
	if n >= 0 {
		b.span.Last, b.span.Total = n-1, n
		length = n
	} else if !known {
		length = -1
	}
	b.begin(0, length)
	return nil
}

// checkPart is check of a response with a part of the object.
func (b *resumingBody) checkPart(resp *http.Response, from int64) error {
	span, header := b.span, byterange.Field(resp.Header, "Content-Range")
	first, last, total, ok := byterange.ContentRange(resp)
	if !ok || first != span.First+from || last+1 < span.First+b.offset || !span.Contains(last, total) {
		return fmt.Errorf("the service sent another part than the one from byte %d on, its Content-Range is %q",
			span.First+from, header)
	}
	if n := resp.ContentLength; n >= 0 && n != last-first+1 {
		return fmt.Errorf("the service sent %d bytes with the Content-Range %q", n, header)
	}
	if total >= 0 {
		b.span.Total = total
	}
	if span.Last < 0 && total >= 0 {
		b.span.Last = total - 1
	}
	b.begin(from, last-span.First+1)
	return nil
}

// begin sets where the response with the rest begins and ends.
func (b *resumingBody) begin(from, end int64) {
	b.rest.skip, b.rest.end, b.rest.received = b.offset-from, end, 0
}

// fail returns the error of a body that is not continued.
func (b *resumingBody) fail(attempts int, stop Stop, err error) error {
	return &Error{Attempts: attempts, Stop: stop, Err: fmt.Errorf(
		"the response body broke off after %d bytes: %w", b.offset, err)}
}
