package letters

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// A disk makes the changes to a folder. Their order matters: tests inspect the
// folder after each one.
type disk interface {
	mkdir(path string) error              // for its owner only; fails if path exists
	create(path string) (diskFile, error) // for its owner only; fails if path exists
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

// create also locks the file, so that Redrive can tell it from one that a crash
// left.
func (osDisk) create(path string) (diskFile, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	_, _ = lock(f) // if it fails, Redrive cannot lock the file either, and keeps it
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

// makeDurable creates a folder and its missing parents, so that they survive a
// crash of the machine. It syncs each folder's parent before it creates the
// next one, so a crash leaves at most one folder that is not durable: the
// deepest, whose parent the next call syncs first.
func makeDurable(d disk, dir string) error {
	parent := filepath.Dir(dir)
	if parent == dir {
		return nil // a root, or the current folder
	}
	if isDir(dir) {
		err := d.syncDir(parent)
		if errors.Is(err, fs.ErrPermission) {
			return nil // a process that may not read parent can hardly have created a folder in it
		}
		return err
	}
	if err := makeDurable(d, parent); err != nil {
		return err
	}
	if err := d.mkdir(dir); err != nil && !isDir(dir) { // another process may have created it
		return err
	}
	return d.syncDir(parent)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
