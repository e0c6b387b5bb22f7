package awsretry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"example.com/awsretry/internal/respbody"
)

// A resumingBody is the body of a response that continues when it breaks off:
// it asks for the rest with a Range of the same version of the object. One
// goroutine reads it, any may close it.
type resumingBody struct {
	config *config
	req    *http.Request  // the caller's
	resp   *http.Response // the caller's; its trailers are filled in at the end
	etag   string
	span   span // what the body has, of the object

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

// A span is a part of an object. It is the whole object if both ends are.
type span struct {
	first int64
	last  int64 // -1: unknown
	total int64 // of the object; -1: unknown
	open  bool  // the caller asked for no particular last byte
}

// length returns how many bytes the span has, if that is known.
func (s span) length() (n int64, known bool) { return s.last - s.first + 1, s.last >= 0 }

// makeResumable makes the response's body one that continues, if it can.
func (a *attempt) makeResumable(c *call) {
	req, resp := c.req, a.Response
	switch {
	case a.Class != Success, !c.mayRetry(1):
		return
	case req.Method != "" && req.Method != http.MethodGet, req.Body != nil && req.Body != http.NoBody:
		return
	case resp.Uncompressed, resp.ContentLength == 0, resp.Body == http.NoBody:
		return
	}
	etag := resp.Header.Get("Etag")
	if len(etag) < 2 || etag[0] != '"' || etag[len(etag)-1] != '"' { // a weak one does not identify bytes
		return
	}
	part, ok := spanOf(req, resp)
	if !ok {
		return
	}
	resp.Body = &resumingBody{
		config: c.config, req: req, resp: resp, etag: etag, span: part, attempts: 1, src: resp.Body,
	}
}

// spanOf returns what part of the object the response has.
func spanOf(req *http.Request, resp *http.Response) (span, bool) {
	switch resp.StatusCode {
	case http.StatusOK:
		return span{last: resp.ContentLength - 1, total: resp.ContentLength, open: true}.known(), true
	case http.StatusPartialContent:
		first, last, total, ok := contentRange(resp.Header.Get("Content-Range"))
		if !ok {
			return span{}, false
		}
		asked, ok := strings.CutPrefix(req.Header.Get("Range"), "bytes=")
		from, to, single := strings.Cut(asked, "-")
		if start, err := strconv.ParseInt(from, 10, 64); !ok || !single || err != nil || start != first {
			return span{}, false // several ranges, or the last bytes of an object
		}
		if n := resp.ContentLength; n >= 0 && n != last-first+1 {
			return span{}, false
		}
		return span{first: first, last: last, total: total, open: to == ""}, !strings.Contains(to, ",")
	}
	return span{}, false
}

// known returns s with -1 for what is unknown.
func (s span) known() span {
	if s.total < 0 {
		s.last, s.total = -1, -1
	}
	return s
}

// contentRange parses a Content-Range of bytes. total is -1 if it is unknown.
func contentRange(header string) (first, last, total int64, ok bool) {
	value, ok := strings.CutPrefix(header, "bytes ")
	if !ok {
		return 0, 0, 0, false
	}
	ends, size, found := strings.Cut(value, "/")
	from, to, isRange := strings.Cut(ends, "-")
	first, err := strconv.ParseInt(from, 10, 64)
	last, err2 := strconv.ParseInt(to, 10, 64)
	if !found || !isRange || err != nil || err2 != nil || first < 0 || last < first {
		return 0, 0, 0, false
	}
	if size == "*" {
		return first, last, -1, true
	}
	total, err = strconv.ParseInt(size, 10, 64)
	return first, last, total, err == nil && last < total
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
		if n > 0 || err != nil {
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
	length, known := b.span.length()
	if known && length-b.offset < int64(len(p)) {
		p = p[:max(length-b.offset, 0)+1] // one more shows a body that is too long
	}
	n, err := src.Read(p)
	if known && b.offset+int64(n) > length {
		b.err = b.fail(1, StopPermanent, fmt.Errorf("the body is longer than the %d bytes that were announced", length))
		return int(length - b.offset), b.err
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
	case err == nil || b.isClosed():
		return n, err
	case complete && len(b.resp.Trailer) == 0: // what failed is not part of the body
		b.err = io.EOF
	default:
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		b.broken = err
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
	resp, attempts, err := b.request(ctx, cause)
	if err != nil {
		if b.isClosed() {
			return http.ErrBodyReadAfterClose
		}
		return err
	}
	b.attempts = attempts
	if err := b.check(resp); err != nil {
		respbody.Discard(resp, false, nil)
		return b.fail(attempts, StopPermanent, fmt.Errorf("%w: %w", err, cause))
	}
	if !b.install(resp) {
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
// It returns how many attempts were made without progress.
func (b *resumingBody) request(ctx context.Context, cause error) (resp *http.Response, attempts int, err error) {
	req := b.req.WithContext(ctx)
	req.Header = b.req.Header.Clone()
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	rest := fmt.Sprintf("bytes=%d-", b.span.first+b.offset)
	if !b.span.open {
		rest += strconv.FormatInt(b.span.last, 10)
	}
	req.Header.Set("Range", rest)
	req.Header.Set("If-Range", b.etag)

	var c call
	defer c.end()
	c.own(req, new(plainResult))
	if err := c.share(b.config, new(plainResult)); err != nil {
		return nil, 0, err
	}
	var a attempt
	defer a.end(&c)
	a.Number, a.sent, a.reported, a.Err = b.attempts, true, true, cause
	a.Request, a.Partition, a.Offset, a.out = req, c.partition.name, b.span.first+b.offset, req
	a.classify(&c)
	if !a.decide(&c) || !a.pause(&c) {
		return nil, a.Number, b.fail(a.Number, a.Stop, a.lastError(&c))
	}
	a = a.successor()
	resp, err = a.run(&c)
	if failed := (*Error)(nil); errors.As(err, &failed) {
		err = b.fail(failed.Attempts, failed.Stop, failed.Err)
	}
	return resp, a.Number, err
}

// check returns why a response is not the rest of the body, and learns from it
// how long that is.
func (b *resumingBody) check(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusPartialContent:
	case http.StatusOK:
		return errors.New("the object has changed, or the service does not know ranges: it sent the whole object again")
	default:
		return fmt.Errorf("the service responded to the request for the rest with %d", resp.StatusCode)
	}
	if etag := resp.Header.Get("Etag"); etag != b.etag {
		return fmt.Errorf("the object has changed: its ETag is %q, it was %q", etag, b.etag)
	}
	header := resp.Header.Get("Content-Range")
	first, last, total, ok := contentRange(header)
	want := b.span
	if !ok || resp.Uncompressed || first != want.first+b.offset ||
		want.last >= 0 && last != want.last || want.total >= 0 && total >= 0 && total != want.total {
		return fmt.Errorf("the service sent another part than the one from byte %d on, its Content-Range is %q",
			want.first+b.offset, header)
	}
	if n := resp.ContentLength; n >= 0 && n != last-first+1 {
		return fmt.Errorf("the service sent %d bytes with the Content-Range %q", n, header)
	}
	if b.span.last < 0 {
		b.span.last, b.span.total = last, total
	}
	return nil
}

// fail returns the error of a body that is not continued.
func (b *resumingBody) fail(attempts int, stop Stop, err error) error {
	return &Error{Attempts: attempts, Stop: stop, Err: fmt.Errorf(
		"the response body broke off after %d bytes: %w", b.offset, err)}
}
