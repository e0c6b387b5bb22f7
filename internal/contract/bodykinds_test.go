package contract_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// A sentBody is a request body that counts how often it is closed, and so is
// each copy that its GetBody made.
type sentBody struct {
	reader  io.ReadCloser // may be nil or http.NoBody
	getBody func() (io.ReadCloser, error)
	closes  []*atomic.Int32
}

func (b *sentBody) counter() *atomic.Int32 {
	n := new(atomic.Int32)
	b.closes = append(b.closes, n)
	return n
}

// attachTo makes b the body of req.
func (b *sentBody) attachTo(req *http.Request) { req.Body, req.GetBody = b.reader, b.getBody }

// wantClosed fails unless the body and each copy were closed once.
func (b *sentBody) wantClosed(t *testing.T) {
	t.Helper()
	for i, n := range b.closes {
		if n.Load() != 1 {
			t.Errorf("request body %d was closed %d times", i+1, n.Load())
		}
	}
}

type (
	countedFile struct {
		*os.File
		n *atomic.Int32
	}
	countedSection struct {
		*io.SectionReader
		n *atomic.Int32
	}
	countedReader struct {
		io.Reader
		n *atomic.Int32
	}
)

func (f countedFile) Close() error    { f.n.Add(1); return f.File.Close() }
func (s countedSection) Close() error { s.n.Add(1); return nil }
func (r countedReader) Close() error  { r.n.Add(1); return nil }

// bodyKinds are the ways in which a request can have a body.
var bodyKinds = map[string]func(t *testing.T, data string) *sentBody{
	"nil":    func(*testing.T, string) *sentBody { return &sentBody{} },
	"NoBody": func(*testing.T, string) *sentBody { return &sentBody{reader: http.NoBody} },
	"GetBody": func(_ *testing.T, data string) *sentBody {
		b := &sentBody{}
		b.getBody = func() (io.ReadCloser, error) { return countedReader{strings.NewReader(data), b.counter()}, nil }
		b.reader, _ = b.getBody()
		return b
	},
	"file": func(t *testing.T, data string) *sentBody {
		b := &sentBody{}
		b.reader = countedFile{fileAt(t, "skipped "+data, len("skipped ")), b.counter()}
		return b
	},
	"section": func(_ *testing.T, data string) *sentBody {
		b := &sentBody{}
		section := io.NewSectionReader(strings.NewReader("<"+data+">"), 1, int64(len(data)))
		b.reader = countedSection{section, b.counter()}
		return b
	},
	"stream": func(_ *testing.T, data string) *sentBody {
		b := &sentBody{}
		b.reader = countedReader{io.MultiReader(strings.NewReader(data[:3]), strings.NewReader(data[3:])), b.counter()}
		return b
	},
}

// filledKinds are the bodyKinds that have bytes to send.
var filledKinds = []string{"GetBody", "file", "section", "stream"}

// fileAt makes a file and opens it at an offset.
func fileAt(t *testing.T, data string, offset int) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.Seek(int64(offset), io.SeekStart); err != nil {
		t.Fatal(err)
	}
	return f
}
