//go:build !unix

package cli

import "context"

// IgnorePipe does nothing: this system has no SIGPIPE.
func IgnorePipe() (stop func()) { return func() {} }

// IsBrokenPipe returns false: this system has no EPIPE.
func IsBrokenPipe(error) bool { return false }

// NotifyHangup returns parent: this system has no SIGHUP.
func NotifyHangup(parent context.Context) (ctx context.Context, stop func()) {
	return parent, func() {}
}
