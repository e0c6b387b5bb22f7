package awsretry

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"time"

	"example.com/awsretry/internal/inplace"
)

const (
	peekWait   = time.Second // for an error body; one that is not there by then is classified by what is
	drainLimit = 64 << 10    // bytes read of an answer so that its connection can be used again
)

// findCode returns the AWS error code of an answer, "" where there is none, and leaves the body whole. It takes no longer than
// the attempt may take (0: there is no limit), nor than ctx, the caller's, lasts.
func findCode(ctx context.Context, attempt time.Duration, resp *http.Response, req *http.Request) string {
	hidden := mayHideError(resp, req)
	if resp.StatusCode < 400 && !hidden {
		return ""
	}
	if code := headerCode(resp.Header); code != "" {
		return code
	}
	if resp.Body == nil || resp.Body == http.NoBody || !mayHoldCode(resp.Header) {
		return ""
	}
	var enough func([]byte) bool
	if hidden {
		enough = new(hiddenError).impossible
	}
	body := readAhead(resp.Body, resp.ContentLength, maxErrorBody, enough)
	resp.Body = body.writable()
	wait := peekWait
	if attempt > 0 {
		wait = min(wait, attempt)
	}
	cancel := cancelOf(req)
	body.waitIdle(ctx, cancel, wait)
	if hidden && body.begun() && attempt != wait { // S3 begins a document at once, and ends it, for a large copy, after minutes
		body.waitIdle(ctx, cancel, max(attempt-wait, 0))
	}
	return bodyCode(resp.Header, body.halt())
}

// mayHideError reports whether a 200 may hold an error: Amazon S3's CopyObject, UploadPartCopy and CompleteMultipartUpload.
func mayHideError(resp *http.Response, req *http.Request) bool {
	if resp.StatusCode != http.StatusOK {
		return false
	}
	switch req.Method {
	case http.MethodPut:
		return len(req.Header["X-Amz-Copy-Source"]) > 0
	case http.MethodPost:
		return req.URL != nil && hasQuery(req.URL, "uploadId")
	}
	return false
}

// A hiddenError looks at the beginning of a body that may be one of S3's error documents, as it comes.
type hiddenError struct{ skipped int } // of the body, in front of its root element

// impossible reports whether the body is none of them: what comes behind white space, the XML declaration and comments is not
// <Error. It is called with more of the same body each time.
func (h *hiddenError) impossible(body []byte) bool {
	const root = "<Error"
	for {
		rest := body[h.skipped:]
		var end string
		switch {
		case len(rest) > 0 && strings.IndexByte(" \t\r\n", rest[0]) >= 0:
			h.skipped++
			continue
		case bytes.HasPrefix(rest, []byte("\xef\xbb\xbf")):
			h.skipped += 3
			continue
		case bytes.HasPrefix(rest, []byte("<?")):
			end = "?>"
		case bytes.HasPrefix(rest, []byte("<!--")):
			end = "-->"
		default:
			n := min(len(rest), len(root))
			return string(rest[:n]) != root[:n]
		}
		i := bytes.Index(rest, []byte(end))
		if i < 0 {
			return false
		}
		h.skipped += i + len(end)
	}
}

func hasQuery(u *url.URL, name string) bool {
	return strings.Contains(u.RawQuery, name) && u.Query().Has(name)
}

// discard ends an answer that another attempt replaces. Where its connection is to be used again, what is left of the body is
// read, within limits.
func discard(ctx context.Context, resp *http.Response, reuse bool) {
	body := resp.Body
	if ahead := aheadOf(body); ahead != nil {
		body = ahead.src
		reuse = reuse && ahead.unfinished()
	}
	if reuse && body != http.NoBody {
		rest := readAhead(body, -1, drainLimit, nil)
		rest.waitIdle(ctx, nil, peekWait)
		rest.halt()
	}
	resp.Body.Close()
}

// An aheadBody is a response body of which a part was read ahead, and that gives it back.
//
// A goroutine of its own reads ahead, because a Read that the server lets hang can be given up only so without spoiling the
// body for the caller. It ends at the limit, at the body's end, or with the Read that is under way when nobody waits for
// it any more, which Close ends.
type aheadBody struct {
	src  io.ReadCloser // read by the goroutine until idle is closed, then by the caller
	idle chan struct{} // closed when the goroutine has ended

	mu     sync.Mutex // guards the fields below
	held   []byte     // what was read ahead
	taken  int        // of held, by the caller
	end    error      // of src, behind held
	halted bool       // the goroutine is to begin no further Read
	closed bool
}

