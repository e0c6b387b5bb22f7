package awsretry

import (
	"cmp"
	"context"
	"hash/maphash"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"example.com/awsretry/internal/record"
	"example.com/awsretry/internal/redact"
)

// LogTo returns an observer for Transport.Observe or [WithObserver] that logs
// failures to logger. Nil means what slog.Default returns at the time. A call that
// fails is logged once at level warn:
//
//   - "gave up": a retryable failure is not retried,
//   - "refused": an attempt was not sent, which has the number 0,
//   - "failed": there was no response, for example because the deadline passed,
//     or a server error that must not be retried.
//
// A failure that is retried ("retrying") and any other response that is a failure
// ("failed") are logged at level debug. A call that its caller canceled is not
// logged.
//
// The handler of slog.Default drops level debug unless the program changes its
// level, for example with slog.SetLogLoggerLevel(slog.LevelDebug).
//
// URLs are logged without user, query and fragment. The attribute call is the
// same for all attempts of one call, and different for calls that are made at the
// same time. Package retrylog can also log successes, fewer warnings in an outage,
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
		a.Record(record.Options{}).Log(ctx, to)
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
	r := record.Record{
		Partition: redact.Text(a.Partition), OuterRetries: outerRetries(a.Request), Attempt: a.Number, MaxAttempts: a.MaxAttempts,
		Class: a.Class.String(), Retryable: a.Class.Retryable(), Offset: a.Offset, Code: redact.Text(a.Code),
		MaybeExecuted: a.MaybeExecuted, Waited: record.Span(a.Waited), RetryAfter: record.Span(a.Asked), Stop: string(a.Stop),
	}
	if a.Request != nil {
		r.Call = strconv.FormatUint(maphash.Comparable(callSeed, a.Request), 16)
		if a.Request.URL != nil {
			r.Method, r.URL = a.Request.Method, showURL(a.Request.URL)
		}
	}
	if a.Response != nil {
		r.Status, r.RequestID = a.Response.StatusCode, requestID(a.Response.Header)
	}
	if a.Err != nil {
		r.Error = showError(a.Err)
	}
	if !a.Start.IsZero() {
		elapsed := record.Span(a.Elapsed)
		r.Elapsed = &elapsed
	}
	if a.Stop == "" {
		delay := record.Span(a.Delay)
		r.Delay = &delay
	}
	return r
}

// outerRetries returns which retry of the caller's own the request is, as the SDKs
// of OpenAI, Anthropic and others say it, or "" if it is none.
func outerRetries(req *http.Request) string {
	if req == nil {
		return ""
	}
	n := req.Header.Get("X-Stainless-Retry-Count")
	if n == "0" {
		return ""
	}
	return redact.Text(n[:min(len(n), longestCount)])
}

const longestCount = 10 // bytes

// longestID limits a request ID in the log.
const longestID = 200

// requestID returns the ID that the service gave the request, or "".
func requestID(h http.Header) string {
	id := cmp.Or(h.Get("X-Amzn-Requestid"), h.Get("X-Amz-Request-Id"), h.Get("X-Request-Id"))
	return redact.Text(id[:min(len(id), longestID)])
}

// setting returns Attempt.Setting.
func (t *Transport) setting() string {
	name := string(cmp.Or(t.Mode, Standard))
	switch {
	case t.Mode == Adaptive && t.Shared != nil:
		name = "fleet"
	case name == string(Standard) && t.Revision == Revision2026:
		name = "revision2026"
	}
	if t.Mode == Adaptive && t.RateLimit.Pacing == ScaledPacing {
		name += "=" + ScaledPacing.String()
	}
	quota, pacing := t.Quota, t.RateLimit
	const simulated = 0.2 // of Quota.Share, in awsretry simulate
	if quota.Share == simulated {
		quota.Share = 0
	}
	pacing.Pacing, pacing.Limits, pacing.Cost = 0, nil, nil
	for _, option := range []struct {
		on   bool
		name string
	}{
		{t.RateLimit.Limits != nil, "limits"}, {t.Quota.Share == simulated, "share"}, {t.ShareRetryAfter, "share_retry_after"},
		{t.RetryAfterSpread < 0, "no_spread"}, {t.Resume, "resume"},
	} {
		if option.on {
			name += "+" + option.name
		}
	}
	var own []string
	for _, field := range []struct {
		set  bool
		name string
	}{
		{t.Policy != nil, "Policy"}, {t.Backoff != nil, "Backoff"}, {t.MaxRetryAfter != 0, "MaxRetryAfter"},
		{t.RetryAfterSpread > 0, "RetryAfterSpread"}, {t.RetryAfter != nil, "RetryAfter"}, {t.LongPoll != nil, "LongPoll"},
		{quota != QuotaConfig{}, "Quota"}, {!pacing.zero(), "RateLimit"},
	} {
		if field.set {
			own = append(own, field.name)
		}
	}
	if len(own) > 0 {
		name += " (" + strings.Join(own, ", ") + ")"
	}
	return name
}
