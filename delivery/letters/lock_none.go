//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package letters

import "os"

// canLock reports whether lock is exclusive.
const canLock = false

// lock locks nothing: package syscall has no flock for this system.
func lock(*os.File) (bool, error) { return true, nil }
