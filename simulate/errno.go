//go:build !plan9

package simulate

import "syscall"

// errReset is what the operating system reports of a connection that the other
// side has reset.
const errReset = syscall.ECONNRESET
