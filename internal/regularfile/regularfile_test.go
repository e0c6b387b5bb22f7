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
	if data, err := io.ReadAll(file); string(data) != "text" || err != nil {
		t.Errorf("got %q and error %v, want the file's text", data, err)
	}
	if info.Size() != 4 {
		t.Errorf("got a size of %d, want 4", info.Size())
	}
}

func TestOpenFails(t *testing.T) {
	dir := t.TempDir()
	tests := []struct {
		name, path string
		want       error
		info       bool
	}{
		{"missing", filepath.Join(dir, "none"), fs.ErrNotExist, false},
		{"directory", dir, ErrNotRegular, true},
		{"null device", os.DevNull, ErrNotRegular, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { checkFails(t, test.path, test.want, test.info) })
	}
}

func checkFails(t *testing.T, path string, want error, wantInfo bool) {
	t.Helper()
	file, info, err := Open(path)
	var pathError *fs.PathError
	if !errors.Is(err, want) || !errors.As(err, &pathError) || pathError.Path != path {
		t.Errorf("got error %v, want %v for %s", err, want, path)
	}
	if file != nil || (info != nil) != wantInfo {
		t.Errorf("got file %v and info %v", file, info)
	}
}
