package simulate

import "syscall"

// errReset is what the operating system reports of a connection that the other
// side has reset.
var errReset = syscall.NewError("connection reset")
