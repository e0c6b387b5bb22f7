// Package respbody reads a part of a response body ahead and gives it back, and
// ends the body of a response that nobody reads.
package respbody

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"time"

	"example.com/awsretry/internal/inplace"
)

// An Ahead is a response body of which a part was read ahead, and that gives it
// back.
//
// A goroutine of its own reads ahead, because only so a Read that the server
// lets hang can be given up. It ends at the limit, at the end of the body, or
// after Stop with the Read that is under way. Read must not be called before it
// has ended (see Settle); Close may be.
//
// The trailers that come with the end of the body are kept from the caller until
// its own Read meets that end, as net/http does it.
type Ahead struct {
	resp *http.Response
	src  io.ReadCloser // read by the goroutine until idle is closed, then by the caller
	idle chan struct{} // closed when the goroutine has ended

	shown *http.Response // what the caller has in place of resp

	mu      sync.Mutex // guards the fields below
	held    []byte     // what was read ahead
	taken   int        // of held, by the caller
	end     error      // of src, behind held
	stopped bool       // the goroutine is to begin no further Read
	closed  bool
}

// Read begins to read up to limit bytes of the body of resp ahead, or until
// enough, which is called with all that came, says so. It returns a copy of resp
// with the Ahead for its Body: nothing writes to the copy while the body is read
// ahead, as net/http writes the trailer to resp.
func Read(resp *http.Response, limit int, enough func([]byte) bool) (*http.Response, *Ahead) {
	size := 512
	if length := resp.ContentLength; 0 < length && length < int64(limit) {
		size = int(length) + 1 // one more, so that the end is seen
	}
	shown := *resp
	b := &Ahead{resp: resp, shown: &shown, src: resp.Body, idle: make(chan struct{})}
	shown.Body, shown.Trailer = b, maps.Clone(resp.Trailer)
	if w, ok := b.src.(io.Writer); ok {
		shown.Body = &writer{b, w}
	}
	if inMemory(b.src) {
		b.fill(make([]byte, 0, size), limit, enough)
	} else {
		go b.fill(make([]byte, 0, size), limit, enough)
		runtime.Gosched() // what is there already is read now, and nobody has to wait for it
	}
	return &shown, b
}

// inMemory reports whether no Read of a body can hang: one from a cache, or from
// a test.
func inMemory(body io.Reader) bool {
	switch inplace.Unwrap(body).(type) {
	case *bytes.Reader, *bytes.Buffer, *strings.Reader:
		return true
	}
	return false
}

func (b *Ahead) fill(buf []byte, limit int, enough func([]byte) bool) {
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

func (b *Ahead) set(held []byte, end error) (stopped bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held, b.end = held, end
	return b.stopped
}

// Wait waits until the reading has ended, and reports whether it has; at most
// for the timeout, and no longer than ctx lasts.
func (b *Ahead) Wait(ctx context.Context, timeout time.Duration) bool {
	if b.Ended() {
		return true
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-b.idle:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return b.Ended()
}

// Settle waits until the reading has ended, and reports whether it has before
// ctx ended. From then on the body is the caller's.
func (b *Ahead) Settle(ctx context.Context) bool {
	if !b.Ended() {
		select {
		case <-b.idle:
		case <-ctx.Done():
		}
		if !b.Ended() {
			return false
		}
	}
	return true
}

// Ended reports whether the reading has ended.
func (b *Ahead) Ended() bool {
	select {
	case <-b.idle:
		return true
	default:
		return false
	}
}

// AtEnd reports whether all of the body was read. It requires that the reading
// has ended.
func (b *Ahead) AtEnd() bool { return b.end != nil }

// Broken reports whether the body, as far as it was read, ended with an error.
// It requires that the reading has ended.
func (b *Ahead) Broken() bool { return b.end != nil && b.end != io.EOF }

// Stop begins no further Read, and returns what was read so far. The bytes must
// not be changed.
func (b *Ahead) Stop() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	return b.held[:len(b.held):len(b.held)]
}

// Read gives back what was read ahead, then reads on.
func (b *Ahead) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := b.take(p)
	switch {
	case n > 0 || err != nil:
		return n, err
	case b.end == io.EOF:
		b.showTrailer()
		return 0, io.EOF
	case b.end != nil:
		return 0, b.end
	}
	if n, err = b.src.Read(p); err == io.EOF {
		b.showTrailer()
	}
	return n, err
}

func (b *Ahead) take(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	n := copy(p, b.held[b.taken:])
	b.taken += n
	return n, nil
}

// showTrailer does what net/http does at the end of a body.
func (b *Ahead) showTrailer() {
	if b.shown.Trailer == nil {
		b.shown.Trailer = b.resp.Trailer
	} else {
		maps.Copy(b.shown.Trailer, b.resp.Trailer)
	}
}

// Close closes the body.
func (b *Ahead) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	return b.src.Close()
}

// A writer is an Ahead that can be written to.
type writer struct {
	*Ahead
	io.Writer
}

// CloseWrite closes the sending side, where the source can.
func (b *writer) CloseWrite() error { return CloseWrite(b.Writer) }

// CloseWrite closes the sending side of a body that is written to, where it can.
func CloseWrite(w io.Writer) error {
	if half, ok := w.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return fmt.Errorf("awsretry: CloseWrite: %w", http.ErrNotSupported)
}

// Of returns the Ahead in place of a response body, nil where there is none.
func Of(body io.Reader) *Ahead {
	switch b := body.(type) {
	case *Ahead:
		return b
	case *writer:
		return b.Ahead
	}
	return nil
}

// A Wrapper is a body that adds nothing but bookkeeping to another one.
type Wrapper interface{ Bookkeeping() io.ReadCloser }

// closesAnyTime reports whether body may be closed while it is being read.
// net/http's own may be, and their Close ends the Read. Of other bodies it is
// not known: one that takes its decompressor from a pool may put it back while
// it is in use.
func closesAnyTime(body io.ReadCloser) bool {
	if w, ok := body.(Wrapper); ok {
		return closesAnyTime(w.Bookkeeping())
	}
	if _, ok := body.(*io.PipeReader); ok {
		return true
	}
	t := reflect.TypeOf(body)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.PkgPath() {
	case "net/http", "net/http/internal/http2", "golang.org/x/net/http2":
		return t.Name() != "maxBytesReader" && t.Name() != "cancelTimerBody" // which wrap any other
	}
	return false
}
