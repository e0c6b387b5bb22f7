package awsretry

import (
	"context"
	"hash/maphash"
	"log/slog"
	"net/http"
	"strconv"

	"example.com/awsretry/internal/record"
	"example.com/awsretry/internal/redact"
)

// LogTo returns an observer for Transport.Observe or [WithObserver] that logs
// failures to logger. Nil means what slog.Default returns at the time. A call is
// logged once at level warn, if it fails in one of these ways:
//
//   - "gave up": a retryable failure is not retried,
//   - "refused": an attempt was not sent, which has the number 0,
//   - "failed": there was no response, for example because the deadline passed,
//     or a server error that must not be retried.
//
// A failure that is retried ("retrying") and any other response that is a failure,
// such as a 404 ("failed"), are logged at level debug. A call that its caller
// canceled is not logged.
//
// The handler of slog.Default drops level debug unless the program changes its
// level, for example with slog.SetLogLoggerLevel(slog.LevelDebug).
//
// URLs are logged without user, query and fragment. The attribute call is the
// same for all attempts of one call, and different for calls that are made at the
// same time. The attribute attempt counts them, and never begins again: if a
// response body breaks off, it and max_attempts include the attempts before its last
// byte, which the Number and MaxAttempts of [Attempt] do not. Package retrylog can also log successes, fewer warnings in an outage,
// and URLs without paths.
func LogTo(logger *slog.Logger) func(Attempt) {
	return func(a Attempt) {
		if a.Class == Success || a.Stop == StopCanceled {
			return
		}
		to := logger
		if to == nil {
			to = slog.Default()
		}
		ctx := context.Background()
		if a.Request != nil {
			ctx = a.Request.Context()
		}
		if level, _ := event(a); to.Enabled(ctx, level) {
			r := a.Record(record.Options{})
			to.LogAttrs(ctx, r.Level, r.Message, r.Attrs...)
		}
	}
}

// callSeed keeps the addresses of requests out of the log.
var callSeed = maphash.MakeSeed()

// Record returns the record of an attempt that packages of this repository log. It
// is without what retrylog adds to it.
func (a Attempt) Record(o record.Options) record.Record {
	showURL, showError := redact.URL, redact.Error
	if o.OmitPaths {
		showURL, showError = redact.Origin, redact.ErrorOrigins
	}
	r := record.Record{Attrs: make([]slog.Attr, 0, 20)}
	first, earlier := firstOf(a.Request)
	r.Level, r.Message = event(a)
	if a.Request != nil && a.Request.URL != nil {
		r.Text("method", a.Request.Method)
		r.Text("url", showURL(a.Request.URL))
	}
	r.Text("partition", redact.Text(a.Partition))
	if a.Request != nil {
		r.Text("call", strconv.FormatUint(maphash.Comparable(callSeed, first), 16))
		r.Text("outer_retry", outerRetry(a.Request))
	}
	number := a.Number
	if number > 0 {
		number += earlier
	}
	r.Add(slog.Int("attempt", number))
	r.Number("max_attempts", int64(a.MaxAttempts+earlier))
	r.Add(slog.String("class", a.Class.String()))
	r.Number("offset", a.Offset)
	if a.Response != nil {
		r.Number("status", int64(a.Response.StatusCode))
		r.Text("request_id", record.RequestID(a.Response.Header))
	}
	r.Text("code", redact.Text(a.Code))
	if a.Err != nil {
		r.Text("error", showError(a.Err))
	}
	if a.BodyErr != nil {
		r.Text("body_error", showError(a.BodyErr))
	}
	if a.MaybeExecuted {
		r.Add(slog.Bool("maybe_executed", true))
	}
	if !a.Start.IsZero() {
		r.Add(record.Span("elapsed_ms", a.Elapsed))
	}
	r.Span("waited_ms", a.Waited)
	r.Span("retry_after_ms", a.Asked)
	if a.Stop == "" {
		r.Add(record.Span("delay_ms", a.Delay))
	}
	r.Text("stop", string(a.Stop))
	return r
}

// event returns the level and the message of the attempt's line.
func event(a Attempt) (slog.Level, string) {
	switch {
	case a.Class == Success:
		return slog.LevelDebug, "succeeded"
	case a.Stop == "":
		return slog.LevelDebug, "retrying"
	case a.Stop == StopCanceled:
		return slog.LevelDebug, "canceled"
	case a.Number == 0:
		return slog.LevelWarn, "refused"
	case a.Class.Retryable():
		return slog.LevelWarn, "gave up"
	case a.Response == nil || a.Response.StatusCode >= http.StatusInternalServerError:
		return slog.LevelWarn, "failed"
	}
	return slog.LevelDebug, "failed"
}

// outerRetry returns the number of the outer retry that the request is, as the SDKs
// of OpenAI, Anthropic and others count them, or "" if it is none.
func outerRetry(req *http.Request) string {
	n := req.Header.Get("X-Stainless-Retry-Count")
	if n == "0" {
		return ""
	}
	return redact.Text(n[:min(len(n), longestCount)])
}

const longestCount = 10 // bytes
