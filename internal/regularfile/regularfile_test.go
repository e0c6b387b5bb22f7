package regularfile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

func TestOpenFails(t *testing.T) {
	dir := t.TempDir()
	checkFails(t, filepath.Join(dir, "none"), fs.ErrNotExist)
	checkFails(t, dir, ErrNotRegular)
	checkFails(t, os.DevNull, ErrNotRegular)
}

func checkFails(t *testing.T, path string, want error) {
	t.Helper()
	file, info, err := Open(path)
	var pathError *fs.PathError
	if !errors.Is(err, want) || !errors.As(err, &pathError) || pathError.Path != path {
		t.Errorf("got error %v, want %v for %s", err, want, path)
	}
	if file != nil || (info != nil) != (want == ErrNotRegular) {
		t.Errorf("got file %v and info %v", file, info)
	}
	if _, err := Read(path); !errors.Is(err, want) || want == ErrNotRegular &&
		!strings.HasPrefix(err.Error(), path+" is not a regular file") {
		t.Errorf("Read of %s: got error %v, want %v", path, err, want)
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name string
		size int // of the file; negative: there is none
		want string
	}{
		{"empty", 0, ""},
		{"longest", MaxSize, ""},
		{"longer", MaxSize + 1, "longer has more than 1048576 bytes"},
		{"missing", -1, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(dir, c.name)
			if c.size >= 0 {
				if err := os.WriteFile(path, bytes.Repeat([]byte("x"), c.size), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if file, info, err := Open(path); err == nil {
				if file.Close(); info.Size() != int64(c.size) {
					t.Errorf("the size is %d", info.Size())
				}
			}
			data, err := Read(path)
			if c.want == "" && (err != nil || len(data) != c.size) {
				t.Errorf("got %d bytes, %v", len(data), err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestReadFrom(t *testing.T) {
	if _, err := ReadFrom(iotest.ErrReader(fs.ErrClosed), "standard input"); !errors.Is(err, fs.ErrClosed) ||
		!strings.HasPrefix(err.Error(), "standard input: ") {
		t.Errorf("a reader that fails: %v", err)
	}
}
