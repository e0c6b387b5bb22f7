package demo

import (
	"bytes"
	"io"
	"net/http"
	"time"
)

// The object at /broken.
const (
	brokenSize  = 3_000_000
	brokenAfter = 1_200_000 // bytes of a response
)

// broken serves an object with a strong ETag, and breaks off each response that has
// more than brokenAfter bytes of it.
func (s *server) broken(w http.ResponseWriter, r *http.Request) {
	s.count(r)
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("ETag", `"version-1"`)
	object := bytes.Repeat([]byte("it breaks off. "), brokenSize/len("it breaks off. "))
	http.ServeContent(&breakingWriter{w, brokenAfter}, r, "", time.Time{}, bytes.NewReader(object))
}

// A breakingWriter fails after a number of bytes. The server then closes the
// connection, because the body is not complete.
type breakingWriter struct {
	http.ResponseWriter
	left int
}

func (w *breakingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p[:min(len(p), w.left)])
	w.left -= n
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}
