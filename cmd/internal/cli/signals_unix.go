//go:build unix

package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// IgnorePipe turns a write to a closed standard output or standard error into
// an error, until stop is called.
func IgnorePipe() (stop func()) {
	received := make(chan os.Signal, 1) // nothing receives from it
	signal.Notify(received, syscall.SIGPIPE)
	return func() { signal.Stop(received) }
}

// IsBrokenPipe reports whether err is of a write to a pipe that nothing reads.
func IsBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

// NotifyHangup returns a copy of parent that ends when the terminal goes away,
// unless nohup started the process. A second hangup ends the process.
func NotifyHangup(parent context.Context) (ctx context.Context, stop func()) {
	if signal.Ignored(syscall.SIGHUP) {
		return parent, func() {}
	}
	ctx, cancel := signal.NotifyContext(parent, syscall.SIGHUP)
	context.AfterFunc(ctx, cancel)
	return ctx, cancel
}
