package queue

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/time/rate"
)

// logger returns a logger that prints warnings on standard error.
func (r *report) logger() *slog.Logger {
	return slog.New(&warnings{report: r, sometimes: &rate.Sometimes{First: 3, Interval: warningInterval}})
}

// warningInterval is the least time between two warnings after the first three: a
// store that is down fails many times a second.
const warningInterval = 10 * time.Second

// warnings is a slog.Handler. It prints the message, its subject and its error.
type warnings struct {
	report    *report
	sometimes *rate.Sometimes
}

// Enabled implements slog.Handler.
func (*warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle implements slog.Handler.
func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "err", "error":
			text += ": " + a.Value.String()
		case "endpoint", "delivery":
			text += ": " + a.Key + " " + a.Value.String()
		}
		return true
	})
	w.sometimes.Do(func() { w.report.warn(oneLine(errors.New(text))) })
	return nil
}

// WithAttrs implements slog.Handler.
func (w *warnings) WithAttrs([]slog.Attr) slog.Handler { return w }

// WithGroup implements slog.Handler.
func (w *warnings) WithGroup(string) slog.Handler { return w }

// warn prints a warning of one line.
func (r *report) warn(text string) {
	r.Do(func() { r.Warn(r.command.name, text, r.JSON != nil) })
}
