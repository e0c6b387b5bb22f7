package regularfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
