package get

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"example.com/awsretry"
	"example.com/awsretry/cmd/internal/attempts"
	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/printer"
	"example.com/awsretry/cmd/internal/term"
	"example.com/awsretry/internal/redact"
)

// A report prints on standard error what happens to one request: a table and a
// verdict, or lines of JSON.
type report struct {
	*printer.Printer
	transport *awsretry.Transport
	settings  awsretry.Settings
	partition string
	observed  func(awsretry.Attempt) // prints an attempt
	table     *attempts.Table        // nil: JSON
	judged    bool                   // a verdict has been printed
	start     time.Time
	made      int // attempts
	last      awsretry.Attempt
}

func newReport(s term.Streams, t *awsretry.Transport, settings awsretry.Settings, req *http.Request,
	asJSON bool) *report {
	r := &report{Printer: printer.New(s, s.Err, asJSON, nil), transport: t, settings: settings,
		partition: strings.ToLower(req.URL.Host), start: time.Now()}
	if asJSON {
		r.observed = attempts.JSON(s.Err, r.more)
		return r
	}
	r.table = &attempts.Table{
		W:        s.Err,
		Palette:  r.Palette,
		Width:    s.TableWidth(s.Err),
		Adaptive: t.Mode == awsretry.Adaptive,
		State:    func() (awsretry.State, bool) { return t.State(r.partition) },
	}
	r.observed = r.table.Row
	r.Begin(req.Method+" "+term.URL(req.URL), r.rules())
	return r
}

// rules returns the settings in words.
func (r *report) rules() string {
	text := string(r.settings.Mode) + " mode"
	if pacing := r.transport.RateLimit.Pacing; pacing != awsretry.CubicPacing {
		text += fmt.Sprintf(", %v pacing", pacing)
	}
	// Legacy mode has no revisions.
	revised := r.settings.Revision == awsretry.Revision2026 && r.settings.Mode != awsretry.Legacy
	if revised {
		text += ", 2026 revision"
	}
	switch {
	case r.transport.MaxAttempts == 0 && revised:
		// the number depends on the service
	case r.settings.MaxAttempts == 1:
		text += ", no retries"
	default:
		text += fmt.Sprintf(", up to %d attempts", r.settings.MaxAttempts)
	}
	if r.transport.AttemptTimeout > 0 {
		text += fmt.Sprintf(" of %v", r.transport.AttemptTimeout)
	}
	return text
}

// observe reports an attempt.
func (r *report) observe(a awsretry.Attempt) {
	r.last = a
	r.made++
	r.observed(a)
}

// more returns what the line of an attempt has in addition to its record.
func (r *report) more(a awsretry.Attempt) (attrs []slog.Attr) {
	if a.Response != nil {
		if to := attempts.Location(a.Response); to != "" {
			attrs = append(attrs, slog.String("location", to))
		}
	}
	state, known := r.transport.State(r.partition)
	if known && state.Tokens != math.MaxInt {
		attrs = append(attrs, slog.Int("tokens", state.Tokens))
	}
	if state.Limited {
		attrs = append(attrs, slog.Float64("send_rate_per_second", state.SendRate))
	}
	return attrs
}

// broke reports that the body broke off at an offset. total is the length of the
// body, or -1 if that is unknown.
func (r *report) broke(offset, total int64, err error) {
	why := term.OneLine(redact.Error(err))
	if r.Object(map[string]any{"break": why, "offset": offset}) {
		return
	}
	at := humanize.Bytes(uint64(offset))
	if total >= 0 {
		at += " of " + humanize.Bytes(uint64(total))
	}
	fmt.Fprintf(r.Err, "     %s\n", r.Palette.Warn("broke off at "+at+": "+why))
}

// response reports the response, and how many attempts it took.
func (r *report) response(resp *http.Response) {
	if r.JSON != nil {
		return
	}
	text := fmt.Sprint(resp.StatusCode)
	if name := http.StatusText(resp.StatusCode); name != "" {
		text += " " + name
	}
	if r.last.Code != "" {
		text += " (" + term.OneLine(r.last.Code) + ")"
	}
	text += r.after(r.made)
	if r.last.Class == awsretry.Success {
		why := ""
		if to := attempts.Location(resp); to != "" {
			why = "a redirect to " + to + ", which get does not follow"
		}
		r.verdict(true, text, why)
		return
	}
	why := r.reason(r.last)
	if id := attempts.RequestID(resp); id != "" {
		why += "\nrequest id " + id
	}
	r.verdict(false, text, why)
}

