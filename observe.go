package awsretry

import (
	"cmp"
	"context"
	"hash/maphash"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"example.com/awsretry/internal/redact"
)

// LogTo returns an observer for Transport.Observe or [WithObserver] that logs
// to logger. It is that of a [LogConfig] with only the Logger.
func LogTo(logger *slog.Logger) func(Attempt) { return LogConfig{Logger: logger}.Observer() }

// LogAllTo is like [LogTo], and also logs every other attempt, successful ones
// included, at level debug. awsretry simulate --from makes a scenario of such a
// log, with slog's JSON handler.
func LogAllTo(logger *slog.Logger) func(Attempt) {
	return LogConfig{Logger: logger, All: true}.Observer()
}

// A LogConfig says how attempts are logged. Its [LogConfig.Observer] logs a call
// that fails once at level warn:
//
//   - "gave up": a retryable failure is not retried,
//   - "refused": an attempt was not sent, which has the number 0,
//   - "failed": there was no response, for example because the deadline passed,
//     or a server error that must not be retried.
//
// It logs at level debug a failure that is retried ("retrying") and any other
// response that is a failure ("failed"). It logs no call that its caller
// canceled.
//
// The handler of slog.Default drops level debug unless the program changes its
// level, for example with slog.SetLogLoggerLevel(slog.LevelDebug).
//
// URLs are logged without user, query and fragment. The attribute call is the
// same for the attempts of one call, and another one for calls that are made at
// the same time.
type LogConfig struct {
	// Logger is what is logged to. Nil means what slog.Default returns at the
	// time.
	Logger *slog.Logger

	// All also logs successes and canceled calls, at level debug. If the response
	// announces limits that [ReadLimits] knows, the attribute limits has them, as
	// in "requests 59/60 1s refills, tokens 800/1000 12s refills": the name, what
	// remains of the quota, the reset, and refills if units come back steadily. A
	// retry may wait for a send token before its line is written: late_ms says how
	// long after the attempt's end that is. The first line has the Transport's
	// setting, and the first with another one that.
	All bool

	// EachSecond logs one warning for each partition and second. Its attribute
	// failures counts the warnings that it stands for: itself, and those since
	// the line before, which were left out. If none follows in the next second,
	// an attempt of the partition that is observed later logs their number.
	EachSecond bool

	// OmitPaths logs only the scheme and host of URLs, for services that take
	// secrets in the path.
	OmitPaths bool
}

// Observer returns the observer, which is safe for concurrent use.
func (c LogConfig) Observer() func(Attempt) {
	failures := tally{of: make(map[string]*tallied)}
	var setting atomic.Pointer[string] // that was logged last
	return func(a Attempt) {
		logger := c.Logger
		if logger == nil {
			logger = slog.Default()
		}
		level, message := logEvent(a)
		ctx := context.Background()
		if a.Request != nil {
			ctx = a.Request.Context()
		}
		warns, count := level == slog.LevelWarn, 0
		if c.EachSecond {
			count = failures.take(a.Partition, time.Now().Unix(), warns)
			switch {
			case warns && count == 0:
				return
			case !warns && count > 0:
				logger.LogAttrs(ctx, slog.LevelWarn, "failures before",
					slog.String("partition", redact.Text(a.Partition)), slog.Int("failures", count))
			}
		}
		if quiet := a.Class == Success || a.Stop == StopCanceled; quiet && !c.All || !logger.Enabled(ctx, level) {
			return
		}
		changed := "" // the setting
		if last := setting.Load(); c.All && a.Setting != "" && (last == nil || *last != a.Setting) {
			changed = a.Setting
			now := changed
			setting.Store(&now)
		}
		attrs := c.attrs(a, changed)
		if warns && count > 0 {
			attrs = append(attrs, slog.Int("failures", count))
		}
		logger.LogAttrs(ctx, level, message, attrs...)
	}
}

func logEvent(a Attempt) (slog.Level, string) {
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
	case a.Response == nil || a.Response.StatusCode >= 500:
		return slog.LevelWarn, "failed"
	}
	return slog.LevelDebug, "failed"
}

// callSeed keeps the addresses of requests out of the log.
var callSeed = maphash.MakeSeed()