// readAhead begins to read up to limit bytes of a body of that length (negative: unknown), or until enough says so.
func readAhead(src io.ReadCloser, length int64, limit int, enough func([]byte) bool) *aheadBody {
	size := 512
	if 0 < length && length < int64(limit) {
		size = int(length) + 1 // one more, so that the end is seen
	}
	b := &aheadBody{src: src, idle: make(chan struct{})}
	if inMemory(src) {
		b.fill(make([]byte, 0, size), limit, enough)
	} else {
		go b.fill(make([]byte, 0, size), limit, enough)
		runtime.Gosched() // what is there already is read now, and nobody has to wait for it
	}
	return b
}

// inMemory reports whether a body is there already, so that no Read of it hangs: one from a cache, or from a test.
func inMemory(body io.Reader) bool {
	switch inplace.Unwrap(body).(type) {
	case *bytes.Reader, *bytes.Buffer, *strings.Reader:
		return true
	}
	return false
}

func (b *aheadBody) fill(buf []byte, limit int, enough func([]byte) bool) {
	defer close(b.idle)
	defer func() {
		if p := recover(); p != nil { // it would end the process, where a panic in Base can be recovered by the caller
			b.set(buf, fmt.Errorf("awsretry: reading the response body panicked: %v", p))
		}
	}()
	const maxEmptyReads = 100 // in a row, as bufio has it
	for empty := 0; len(buf) < limit; {
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, min(2*cap(buf), limit)), buf...)
		}
		n, err := b.src.Read(buf[len(buf):min(cap(buf), limit)])
		buf = buf[:len(buf)+n]
		if empty++; n > 0 {
			empty = 0
		}
		if b.set(buf, err) || err != nil || empty == maxEmptyReads || enough != nil && enough(buf) {
			return
		}
	}
}

func (b *aheadBody) set(held []byte, end error) (halted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held, b.end = held, end
	return b.halted
}

// waitIdle returns when the goroutine has ended, the time is over (0: there is no limit), or the caller wants no answer any more.
func (b *aheadBody) waitIdle(ctx context.Context, cancel <-chan struct{}, limit time.Duration) {
	select {
	case <-b.idle:
		return
	default:
	}
	var late <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-b.idle:
	case <-late:
	case <-ctx.Done():
	case <-cancel:
	}
}

// begun reports whether anything of the body came.
func (b *aheadBody) begun() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.held) > 0
}

// halt ends the reading ahead and returns what came of it.
func (b *aheadBody) halt() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.halted = true
	return b.held
}

// unfinished reports whether more may come, and at once: the body has not ended, and no Read of it hangs.
func (b *aheadBody) unfinished() bool {
	select {
	case <-b.idle:
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.end == nil
	default:
		return false
	}
}

func (b *aheadBody) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if n, err := b.take(p); n > 0 || err != nil {
		return n, err
	}
	<-b.idle // what the goroutine still reads comes next
	if n, err := b.take(p); n > 0 || err != nil {
		return n, err
	}
	if b.end != nil {
		return 0, b.end
	}
	return b.src.Read(p)
}

func (b *aheadBody) take(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	n := copy(p, b.held[b.taken:])
	b.taken += n
	return n, nil
}

func (b *aheadBody) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	return b.src.Close()
}

// An aheadWriter is an aheadBody that can be written to.
type aheadWriter struct {
	*aheadBody
	io.Writer
}

// CloseWrite closes the sending side, where the source can.
func (b *aheadWriter) CloseWrite() error { return closeWrite(b.Writer) }

// writable returns b, as an io.Writer too where its source is one.
func (b *aheadBody) writable() io.ReadCloser {
	if w, ok := b.src.(io.Writer); ok {
		return &aheadWriter{b, w}
	}
	return b
}

// aheadOf returns nil where nothing of body was read ahead.
func aheadOf(body io.Reader) *aheadBody {
	switch b := body.(type) {
	case *aheadBody:
		return b
	case *aheadWriter:
		return b.aheadBody
	}
	return nil
}
