package replay

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
)

// InMemory reports whether body is a bytes.Buffer, bytes.Reader or
// strings.Reader, or an io.NopCloser of one, as http.NewRequest makes it. No
// Read of it hangs.
func InMemory(body io.Reader) bool {
	switch unwrap(body).(type) {
	case *bytes.Buffer, *bytes.Reader, *strings.Reader:
		return true
	}
	return false
}

// closesPromptly reports whether no Read of body hangs, or Close ends a Read
// that does.
func closesPromptly(body io.Reader) bool {
	switch body.(type) {
	case *os.File, *io.PipeReader:
		return true
	}
	return InMemory(body)
}

// needsDetaching reports whether a Read of body may hang even after Close.
func needsDetaching(body io.ReadCloser) bool {
	return body != nil && body != http.NoBody && !closesPromptly(body)
}

// detach returns a reader of body whose Read ends with its Close and with ctx.
// net/http waits for that Read.
func detach(ctx context.Context, body io.ReadCloser) *detached {
	return &detached{ctx: ctx, src: body, done: make(chan struct{})}
}

// A detached reads src in a goroutine that exists only during a Read.
type detached struct {
	ctx  context.Context
	src  io.ReadCloser
	once sync.Once
	done chan struct{} // closed by Close

	over      atomic.Bool             // the call has ended
	newest    atomic.Pointer[reading] // the Read in progress, or the last one
	abandoned bool                    // ctx ended a Read, whose goroutine may still run; used by Read only

	// The fields below belong to the goroutine until it ends, and then to the
	// Read that waited for it.
	buf   []byte
	n     int
	err   error
	panic any
}

func (d *detached) Read(p []byte) (int, error) {
	select {
	case <-d.done:
		return 0, http.ErrBodyReadAfterClose
	default:
	}
	if d.abandoned {
		return 0, context.Cause(d.ctx)
	}
	if len(p) == 0 {
		return 0, nil
	}
	n := min(len(p), maxRead)
	if len(d.buf) < n {
		d.buf = make([]byte, n)
	}
	r := newReading()
	d.newest.Store(r)
	select {
	case <-d.done: // Close may not have seen r
		close(r.begun)
		return 0, http.ErrBodyReadAfterClose
	default:
	}
	go func() {
		close(r.begun)
		d.n, d.panic, d.err = readOnce(d.src, d.buf[:n])
		close(r.ended)
	}()
	select {
	case <-r.ended:
	case <-d.done:
		return 0, http.ErrBodyReadAfterClose
	case <-d.ctx.Done():
		if !d.over.Load() {
			d.abandoned = true
			return 0, context.Cause(d.ctx)
		}
		// After the call it is up to Base to end the sending of a canceled
		// request.
		select {
		case <-r.ended:
		case <-d.done:
			return 0, http.ErrBodyReadAfterClose
		}
	}
	if d.panic != nil {
		panic(d.panic)
	}
	return copy(p, d.buf[:d.n]), d.err
}

// Close closes src once. During a Read it does not wait long for that.
func (d *detached) Close() (err error) {
	d.once.Do(func() {
		close(d.done)
		err = closeDuring(d.src, d.newest.Load())
	})
	return err
}
