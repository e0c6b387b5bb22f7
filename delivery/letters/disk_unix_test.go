//go:build unix

package letters

import (
	"io/fs"
	"os"
	"syscall"
	"testing"
)

// A file system that cannot sync folders is treated like a system that cannot.
func TestFoldersThatCannotBeSynced(t *testing.T) {
	for err, ignored := range map[error]bool{
		syscall.EINVAL: true, syscall.ENOTSUP: true, syscall.EIO: false,
	} {
		if got := ignoreUnsupported(&fs.PathError{Op: "sync", Path: "d", Err: err}); (got == nil) != ignored {
			t.Errorf("got %v", got)
		}
	}
	d, err := os.Open("/proc")
	if err != nil {
		return // not on every Unix
	}
	defer d.Close()
	if d.Sync() != nil {
		if err := (osDisk{}).syncDir("/proc"); err != nil {
			t.Errorf("/proc: %v", err)
		}
	}
}
