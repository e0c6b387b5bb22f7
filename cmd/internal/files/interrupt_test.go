package files

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var errInterrupted = errors.New("interrupted")

// stuck interrupts at each Read and Write, and never returns.
type stuck struct{ interrupt func() }

func (s stuck) Read([]byte) (int, error) { return s.Write(nil) }

func (s stuck) Write([]byte) (int, error) {
	s.interrupt()
	select {}
}

func TestReadAndWriteEnd(t *testing.T) {
	for name, call := range map[string]func(context.Context, stuck) (int, error){
		"read":  func(ctx context.Context, s stuck) (int, error) { return NewReader(ctx, s).Read(make([]byte, 9)) },
		"write": func(ctx context.Context, s stuck) (int, error) { return NewWriter(ctx, s).Write([]byte("text")) },
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		if n, err := call(ctx, stuck{func() { cancel(errInterrupted) }}); n != 0 || err != errInterrupted {
			t.Errorf("%s: got %d, %v; want 0 and the cause", name, n, err)
		}
	}
}

func TestReadAndWrite(t *testing.T) {
	var b strings.Builder
	n, err := io.Copy(NewWriter(t.Context(), &b), NewReader(t.Context(), io.LimitReader(strings.NewReader("text"), 9)))
	if n != 4 || err != nil || b.String() != "text" {
		t.Errorf("got %d, %v, %q", n, err, b.String())
	}
	own := strings.NewReader("") // a Read needs no goroutine for each context
	if got := NewReader(t.Context(), NewReader(context.Background(), own)).(reader).Reader; got != io.Reader(own) {
		t.Errorf("got a reader of a %T", got)
	}
	path := filepath.Join(t.TempDir(), "file")
	create(t, path, "", 0o600)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := NewReader(t.Context(), f); got != io.Reader(f) {
		t.Errorf("got a %T of a regular file", got)
	}
}
