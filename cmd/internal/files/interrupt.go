package files

import (
	"context"
	"io"
	"os"
)

// await returns what f returns, or the cause of ctx if ctx ends first. In that
// case f continues: nothing ends a system call that waits for a pipe or a
// terminal, and the process is about to exit.
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
		var zero T
		return zero, context.Cause(ctx)
	}
}

// OpenContext opens a file. Opening a named pipe waits for its other end, but not
// longer than ctx lasts.
func OpenContext(ctx context.Context, path string, flag int) (*os.File, error) {
	return await(ctx, func() (*os.File, error) { return os.OpenFile(path, flag, 0) })
}

// A reader ends a Read when its context ends. The underlying Read may still be
// in progress then, so nothing else must use the underlying reader.
type reader struct {
	ctx context.Context
	io.Reader
}

// NewReader returns a reader of r whose Reads end with ctx. If r already ends
// with a context, ctx must be derived from it. A regular file never waits, and
// is returned as it is.
func NewReader(ctx context.Context, r io.Reader) io.Reader {
	if isRegular(r) {
		return r
	}
	if inner, ok := r.(reader); ok {
		r = inner.Reader
	}
	return reader{ctx, r}
}

func isRegular(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

func (r reader) Read(p []byte) (int, error) {
	own, err := await(r.ctx, func() ([]byte, error) {
		own := make([]byte, len(p)) // p is the caller's again when Read returns
		n, err := r.Reader.Read(own)
		return own[:n], err
	})
	return copy(p, own), err
}

type writer struct {
	ctx context.Context
	io.Writer
}

// NewWriter returns a writer to w whose Writes end with ctx.
func NewWriter(ctx context.Context, w io.Writer) io.Writer { return writer{ctx, w} }

func (w writer) Write(p []byte) (int, error) {
	own := append([]byte(nil), p...)
	return await(w.ctx, func() (int, error) { return w.Writer.Write(own) })
}
