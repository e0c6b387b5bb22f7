package neterr

import "syscall"

var errReset, errRefused error = syscall.NewError("connection reset"), syscall.NewError("connection refused")
