package term

import "io"

// An ErrWriter keeps the first error of its Writer, so that a report can check
// for it once, at its end.
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
