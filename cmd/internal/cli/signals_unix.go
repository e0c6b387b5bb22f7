//go:build unix

package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// IgnorePipe makes a write to a closed standard output or standard error return an
// error, until stop is called.
func IgnorePipe() (stop func()) {
	received := make(chan os.Signal, 1) // nothing receives from it
	signal.Notify(received, syscall.SIGPIPE)
	return func() { signal.Stop(received) }
}

// IsBrokenPipe reports whether err is from a write to a pipe without a reader.
func IsBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

// NotifyHangup returns a copy of parent that ends when the terminal is closed,
// unless nohup started the process. More hangups, such as those of the shell and of
// the system, do nothing until stop is called.
func NotifyHangup(parent context.Context) (ctx context.Context, stop func()) {
	if signal.Ignored(syscall.SIGHUP) {
		return parent, func() {}
	}
	return signal.NotifyContext(parent, syscall.SIGHUP)
}
