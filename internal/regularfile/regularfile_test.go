package regularfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, info, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if data, err := io.ReadAll(file); string(data) != "text" || err != nil || info.Size() != 4 {
		t.Errorf("got %q and error %v, and a size of %d", data, err, info.Size())
	}
}

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
}
