// Package respbody handles response bodies: it reads the beginning of a body ahead
// and returns it later, discards a body that nobody reads, and limits how long an
// attempt may take until the end of its body.
package respbody

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"runtime"
	"sync"
	"time"

	"example.com/awsretry/internal/replay"
	"example.com/awsretry/internal/wait"
)

// An Ahead is a response body whose beginning is read ahead. Its Read returns
// that beginning first.
//
// A goroutine reads ahead, so that nobody has to wait for a Read that hangs. It
// exits at the limit, at the end of the body, or, after Stop, when its current Read
// returns. Stop must be called before the caller gets the body. The caller's Read
// then waits for the Read in progress and returns its result. Close may be called
// at any time.
//
// The caller sees the trailers when its own Read reaches the end of the body, as
// with net/http.
type Ahead struct {
	resp   *http.Response
	src    io.ReadCloser // read by the goroutine until idle is closed, by the caller after that
	idle   chan struct{} // closed when the goroutine has exited
	cancel func()        // ends the attempt's context; nil if that is the caller's

	shown *http.Response // the copy of resp that the caller sees

	mu      sync.Mutex // guards the fields below
	buf     []byte     // what was read ahead
	taken   int        // how much of buf the caller has read
	end     error      // the error of src after buf
	stopped bool       // the goroutine must not begin another Read
	exited  bool       // the goroutine will not read or close src any more
	closed  bool
	late    bool // the goroutine closes src when it exits
}

// Read starts to read up to limit bytes of resp's body ahead. If enough is not nil,
// it is called with the bytes read so far, without their Content-Encoding, and ends
// the reading when it returns true; then the body must be Readable. Read returns a
// copy of resp whose Body is the Ahead. net/http may write trailers to resp during
// the reading. Nothing writes to the copy. end ends the attempt's context; it is nil
// if that is the caller's.
func Read(resp *http.Response, limit int, enough func([]byte) bool, end func()) (*http.Response, *Ahead) {
	size := 512
	if length := resp.ContentLength; 0 < length && length < int64(limit) {
		size = int(length) + 1 // one more, to see the end
	}
	shown := *resp
	b := &Ahead{resp: resp, shown: &shown, src: resp.Body, cancel: end, idle: make(chan struct{})}
	shown.Body, shown.Trailer = b, maps.Clone(resp.Trailer)
	if w, ok := b.src.(io.Writer); ok {
		shown.Body = &writer{b, w}
	}
	if inMemory(b.src) {
		b.fill(make([]byte, 0, size), limit, enough)
	} else {
		go b.fill(make([]byte, 0, size), limit, enough)
		runtime.Gosched() // so that bytes that have arrived are read now, without a wait
	}
	return &shown, b
}

// inMemory reports whether no Read of the body can hang.
func inMemory(body io.Reader) bool {
	if bound, ok := body.(*boundBody); ok {
		body = bound.src
	}
	return replay.InMemory(body)
}

// fill reads ahead, in a goroutine unless no Read can hang.
func (b *Ahead) fill(buf []byte, limit int, enough func([]byte) bool) {
	defer b.exit()
	defer func() {
		if p := recover(); p != nil { // a panic here would end the process
			b.set(b.buf, fmt.Errorf("awsretry: reading the response body panicked: %v", p))
		}
	}()
	if enough != nil {
		if c := codingOf(b.shown.Header); c != identity {
			b.fillDecoding(c, &intake{ahead: b, buf: buf, limit: limit}, enough)
			return
		}
	}
	in := intake{ahead: b, buf: buf, limit: limit}
	for in.more() && (enough == nil || !enough(in.buf)) {
	}
}

// exit closes src if Close left that to the goroutine.
func (b *Ahead) exit() {
	defer close(b.idle)
	b.mu.Lock()
	b.exited = true
	late := b.late
	b.mu.Unlock()
	if late {
		defer func() { _ = recover() }() // a panic here would end the process
		_ = b.src.Close()
	}
}

func (b *Ahead) set(buf []byte, end error) (stopped bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf, b.end = buf, end
	return b.stopped
}

