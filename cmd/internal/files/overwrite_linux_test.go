package files

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A file that is a mount point, as in a container, cannot be replaced. It is
// overwritten.
func TestMountedFile(t *testing.T) {
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
	if err := write(t, target, "new", (*Output).Keep); err != nil {
		t.Error(err)
	}
	checkFolder(t, folder, map[string]string{"source": "new", "target": "new"})
}

// Not even root can replace the file with the name of a process, or create
// another in its folder.
func TestNoFileBeside(t *testing.T) {
	const path = "/proc/self/comm"
	before, err := os.ReadFile(path)
	if err != nil {
		t.Skip(err)
	}
	defer os.WriteFile(path, before, 0)
	if err := write(t, path, "outfile-test", (*Output).Keep); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "outfile-test\n" {
		t.Errorf("got %q, %v", got, err)
	}
}
