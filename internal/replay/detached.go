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

	"example.com/awsretry/internal/inplace"
)

// InMemory reports whether body is one that http.NewRequest makes of a
// bytes.Buffer, bytes.Reader or strings.Reader. No Read of it hangs.
func InMemory(body io.Reader) bool {
	switch inplace.Unwrap(body).(type) {
	case *bytes.Buffer, *bytes.Reader, *strings.Reader:
		return true
	}
	return false
}

// closesPromptly reports whether no Read of body hangs, or Close ends it.
func closesPromptly(body io.Reader) bool {
	switch body.(type) {
	case *os.File, *io.PipeReader:
		return true
	}
	return InMemory(body)
}

// needsDetaching reports whether a Read of body may hang, and go on when it is
// closed.
func needsDetaching(body io.ReadCloser) bool {
	return body != nil && body != http.NoBody && !closesPromptly(body)
}

// detach returns a reader of body whose Close, as the end of ctx, ends a Read
// that is under way, which net/http waits for.
func detach(ctx context.Context, body io.ReadCloser) *detached {
	return &detached{ctx: ctx, src: body, done: make(chan struct{})}
}

// A detached reads src in a goroutine of its own, which exists only while a Read
// is under way.
type detached struct {
	ctx  context.Context
	src  io.ReadCloser
	once sync.Once
	done chan struct{} // closed by Close

	over      atomic.Bool             // the call has ended
	newest    atomic.Pointer[reading] // the Read that is under way, or the last one
	abandoned bool                    // ctx ended a Read, whose goroutine may go on; the reader's alone

	// The fields below are the goroutine's while there is one, and the Read's
	// that waits for it then.
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
	case <-d.done: // Close may have missed r
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
		// After the call it is Base that ends the sending of a canceled request.
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

// Close closes src once. Beside a Read it does not wait long for src's Close.
func (d *detached) Close() (err error) {
	d.once.Do(func() {
		close(d.done)
		err = closeBeside(d.src, d.newest.Load())
	})
	return err
}