// Wait waits until the reading ahead has ended, the timeout has passed or ctx
// has ended. It reports whether the reading has ended.
func (b *Ahead) Wait(ctx context.Context, timeout time.Duration) bool {
	if !b.Ended() {
		wait.For(ctx, timeout, b.idle)
	}
	return b.Ended()
}

// WaitDone waits until the reading ahead or ctx has ended.
func (b *Ahead) WaitDone(ctx context.Context) {
	select {
	case <-b.idle:
	case <-ctx.Done():
	}
}

// Ended reports whether the reading ahead has ended.
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

// Err returns the error that the reading ahead ended with, unless that is io.EOF.
// It requires that the reading has ended.
func (b *Ahead) Err() error {
	if b.end == io.EOF {
		return nil
	}
	return b.end
}

// Stop prevents further Reads by the goroutine, and returns what was read so
// far. The caller must not modify the bytes.
func (b *Ahead) Stop() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	return b.buf[:len(b.buf):len(b.buf)]
}

// Read returns what was read ahead, and then the rest of the body. It waits for a
// Read of the goroutine in progress.
func (b *Ahead) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := b.take(p)
	if n > 0 || err != nil {
		return n, err
	}
	if !b.Ended() {
		<-b.idle
		if n, err = b.take(p); n > 0 || err != nil {
			return n, err
		}
	}
	switch {
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
	n := copy(p, b.buf[b.taken:])
	b.taken += n
	return n, nil
}

// showTrailer sets the caller's trailer, as net/http does at the end of a body.
func (b *Ahead) showTrailer() {
	if b.shown.Trailer == nil {
		b.shown.Trailer = b.resp.Trailer
	} else {
		maps.Copy(b.shown.Trailer, b.resp.Trailer)
	}
}

// Close closes the body, and ends a Read in progress. If nothing but the caller's
// context can end the Read, the body is closed after it.
func (b *Ahead) Close() error {
	reading, late := b.beginClose()
	if reading && b.cancel != nil {
		b.cancel()
	}
	if !late {
		return b.src.Close()
	}
	if b.cancel != nil {
		wait.For(context.Background(), closeWait, b.idle)
	}
	return nil
}

// beginClose marks the body closed. reading reports whether the goroutine may be
// reading, and late whether the closing is left to it.
func (b *Ahead) beginClose() (reading, late bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, reading = true, !b.exited
	b.late = b.late || reading && !(b.cancel == nil && closeEndsRead(b.src))
	return reading, b.late
}

// A writer is an Ahead that can be written to.
type writer struct {
	*Ahead
	io.Writer
}

// CloseWrite closes the sending side if the source has a CloseWrite.
func (b *writer) CloseWrite() error { return CloseWrite(b.Writer) }

// CloseWrite calls the CloseWrite of a body that can be written to, if it has
// one.
func CloseWrite(w io.Writer) error {
	if half, ok := w.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return fmt.Errorf("awsretry: CloseWrite: %w", http.ErrNotSupported)
}

// Of returns body as an Ahead, or nil if it is not one.
func Of(body io.Reader) *Ahead {
	switch b := body.(type) {
	case *Ahead:
		return b
	case *writer:
		return b.Ahead
	}
	return nil
}

// closeEndsRead reports whether body's Close may be called during a Read, and ends
// it: in an attempt without its own context, which would end the Read. The Close of
// another body may release what the Read still uses, such as a pooled decompressor,
// and a body of http.ReadResponse reads the rest in its Close.
func closeEndsRead(body io.ReadCloser) bool {
	t := reflect.TypeOf(body)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.PkgPath() + "." + t.Name() {
	case "io.PipeReader",
		"net/http.bodyEOFSignal", "net/http.gzipReader", // HTTP/1
		"net/http.http2transportResponseBody", "net/http.http2gzipReader",
		"net/http/internal/http2.transportResponseBody", "net/http/internal/http2.gzipReader",
		"golang.org/x/net/http2.transportResponseBody", "golang.org/x/net/http2.gzipReader":
		return true
	}
	return false
}
