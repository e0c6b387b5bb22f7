package awsretry

import (
	"cmp"
	"context"
	"hash/maphash"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"

	"example.com/awsretry/internal/redact"
)

// LogTo returns an observer for Transport.Observe or [WithObserver] that logs
// to logger: an attempt that is retried at level debug, and at level warn a
// retryable failure that is not retried and a call that is refused before its
// first attempt, which has the attempt 0. It logs nothing else. In particular,
// a call whose context ends during a delay is not logged but returns an error.
// URLs are logged without user, query and fragment. A nil logger means
// slog.Default().
//
// The handler of slog.Default drops level debug, so LogTo(slog.Default()) shows
// no retries unless the program changes that level, for example with
// slog.SetLogLoggerLevel(slog.LevelDebug).
func LogTo(logger *slog.Logger) func(Attempt) {
	logger = cmp.Or(logger, slog.Default())
	return func(a Attempt) {
		level, message, ok := retryEvent(a)
		if !ok {
			return
		}
		if ctx, ok := logs(logger, level, a); ok {
			logger.LogAttrs(ctx, level, message, attemptAttrs(a)...)
		}
	}
}

// LogAllTo is like [LogTo], and also logs every other attempt, successful ones
// included, at level debug. Each line has the attribute call, which is the same
// for the attempts of one call, and another one for the calls that are made at
// the same time. A retry may wait for a send token before the line is written;
// late says how long after the attempt that is. If the response announces limits that [ReadLimits] knows, the
// attribute limits has them as in "requests 59/60 1s refills, tokens 800/1000
// 12s refills": the name, what remains of the quota, the reset, and refills if
// units come back steadily. awsretry simulate --from makes a scenario of such a
// log, with slog's JSON handler.
func LogAllTo(logger *slog.Logger) func(Attempt) {
	logger = cmp.Or(logger, slog.Default())
	return func(a Attempt) {
		level, message, ok := retryEvent(a)
		switch {
		case ok:
		case a.Class == Success:
			level, message = slog.LevelDebug, "succeeded"
		default:
			level, message = slog.LevelDebug, "failed"
		}
		if ctx, ok := logs(logger, level, a); ok {
			attrs := attemptAttrs(a)
			if limits := ReadLimits(a.Response); len(limits) > 0 {
				attrs = append(attrs, slog.String("limits", limitsText(limits)))
			}
			if late := time.Since(a.Start) - a.Elapsed; late >= time.Millisecond && !a.Start.IsZero() {
				attrs = append(attrs, slog.Duration("late", late))
			}
			call := strconv.FormatUint(maphash.Comparable(callSeed, a.Request), 16)
			logger.LogAttrs(ctx, level, message, append(attrs, slog.String("call", call))...)
		}
	}
}

// callSeed keeps the addresses of requests out of the log.
var callSeed = maphash.MakeSeed()

// limitsText returns limits as LogAllTo logs them. Their names come from a
// server: they are short, and have neither white space nor commas.
func limitsText(limits []Limit) string {
	const longest = 50 // bytes of a name
	oneWord := func(r rune) rune {
		if unicode.IsSpace(r) || r == ',' {
			return '_'
		}
		return r
	}
	var text []byte
	for i, l := range limits {
		if i > 0 {
			text = append(text, ", "...)
		}
		if name := l.Name[:min(len(l.Name), longest)]; name != "" {
			text = append(append(text, strings.Map(oneWord, redact.Text(name))...), ' ')
		}
		text = strconv.AppendFloat(text, l.Remaining, 'g', 15, 64)
		if l.Quota > 0 {
			text = strconv.AppendFloat(append(text, '/'), l.Quota, 'g', 15, 64)
		}
		if l.Reset >= 0 {
			text = append(append(text, ' '), l.Reset.Round(time.Millisecond).String()...)
		}
		if l.Refills {
			text = append(text, " refills"...)
		}
	}
	return string(text)
}

// retryEvent returns how an attempt is logged that is retried, or that is a
// retryable failure, and a call without one. ok is false for others.
func retryEvent(a Attempt) (level slog.Level, message string, ok bool) {
	switch {
	case a.Number == 0:
		return slog.LevelWarn, "refused", true
	case a.Stop == "":
		return slog.LevelDebug, "retrying", true
	case a.Class.Retryable():
		return slog.LevelWarn, "gave up", true
	}
	return 0, "", false
}

// logs returns the context to log with, if logger logs the level.
func logs(logger *slog.Logger, level slog.Level, a Attempt) (context.Context, bool) {
	ctx := context.Background()
	if a.Request != nil {
		ctx = a.Request.Context()
	}
	return ctx, logger.Enabled(ctx, level)
}

func attemptAttrs(a Attempt) []slog.Attr {
	attrs := make([]slog.Attr, 0, 17)
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
	if a.MaybeExecuted {
		attrs = append(attrs, slog.Bool("maybe_executed", true))
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
	return append(attrs, slog.String("stop", string(a.Stop)))
}
