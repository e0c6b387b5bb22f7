package delivery

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// A disk makes the changes to a queue's folder. Their order matters: tests look
// at the folder after each one.
type disk interface {
	mkdir(path string) error              // for its owner alone; fails if path exists
	create(path string) (diskFile, error) // for its owner alone; fails if path exists
	rename(from, to string) error
	remove(path string) error
	syncDir(dir string) error
}

type diskFile interface {
	io.WriteCloser
	Sync() error
}

type osDisk struct{}

func (osDisk) mkdir(path string) error { return os.Mkdir(path, 0o700) }

// create also locks the file, so that Redrive knows it from one that a crash
// left.
func (osDisk) create(path string) (diskFile, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	_, _ = lock(f) // if it fails, it fails for Redrive too, which then leaves the file alone
	return f, nil
}

func (osDisk) rename(from, to string) error { return os.Rename(from, to) }

func (osDisk) remove(path string) error { return os.Remove(path) }

// syncDir does nothing on a system or a file system that cannot sync a folder.
func (osDisk) syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return ignoreUnsupported(d.Sync())
}

// ignoreUnsupported returns nil for the errors of a file system that cannot
// sync a folder: EINVAL, and ENOTSUP and the like.
func ignoreUnsupported(err error) error {
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// makeDurable makes a folder, and the folders above it that are missing, so
// that they survive a crash of the machine. It syncs each folder's parent
// before it makes the next. So a crash leaves at most one folder that is not
// durable, the deepest; if that exists when makeDurable begins, it is made
// durable first.
func makeDurable(d disk, dir string) error {
	parent := filepath.Dir(dir)
	if parent == dir {
		return nil // a root, or the current folder
	}
	if isDir(dir) {
		err := d.syncDir(parent)
		if errors.Is(err, fs.ErrPermission) {
			return nil // a process that may not read parent has hardly made a folder in it
		}
		return err
	}
	if err := makeDurable(d, parent); err != nil {
		return err
	}
	if err := d.mkdir(dir); err != nil && !isDir(dir) { // another process may have made it meanwhile
		return err
	}
	return d.syncDir(parent)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
