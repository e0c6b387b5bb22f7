package term

import "io"

// An ErrWriter writes to the Writer in it, and keeps the first error, so that a
// report checks for one at its end.
type ErrWriter struct {
	io.Writer
	Err error // the first error
}

func (w *ErrWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if w.Err == nil {
		w.Err = err
	}
	return n, err
}