// noResponse reports that no attempt had a response.
func (r *report) noResponse(err error) error {
	number, cause, stop := 0, err, awsretry.Stop("")
	var e *awsretry.Error
	if errors.As(err, &e) {
		number, cause, stop = e.Attempts, e.Err, e.Stop
	}
	why := term.OneLine(term.WithoutPackages(redact.Error(cause)))
	ended, isEnded := asEnded(err)
	if isEnded {
		why = ended.Error()
	}
	switch {
	case r.JSON != nil:
		if isEnded || r.last.Err == nil || r.last.Stop != stop { // the record of the last attempt does not say it
			r.Object(map[string]any{"error": why})
		}
	case errors.Is(err, cli.ErrInterrupted):
		r.verdict(false, why+r.after(number), "")
	case !isEnded && number > 0:
		last := awsretry.Attempt{Request: r.last.Request, Number: number, Err: cause, Stop: stop}
		r.verdict(false, "no response"+r.after(number), why+"\n"+r.reason(last))
	default:
		r.verdict(false, "no response"+r.after(number), why)
	}
	return cli.Reported(cli.Failure)
}

func (r *report) after(number int) string {
	return fmt.Sprintf(" after %s, %s", english.Plural(number, "attempt", ""), term.Duration(time.Since(r.start)))
}

// brokenBody returns why a body broke off, and why no attempt continues it.
func (r *report) brokenBody(err error) (why string, cause error) {
	var e *awsretry.Error
	if _, isEnded := asEnded(err); isEnded || !errors.As(err, &e) {
		return "", err
	}
	cause = errors.Unwrap(e.Err) // without the number of bytes
	if cause == nil {
		cause = e.Err
	}
	switch {
	case e.Stop != awsretry.StopPermanent:
		why = r.reason(awsretry.Attempt{Number: e.Attempts, Stop: e.Stop})
	case r.last.Class.Retryable(): // the response that was not the rest is the last of several
		why = r.reason(r.last)
	}
	return why, errors.New(redact.Error(cause))
}

// bodyFault reports what went wrong with the response body, and why, if that is
// known, no attempt continues it.
func (r *report) bodyFault(why, format string, args ...any) error {
	text := term.OneLine(fmt.Sprintf(format, args...))
	if !r.Object(map[string]any{"error": text}) {
		r.verdict(false, text, why)
	}
	return cli.Reported(cli.Failure)
}

// notSaved reports that the body is not in the file, and where it is.
func (r *report) notSaved(path string) {
	if r.JSON == nil {
		fmt.Fprintf(r.Err,
			"  nothing is written to %s, which only a successful 2xx replaces: the body goes to standard output\n",
			term.OneLine(path))
	}
}

// complete reports the size of the body, the file that has it, "" for standard
// output, and what d has seen. Without a file and a d it reports nothing.
func (r *report) complete(path string, size int64, d *download) {
	text := english.Plural(int(size), "byte", "")
	if path != "" {
		text += " written to " + term.OneLine(path)
	}
	if d != nil {
		if r.Object(map[string]any{"bytes": size, "breaks": d.breaks}) {
			return
		}
		text += ", " + english.Plural(d.breaks, "break", "")
	}
	if r.JSON == nil && (path != "" || d != nil) {
		fmt.Fprintf(r.Err, "  %s\n", text)
	}
}

func (r *report) verdict(good bool, text, why string) {
	if r.table.Begun() && !r.judged {
		fmt.Fprintln(r.Err)
	}
	r.judged = true
	r.Conclude(good, text, why)
}

// reason returns why no attempt followed, and what the user can do about it.
func (r *report) reason(a awsretry.Attempt) string {
	switch {
	case a.Stop == awsretry.StopMaxAttempts && a.Number == 1:
		return "no retry is allowed (--max-attempts 1)"
	case a.Stop == awsretry.StopPermanent && awsretry.DefaultPolicy(&a).Retryable():
		return "the service may have executed the request, which is not safe to send twice without an Idempotency-Key " +
			"(--idempotent-only)"
	}
	return cmp.Or(reasons[a.Stop], string(a.Stop))
}

var reasons = map[awsretry.Stop]string{
	awsretry.StopPermanent:   "another attempt would fail as well: the request, or what it asks for, has to change",
	awsretry.StopMaxAttempts: "all attempts are used up (see --max-attempts)",
	awsretry.StopQuota:       "the retry token bucket has too few tokens for another retry",
	awsretry.StopDeadline:    "--timeout has passed, or would before the next attempt",
	awsretry.StopCanceled:    "the request was canceled",
	awsretry.StopBody:        "the body cannot be sent again: of standard input, 1 MiB is buffered; -d @FILE has no such limit",
	awsretry.StopRetryAfter:  "the service asks for a longer delay than --max-retry-after allows",
	awsretry.StopRateLimit:   "the rate limiter has no send token",
	awsretry.StopOuterRetry:  "its Amz-Sdk-Request header says that an AWS SDK retries it",
}
