package interop

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
)

// content is longer than the buffers of net/http and the window of HTTP/2.
var content = []byte(httpfake.Text(100_000))

// A bodyKind is a way to give a request its body.
type bodyKind struct {
	name      string
	content   []byte
	open      func(testing.TB) io.Reader // nil: no body
	hasLength bool                       // the request says the length, which net/http cannot know
}

var bodyKinds = []bodyKind{
	{name: "no body"},
	{name: "bytes", content: content, open: func(testing.TB) io.Reader { return bytes.NewReader(content) }},
	{name: "stream", content: content, open: openStream},
	{name: "stream of known length", content: content, open: openStream, hasLength: true},
	fileOf(content),
}

func openStream(testing.TB) io.Reader { return kit.StreamOf(content) }

func fileOf(content []byte) bodyKind {
	return bodyKind{name: "file", content: content, hasLength: true, open: func(t testing.TB) io.Reader {
		path := filepath.Join(t.TempDir(), "body")
		kit.WriteFile(t, path, content)
		return kit.Must[*os.File](t)(os.Open(path))
	}}
}

// openPipe returns what a goroutine writes piece by piece.
func openPipe(testing.TB) io.Reader {
	body, w := io.Pipe()
	go func() {
		for piece := range slices.Chunk(content, 10_000) {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
		w.Close()
	}()
	return body
}

// A closeCounter is a body that counts its closes.
type closeCounter interface{ Closes() int }

// request returns a PUT with a body of this kind, or a GET and nil.
func (k bodyKind) request(t testing.TB, ctx context.Context, url string) (*http.Request, closeCounter) {
	t.Helper()
	if k.open == nil {
		return kit.NewRequest(t, ctx, http.MethodGet, url, nil), nil
	}
	r := k.open(t)
	req := kit.NewRequest(t, ctx, http.MethodPut, url, r)
	var counter closeCounter
	if file, ok := r.(*os.File); ok {
		body := &countedFile{File: file}
		req.Body, counter = body, body
	} else {
		body := httpfake.NewBody(r)
		req.Body, counter = body, body
	}
	if k.hasLength {
		req.ContentLength = int64(len(k.content))
	}
	return req, counter
}

// wantClosedOnce fails unless the caller's body is closed once, now or soon.
func wantClosedOnce(t testing.TB, body closeCounter) {
	t.Helper()
	if body == nil {
		return
	}
	if !kit.Eventually(func() bool { return body.Closes() > 0 }) || body.Closes() != 1 {
		t.Errorf("the caller's body was closed %d times, want 1", body.Closes())
	}
}

// A countedFile is a file that counts its closes. It can be read at offsets.
type countedFile struct {
	*os.File
	closes atomic.Int32
}

func (f *countedFile) Closes() int { return int(f.closes.Load()) }

func (f *countedFile) Close() error {
	f.closes.Add(1)
	return f.File.Close()
}
