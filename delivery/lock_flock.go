//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package delivery

import (
	"os"
	"syscall"
)

// canLock reports whether lock keeps others out.
const canLock = true

// lock locks the file until it is closed, which a crash does too. It reports
// false if somebody else has locked it.
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
