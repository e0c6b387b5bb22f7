package main

import (
	"context"
	"errors"
	"io"
	"os"
)

var errInterrupted = errors.New("interrupted")

// await returns what f returns, or the cause of ctx if that ends first. Then f
// goes on: nothing ends a system call that waits for a pipe or a terminal, and
// the process is about to exit.
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

// openWithin opens a file. Opening a named pipe waits for its other end, but
// not longer than ctx lasts.
func openWithin(ctx context.Context, path string, flag int) (*os.File, error) {
	return await(ctx, func() (*os.File, error) { return os.OpenFile(path, flag, 0) })
}

// An interruptibleReader ends a Read when its context ends. The underlying Read
// may then still be under way, so nobody else must use the underlying reader.
type interruptibleReader struct {
	ctx context.Context
	io.Reader
}

// newInterruptibleReader returns a reader of r that ends with ctx. If r already
// ends with a context, ctx must be derived from it.
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

// An interruptibleWriter ends a Write when its context ends.
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
