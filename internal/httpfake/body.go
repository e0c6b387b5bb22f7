package httpfake

import (
	"context"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// A Body is a request or response body that counts what is done to it. It is
// safe for concurrent use, which it also counts.
type Body struct {
	r                                   io.Reader
	reading                             atomic.Bool
	reads, closes                       atomic.Int32
	overlaps, afterClose, closedReading atomic.Int32
}

// NewBody returns a Body with the content of r, which it closes if r is an
// io.Closer.
func NewBody(r io.Reader) *Body { return &Body{r: r} }

// Read reads from the content. It fails after Close.
func (b *Body) Read(p []byte) (int, error) {
	b.reads.Add(1)
	if b.closes.Load() > 0 {
		b.afterClose.Add(1)
		return 0, os.ErrClosed
	}
	if b.reading.Swap(true) {
		b.overlaps.Add(1)
	}
	defer b.reading.Store(false)
	return b.r.Read(p)
}

// Close closes the content.
func (b *Body) Close() error {
	b.closes.Add(1)
	if b.reading.Load() {
		b.closedReading.Add(1)
	}
	if c, ok := b.r.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Reading reports whether a Read is in progress.
func (b *Body) Reading() bool { return b.reading.Load() }

// Reads returns how often Read was called.
func (b *Body) Reads() int { return int(b.reads.Load()) }

// Closes returns how often Close was called.
func (b *Body) Closes() int { return int(b.closes.Load()) }

// Overlaps returns how many Reads began while another was in progress.
func (b *Body) Overlaps() int { return int(b.overlaps.Load()) }

// ReadsAfterClose returns how many Reads began after Close.
func (b *Body) ReadsAfterClose() int { return int(b.afterClose.Load()) }

// ClosesDuringRead returns how often Close was called while a Read was in
// progress.
func (b *Body) ClosesDuringRead() int { return int(b.closedReading.Load()) }

// A ReadFunc is an io.Reader made of a function.
type ReadFunc func([]byte) (int, error)

// Read calls f.
func (f ReadFunc) Read(p []byte) (int, error) { return f(p) }

// SlowReader returns a reader each of whose Reads takes d. A Read fails when ctx
// ends, as that of a response body does when its request ends.
func SlowReader(ctx context.Context, d time.Duration, r io.Reader) io.Reader {
	return ReadFunc(func(p []byte) (int, error) {
		select {
		case <-time.After(d):
			return r.Read(p)
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
}

// Text returns n printable bytes. Their pattern repeats after a prime number of
// bytes, so that buffers of the usual sizes never hold the same.
func Text(n int) string {
	const length = 4093
	block := make([]byte, length)
	for i := range block {
		block[i] = byte('!' + (i*i+i/7)%90)
	}
	return strings.Repeat(string(block), n/length+1)[:n]
}
