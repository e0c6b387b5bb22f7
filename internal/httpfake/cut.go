package httpfake

import "net/http"

// CutAfter returns a writer that ends the response after n bytes of its body, in
// HTTP/2 by resetting the stream.
func CutAfter(w http.ResponseWriter, n int) http.ResponseWriter { return &cutting{w, n} }

type cutting struct {
	http.ResponseWriter
	left int
}

func (w *cutting) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p[:min(len(p), w.left)])
	if w.left -= n; w.left == 0 && err == nil {
		http.NewResponseController(w.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, err
}
