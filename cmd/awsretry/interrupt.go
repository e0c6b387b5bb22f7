package main

import (
	"context"
	"errors"
	"io"
	"os"
)

var errInterrupted = errors.New("interrupted")

// await returns what f returns, or the cause of ctx if that ends first. Then f is left alone, since nothing ends a system
// call that waits for a pipe or a terminal; the process is about to exit.
func await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// openWithin opens a file. Opening a named pipe waits for its other end, but not longer than ctx lasts.
func openWithin(ctx context.Context, path string, flag int) (*os.File, error) {
	return await(ctx, func() (*os.File, error) { return os.OpenFile(path, flag, 0) })
}

// A reader whose Read ends with its context, while the Read of what it reads from may go on. It must not be read from
// again afterwards by anybody else.
type interruptibleReader struct {
	ctx context.Context
	io.Reader
}

// newInterruptibleReader replaces the context of a reader that already has one: ctx must be derived from that.
func newInterruptibleReader(ctx context.Context, r io.Reader) interruptibleReader {
	if inner, ok := r.(interruptibleReader); ok {
		r = inner.Reader
	}
	return interruptibleReader{ctx, r}
}

func (r interruptibleReader) Read(p []byte) (int, error) {
	own, err := await(r.ctx, func() ([]byte, error) {
		own := make([]byte, len(p)) // p is the caller's again when Read returns
		n, err := r.Reader.Read(own)
		return own[:n], err
	})
	return copy(p, own), err
}

// An interruptibleWriter is the same for Write.
type interruptibleWriter struct {
	ctx context.Context
	io.Writer
}

func (w interruptibleWriter) Write(p []byte) (int, error) {
	own := append([]byte(nil), p...)
	return await(w.ctx, func() (int, error) { return w.Writer.Write(own) })
}

// isRegular reports whether r is a regular file, whose reading does not wait.
func isRegular(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}
