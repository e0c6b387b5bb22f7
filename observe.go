package awsretry

import (
	"context"
	"hash/maphash"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"

	"example.com/awsretry/internal/record"
	"example.com/awsretry/internal/redact"
)

// LogTo returns an observer for Transport.Observe or [WithObserver] that logs
// failures to logger. Nil means what slog.Default returns at the time. A call is
// logged once at level warn, if a retryable failure is not retried ("gave up"), an
// attempt was not sent ("refused"), or there was no response or a server error that
// must not be retried ("failed"). Retries and other failures, such as a 404, are
// logged at level debug, and a call that its caller canceled is not. URLs are logged
// without user, query and fragment. See docs/OBSERVE.md for the attributes, and
// package retrylog for successes and fewer warnings.
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
	r.Level, r.Message = event(a)
	a.identify(&r, showURL)
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

// identify adds the request to r, its call, and the number of the attempt.
func (a Attempt) identify(r *record.Record, showURL func(*url.URL) string) {
	first, earlier := firstOf(a.Request)
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
