//go:build unix

package letters

import (
	"io/fs"
	"os"
	"runtime"
	"syscall"
	"testing"
)

// A file system that cannot sync folders is treated like a system that cannot.
func TestFoldersThatCannotBeSynced(t *testing.T) {
	for err, ignored := range map[error]bool{
		syscall.EINVAL: true, syscall.ENOTSUP: true, syscall.EIO: false,
	} {
		t.Run(err.Error(), func(t *testing.T) {
			got := ignoreUnsupported(&fs.PathError{Op: "sync", Path: "d", Err: err})
			if (got == nil) != ignored {
				t.Errorf("got %v", got)
			}
		})
	}
	t.Run("/proc", func(t *testing.T) {
		d, err := os.Open("/proc")
		if err != nil || runtime.GOOS != "linux" {
			t.Skip("there is no /proc")
		}
		defer d.Close()
		if d.Sync() == nil {
			t.Skip("/proc can be synced")
		}
		if err := (osDisk{}).syncDir("/proc"); err != nil {
			t.Errorf("got %v", err)
		}
	})
}
