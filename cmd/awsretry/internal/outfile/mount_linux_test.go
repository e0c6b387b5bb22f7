package outfile

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A file that is a mount point, as in a container, cannot be replaced. It is
// overwritten instead.
func TestOutputToMountedFile(t *testing.T) {
	folder := t.TempDir()
	source, target := filepath.Join(folder, "source"), filepath.Join(folder, "target")
	for _, path := range []string{source, target} {
		if err := os.WriteFile(path, []byte("old and longer"), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mount(source, target, "", syscall.MS_BIND, ""); err != nil {
		t.Skip("mounting: ", err)
	}
	defer syscall.Unmount(target, syscall.MNT_DETACH)
	got := shell{}.run(t, get("-o", target, serve(t, fine).URL)...)
	for _, path := range []string{source, target} {
		if content, err := os.ReadFile(path); got.status != 0 || string(content) != "hello" {
			t.Errorf("%s holds %q, %v: %+v", path, content, err, got)
		}
	}
	if files, _ := os.ReadDir(folder); len(files) != 2 {
		t.Errorf("the folder holds %v", files)
	}
}
