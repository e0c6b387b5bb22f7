package awsretry

import (
	"context"
	"log/slog"

	"example.com/awsretry/internal/redact"
)

// levelOthers is for attempts that are neither retried nor retryable failures:
// the lowest level, because most attempts are.
const levelOthers = slog.LevelDebug - 4

// LogTo returns an observer for Transport.Observe or [WithObserver] that logs
// to logger: an attempt that is retried at level debug, a retryable failure
// that is not retried at level warn, and every other attempt at level
// slog.LevelDebug-4. It logs nothing else. In particular, a call that is refused before its first
// attempt, or that ends during a delay, is not logged but returns an error.
// URLs are logged without user, query and fragment. A nil logger means
// slog.Default().
//
// The attribute elapsed is the time of the attempt, delay the time before the
// next one, and total, of the last of several attempts, the time since the call
// began.
//
// The handler of slog.Default drops level debug, so LogTo(slog.Default()) shows
// no retries unless the program changes that level, for example with
// slog.SetLogLoggerLevel(slog.LevelDebug).
func LogTo(logger *slog.Logger) func(Attempt) {
	if logger == nil {
		logger = slog.Default()
	}
	return func(a Attempt) {
		level, message := slog.LevelDebug, "retrying"
		switch {
		case a.Stop == "":
		case a.Class.Retryable():
			level, message = slog.LevelWarn, "gave up"
		case a.Class == Success:
			level, message = levelOthers, "succeeded"
		default:
			level, message = levelOthers, "failed"
		}
		ctx := context.Background()
		if a.Request != nil {
			ctx = a.Request.Context()
		}
		if !logger.Enabled(ctx, level) {
			return
		}
		logger.LogAttrs(ctx, level, message, attemptAttrs(a)...)
	}
}

func attemptAttrs(a Attempt) []slog.Attr {
	attrs := make([]slog.Attr, 0, 14)
	if a.Request != nil && a.Request.URL != nil {
		attrs = append(attrs, slog.String("method", a.Request.Method), slog.String("url", redact.URL(a.Request.URL)))
	}
	attrs = append(attrs, slog.Int("attempt", a.Number), slog.String("class", a.Class.String()))
	if a.Offset > 0 {
		attrs = append(attrs, slog.Int64("offset", a.Offset))
	}
	if a.Response != nil {
		attrs = append(attrs, slog.Int("status", a.Response.StatusCode))
	}
	if a.Code != "" {
		attrs = append(attrs, slog.String("code", redact.Text(a.Code)))
	}
	if a.Err != nil {
		attrs = append(attrs, slog.String("error", redact.Error(a.Err)))
	}
	if !a.Start.IsZero() {
		attrs = append(attrs, slog.Duration("elapsed", a.Elapsed))
	}
	if a.Waited > 0 {
		attrs = append(attrs, slog.Duration("waited", a.Waited))
	}
	if a.Stop == "" {
		return append(attrs, slog.Duration("delay", a.Delay))
	}
	if a.Number > 1 && !a.began.IsZero() && a.Offset == 0 {
		attrs = append(attrs, slog.Duration("total", a.Start.Add(a.Elapsed).Sub(a.began)))
	}
	return append(attrs, slog.String("stop", string(a.Stop)))
}
