package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/redact"
)

// A report tells on standard error what happens to one request: to people as a table and a sentence, else in JSON lines.
type report struct {
	process
	transport *awsretry.Transport
	settings  awsretry.Settings
	req       *http.Request
	partition string
	json      *json.Encoder // nil: for people
	printer   *printer
	last      awsretry.Attempt
}

func newReport(p process, t *awsretry.Transport, settings awsretry.Settings, req *http.Request, asJSON bool) *report {
	r := &report{process: p, transport: t, settings: settings, req: req, partition: strings.ToLower(req.URL.Host)}
	if t.Partition != nil {
		r.partition = t.Partition(req)
	}
	if asJSON {
		r.json = newJSON(p.stderr)
		return r
	}
	r.printer = &printer{
		w:        p.stderr,
		palette:  newPalette(p, p.stderr),
		width:    p.tableWidth(p.stderr),
		adaptive: t.Mode == awsretry.Adaptive,
		state:    func() (awsretry.State, bool) { return t.State(r.partition) },
	}
	fmt.Fprintf(p.stderr, "%s\n%s\n\n", r.printer.palette.bold(req.Method+" "+bareURL(req.URL)), r.printer.palette.faint(r.rules()))
	return r
}

// rules are the settings in words.
func (r *report) rules() string {
	text := string(r.settings.Mode) + " mode"
	revised := r.settings.Revision == awsretry.Revision2026 && r.settings.Mode != awsretry.Legacy // which has no revisions
	if revised {
		text += ", 2026 revision"
	}
	switch {
	case r.transport.MaxAttempts == 0 && revised:
		// the service has a say in it
	case r.settings.MaxAttempts == 1:
		text += ", no retries"
	default:
		text += fmt.Sprintf(", up to %d attempts", r.settings.MaxAttempts)
	}
	if r.transport.AttemptTimeout > 0 {
		text += fmt.Sprintf(" of %v", r.transport.AttemptTimeout)
	}
	if r.transport.Partition != nil {
		text += fmt.Sprintf(", partition %q", r.partition)
	}
	return text
}

// observe is called for every attempt.
func (r *report) observe(a awsretry.Attempt) {
	r.last = a
	if r.json == nil {
		r.printer.attempt(a)
		return
	}
	state, _ := r.transport.State(r.partition)
	r.json.Encode(newRecord(a, r.req.URL, state))
}

// answer tells of the answer that goes back.
func (r *report) answer(resp *http.Response, elapsed time.Duration) {
	if r.json != nil {
		return
	}
	text := fmt.Sprint(resp.StatusCode)
	if name := http.StatusText(resp.StatusCode); name != "" {
		text += " " + name
	}
	if r.last.Code != "" {
		text += " (" + oneLine(r.last.Code) + ")"
	}
	text += fmt.Sprintf(" after %s, %s", count(r.last.Number, "attempt"), brief(elapsed))
	if r.last.Class == awsretry.Success {
		r.verdict(true, text, "")
		return
	}
	why := r.reason(r.last)
	if id := requestID(resp); id != "" {
		why += "\nrequest id " + id
	}
	r.verdict(false, text, why)
}

// noAnswer tells that there is none.
func (r *report) noAnswer(err error, elapsed time.Duration) error {
	attempts, cause, stop := 0, err, awsretry.Stop("")
	var e *awsretry.Error
	if errors.As(err, &e) {
		attempts, cause, stop = e.Attempts, e.Err, e.Stop
	}
	var ended *endedError
	why := strings.TrimPrefix(oneLine(redact.Error(cause)), "awsretry: ")
	if errors.As(err, &ended) {
		why = ended.Error()
	}
	after := fmt.Sprintf(" after %s, %s", count(attempts, "attempt"), brief(elapsed))
	switch {
	case r.json != nil:
		if ended != nil || r.last.Err == nil || r.last.Stop != stop { // no attempt's record says it
			r.jsonFault(why)
		}
	case errors.Is(err, errInterrupted):
		r.verdict(false, why+after, "")
	case ended == nil && attempts > 0:
		r.verdict(false, "no answer"+after, why+"\n"+r.reason(awsretry.Attempt{Number: attempts, Stop: stop}))
	default:
		r.verdict(false, "no answer"+after, why)
	}
	return &failure{status: exitFailure}
}

// bodyFault tells what went wrong with the answer's body.
func (r *report) bodyFault(format string, args ...any) error {
	text := oneLine(fmt.Sprintf(format, args...))
	if r.json != nil {
		r.jsonFault(text)
	} else {
		r.verdict(false, text, "")
	}
	return &failure{status: exitFailure}
}

func (r *report) jsonFault(text string) {
	r.json.Encode(struct {
		Error string `json:"error"`
	}{text})
}

// notSaved tells where the body is not, and where it is.
func (r *report) notSaved(path string) {
	if r.json == nil {
		fmt.Fprintf(r.stderr, "  nothing is written to %s, which only a successful 2xx replaces: the body goes to standard output\n", oneLine(path))
	}
}

// saved tells where the body is.
func (r *report) saved(path string, size int64) {
	if r.json == nil {
		fmt.Fprintf(r.stderr, "  %s written to %s\n", count(int(size), "byte"), oneLine(path))
	}
}

func (r *report) verdict(good bool, text, why string) {
	palette := r.printer.palette
	mark := palette.bad("✗")
	if good {
		mark = palette.good("✓")
	}
	if r.printer.begun {
		fmt.Fprintln(r.stderr)
		r.printer.begun = false
	}
	fmt.Fprintf(r.stderr, "%s %s\n", mark, palette.bold(text))
	for line := range strings.Lines(why) {
		fmt.Fprintf(r.stderr, "  %s\n", strings.TrimSuffix(line, "\n"))
	}
}

// reason says why no attempt followed, and what could be done about it.
func (r *report) reason(a awsretry.Attempt) string {
	switch a.Stop {
	case awsretry.StopPermanent:
		return "another attempt would fail as well: the request, or what it asks for, has to change"
	case awsretry.StopMaxAttempts:
		if a.Number == 1 {
			return "no retry is allowed (--max-attempts 1)"
		}
		return "all attempts are used up (see --max-attempts)"
	case awsretry.StopQuota:
		return "the retry token bucket holds too few tokens for another retry (see --quota)"
	case awsretry.StopDeadline:
		return "the next pause would outlast --timeout"
	case awsretry.StopCanceled:
		return "the request was ended"
	case awsretry.StopBody:
		return "the body cannot be sent again: standard input is kept up to 1 MiB; -d @FILE has no such limit"
	case awsretry.StopRetryAfter:
		return "the service asks for a longer pause than --max-retry-after allows"
	case awsretry.StopRateLimit:
		return "the rate limiter has no send token (--fail-fast)"
	case awsretry.StopOuterRetry:
		return "its Amz-Sdk-Request header says that an AWS SDK retries it"
	}
	return string(a.Stop)
}

// A bodyReader marks the errors of a body, which else could be taken for those of writing it.
type bodyReader struct{ io.Reader }

func (b bodyReader) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = &bodyError{err}
	}
	return n, err
}

type bodyError struct{ error }

func (e *bodyError) Unwrap() error { return e.error }

// A lastByte remembers whether a terminal's cursor stands behind text.
type lastByte struct {
	io.Writer
	last byte
}

func (w *lastByte) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if n > 0 {
		w.last = p[n-1]
	}
	return n, err
}
