//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package letters

import (
	"os"
	"syscall"
)

// canLock reports whether lock is exclusive.
const canLock = true

// lock locks the file until it is closed, also by a crash. It reports false if
// the file is already locked.
func lock(f *os.File) (bool, error) {
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err {
		case nil:
			return true, nil
		case syscall.EWOULDBLOCK:
			return false, nil
		case syscall.EINTR:
		default:
			return false, &os.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
	}
}
