//go:build !plan9

package neterr

import "syscall"

var errReset, errRefused error = syscall.ECONNRESET, syscall.ECONNREFUSED
