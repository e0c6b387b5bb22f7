// Package errwriter keeps the first error of writing a report, so that the
// report checks for one at its end.
package errwriter

import "io"

// A Writer writes to the Writer in it.
type Writer struct {
	io.Writer
	Err error // the first error
}

func (w *Writer) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if w.Err == nil {
		w.Err = err
	}
	return n, err
}