// attrs returns the attributes of a line. setting is "" if it has not changed.
func (c LogConfig) attrs(a Attempt, setting string) []slog.Attr {
	attrs := make([]slog.Attr, 0, 24)
	showURL, showError := redact.URL, redact.Error
	if c.OmitPaths {
		showURL, showError = redact.Origin, redact.ErrorOrigins
	}
	if a.Request != nil && a.Request.URL != nil {
		attrs = append(attrs, slog.String("method", a.Request.Method), slog.String("url", showURL(a.Request.URL)))
	}
	if a.Partition != "" {
		attrs = append(attrs, slog.String("partition", redact.Text(a.Partition)))
	}
	if a.Request != nil {
		call := strconv.FormatUint(maphash.Comparable(callSeed, a.Request), 16)
		attrs = append(attrs, slog.String("call", call))
	}
	if n := outerRetries(a.Request); n != "" {
		attrs = append(attrs, slog.String("outer_retries", n))
	}
	attrs = append(attrs, slog.Int("attempt", a.Number))
	if a.MaxAttempts > 0 {
		attrs = append(attrs, slog.Int("max_attempts", a.MaxAttempts))
	}
	attrs = append(attrs, slog.String("class", a.Class.String()))
	if a.Offset > 0 {
		attrs = append(attrs, slog.Int64("offset", a.Offset))
	}
	if a.Response != nil {
		attrs = append(attrs, slog.Int("status", a.Response.StatusCode))
		if id := requestID(a.Response.Header); id != "" {
			attrs = append(attrs, slog.String("request_id", id))
		}
	}
	if a.Code != "" {
		attrs = append(attrs, slog.String("code", redact.Text(a.Code)))
	}
	if a.Err != nil {
		attrs = append(attrs, slog.String("error", showError(a.Err)))
	}
	if a.MaybeExecuted {
		attrs = append(attrs, slog.Bool("maybe_executed", true))
	}
	if !a.Start.IsZero() {
		attrs = append(attrs, milliseconds("elapsed_ms", a.Elapsed))
	}
	if a.Waited > 0 {
		attrs = append(attrs, milliseconds("waited_ms", a.Waited))
	}
	if a.Asked > 0 {
		attrs = append(attrs, milliseconds("retry_after_ms", a.Asked))
	}
	if a.Stop == "" {
		attrs = append(attrs, milliseconds("delay_ms", a.Delay))
	} else {
		attrs = append(attrs, slog.String("stop", string(a.Stop)))
	}
	if !c.All {
		return attrs
	}
	if late := time.Since(a.Start) - a.Elapsed; !a.Start.IsZero() && late >= time.Millisecond {
		attrs = append(attrs, milliseconds("late_ms", late))
	}
	if setting != "" {
		attrs = append(attrs, slog.String("setting", setting))
	}
	if limits := ReadLimits(a.Response); len(limits) > 0 {
		attrs = append(attrs, slog.String("limits", limitsText(limits)))
	}
	return attrs
}

// milliseconds returns an attribute with three decimals.
func milliseconds(name string, d time.Duration) slog.Attr {
	return slog.Float64(name, math.Round(float64(d)/1e3)/1e3)
}

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

// A tally counts the failures of each partition since their last line.
type tally struct {
	mu sync.Mutex // guards of and what it points to
	of map[string]*tallied
}

type tallied struct {
	second   int64 // of the last line
	failures int   // since then
}

// mostTallied limits the partitions of a tally. Those beyond count as one.
const mostTallied = 1024

// take counts an attempt that was observed in a second, and returns how many
// failures a line now stands for, or 0 if there is to be none.
func (t *tally) take(partition string, second int64, failed bool) (failures int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.of[partition]
	if e == nil && len(t.of) >= mostTallied {
		partition = ""
		e = t.of[partition]
	}
	switch {
	case e == nil && !failed:
		return 0
	case e == nil:
		e = new(tallied)
		t.of[partition] = e
	}
	if failed {
		e.failures++
	}
	if e.second == second || !failed && second < e.second+2 { // the next second's failure says more
		return 0
	}
	failures, e.failures, e.second = e.failures, 0, second
	if failures == 0 {
		delete(t.of, partition)
	}
	return failures
}
