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
// returns. Read must not be called before it has exited (see WaitDone). Close may
// be called at any time.
//
// The caller sees the trailers when its own Read reaches the end of the body, as
// with net/http.
type Ahead struct {
	resp *http.Response
	src  io.ReadCloser // read by the goroutine until idle is closed, by the caller after that
	idle chan struct{} // closed when the goroutine has exited

	shown *http.Response // the copy of resp that the caller sees

	mu      sync.Mutex // guards the fields below
	buf     []byte     // what was read ahead
	taken   int        // how much of buf the caller has read
	end     error      // the error of src after buf
	stopped bool       // the goroutine must not begin another Read
	closed  bool
}

// Read starts to read up to limit bytes of resp's body ahead. If enough is not nil,
// it is called with the bytes read so far, without their Content-Encoding, and ends
// the reading when it returns true; then the body must be Readable. Read returns a
// copy of resp whose Body is the Ahead. net/http may write trailers to resp during
// the reading. Nothing writes to the copy.
func Read(resp *http.Response, limit int, enough func([]byte) bool) (*http.Response, *Ahead) {
	size := 512
	if length := resp.ContentLength; 0 < length && length < int64(limit) {
		size = int(length) + 1 // one more, to see the end
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
	defer close(b.idle)
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

// WaitDone waits until the reading ahead or ctx has ended, and reports whether
// the reading has. After that the caller may read the body.
func (b *Ahead) WaitDone(ctx context.Context) bool {
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

// Read returns what was read ahead, and then the rest of the body.
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

// A Wrapper is a body that only does bookkeeping for another body.
type Wrapper interface{ Bookkeeping() io.ReadCloser }

// closeEndsRead reports whether body's Close may be called during a Read and ends
// it. That is known only for a few types. Other bodies of net/http wrap the body of
// a Base, or their Close waits for the Read and then reads the rest, as in
// http.ReadResponse. The Close of any other body may release what the Read still
// uses, such as a pooled decompressor.
func closeEndsRead(body io.ReadCloser) bool {
	if w, ok := body.(Wrapper); ok {
		return closeEndsRead(w.Bookkeeping())
	}
	t := reflect.TypeOf(body)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.PkgPath() + "." + t.Name() {
	case "io.PipeReader",
		"net/http.bodyEOFSignal", "net/http.gzipReader", // HTTP/1
		"net/http.http2transportResponseBody", "net/http.http2gzipReader",
		"net/http/internal/http2.transportResponseBody", "net/http/internal/http2.gzipReader",
		"golang.org/x/net/http2.transportResponseBody", "golang.org/x/net/http2.gzipReader",
		"github.com/quic-go/quic-go/http3.hijackableBody", "github.com/quic-go/quic-go/http3.gzipReader":
		return true
	}
	return false
}
