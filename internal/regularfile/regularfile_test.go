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

// Open and Read refuse what is not regular without opening it.
func TestNotRegular(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]error{
		filepath.Join(dir, "none"): fs.ErrNotExist,
		dir:                        ErrNotRegular,
		os.DevNull:                 ErrNotRegular,
	} {
		file, info, err := Open(path)
		var pathError *fs.PathError
		if !errors.Is(err, want) || !errors.As(err, &pathError) || pathError.Path != path {
			t.Errorf("got error %v, want %v for %s", err, want, path)
		}
		if file != nil || (info != nil) != (want == ErrNotRegular) {
			t.Errorf("%s: got file %v and info %v", path, file, info)
		}
		if _, err := Read(path); !errors.Is(err, want) || want == ErrNotRegular &&
			!strings.HasPrefix(err.Error(), path+" is not a regular file") {
			t.Errorf("Read of %s: got error %v, want %v", path, err, want)
		}
	}
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for size, want := range map[int]string{0: "", MaxSize: "", MaxSize + 1: "file has more than 1048576 bytes"} {
		if err := os.WriteFile(path, bytes.Repeat([]byte("x"), size), 0o600); err != nil {
			t.Fatal(err)
		}
		file, info, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if file.Close(); info.Size() != int64(size) {
			t.Errorf("the size is %d, want %d", info.Size(), size)
		}
		data, err := Read(path)
		if want == "" && (err != nil || len(data) != size) {
			t.Errorf("got %d bytes, %v, want %d", len(data), err, size)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	_, err := ReadFrom(iotest.ErrReader(fs.ErrClosed), "standard input")
	if !errors.Is(err, fs.ErrClosed) || !strings.HasPrefix(err.Error(), "standard input: ") {
		t.Errorf("a reader that fails: %v", err)
	}
}
