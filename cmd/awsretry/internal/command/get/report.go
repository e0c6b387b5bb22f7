package get

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"example.com/awsretry"
	"example.com/awsretry/cmd/awsretry/internal/attempts"
	"example.com/awsretry/cmd/awsretry/internal/exit"
	"example.com/awsretry/cmd/awsretry/internal/format"
	"example.com/awsretry/cmd/awsretry/internal/iostreams"
	"example.com/awsretry/cmd/awsretry/internal/screen"
	"example.com/awsretry/cmd/awsretry/internal/style"
	"example.com/awsretry/internal/redact"
)

// A report prints on standard error what happens to one request: for people a
// table and a verdict, else lines of JSON.
type report struct {
	iostreams.Streams
	transport *awsretry.Transport
	settings  awsretry.Settings
	req       *http.Request
	partition string
	json      *json.Encoder // nil: for people
	palette   style.Palette
	table     *attempts.Table // nil: JSON
	judged    bool            // a verdict has been printed
	last      awsretry.Attempt
}

func newReport(s iostreams.Streams, t *awsretry.Transport, settings awsretry.Settings, req *http.Request,
	asJSON bool) *report {
	r := &report{Streams: s, transport: t, settings: settings, req: req, partition: strings.ToLower(req.URL.Host)}
	if t.Partition != nil {
		r.partition = t.Partition(req)
	}
	if asJSON {
		r.json = screen.NewEncoder(s.Err)
		return r
	}
	r.palette = style.New(s, s.Err)
	r.table = &attempts.Table{
		W:        s.Err,
		Palette:  r.palette,
		Width:    s.TableWidth(s.Err),
		Adaptive: t.Mode == awsretry.Adaptive,
		State:    func() (awsretry.State, bool) { return t.State(r.partition) },
	}
	fmt.Fprintf(s.Err, "%s\n%s\n\n", r.palette.Bold(req.Method+" "+screen.URL(req.URL)), r.palette.Faint(r.rules()))
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
	if r.transport.Partition != nil {
		text += fmt.Sprintf(", partition %q", r.partition)
	}
	return text
}

// observe reports an attempt.
func (r *report) observe(a awsretry.Attempt) {
	r.last = a
	if r.json == nil {
		r.table.Row(a)
		return
	}
	state, _ := r.transport.State(r.partition)
	r.json.Encode(newRecord(a, r.req.URL, state))
}

// response reports the response of the last attempt.
func (r *report) response(resp *http.Response, elapsed time.Duration) {
	if r.json != nil {
		return
	}
	text := fmt.Sprint(resp.StatusCode)
	if name := http.StatusText(resp.StatusCode); name != "" {
		text += " " + name
	}
	if r.last.Code != "" {
		text += " (" + screen.OneLine(r.last.Code) + ")"
	}
	text += after(r.last.Number, elapsed)
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

// noResponse reports that no attempt had a response.
func (r *report) noResponse(err error, elapsed time.Duration) error {
	number, cause, stop := 0, err, awsretry.Stop("")
	var e *awsretry.Error
	if errors.As(err, &e) {
		number, cause, stop = e.Attempts, e.Err, e.Stop
	}
	why := screen.OneLine(screen.WithoutPackages(redact.Error(cause)))
	ended, isEnded := asEnded(err)
	if isEnded {
		why = ended.Error()
	}
	switch {
	case r.json != nil:
		if isEnded || r.last.Err == nil || r.last.Stop != stop { // the record of the last attempt does not say it
			r.jsonFault(why)
		}
	case errors.Is(err, exit.ErrInterrupted):
		r.verdict(false, why+after(number, elapsed), "")
	case !isEnded && number > 0:
		r.verdict(false, "no response"+after(number, elapsed),
			why+"\n"+r.reason(awsretry.Attempt{Number: number, Stop: stop}))
	default:
		r.verdict(false, "no response"+after(number, elapsed), why)
	}
	return exit.Reported(exit.Failure)
}

func after(number int, elapsed time.Duration) string {
	return fmt.Sprintf(" after %s, %s", english.Plural(number, "attempt", ""), format.Duration(elapsed))
}

// bodyFault reports what went wrong with the response body.
func (r *report) bodyFault(format string, args ...any) error {
	text := screen.OneLine(fmt.Sprintf(format, args...))
	if r.json != nil {
		r.jsonFault(text)
	} else {
		r.verdict(false, text, "")
	}
	return exit.Reported(exit.Failure)
}

func (r *report) jsonFault(text string) {
	r.json.Encode(struct {
		Error string `json:"error"`
	}{text})
}

// notSaved reports that the body is not in the file, and where it is.
func (r *report) notSaved(path string) {
	if r.json == nil {
		fmt.Fprintf(r.Err,
			"  nothing is written to %s, which only a successful 2xx replaces: the body goes to standard output\n",
			screen.OneLine(path))
	}
}

// saved reports that the body is in the file.
func (r *report) saved(path string, size int64) {
	if r.json == nil {
		fmt.Fprintf(r.Err, "  %s written to %s\n", english.Plural(int(size), "byte", ""), screen.OneLine(path))
	}
}

func (r *report) verdict(good bool, text, why string) {
	mark := r.palette.Bad("✗")
	if good {
		mark = r.palette.Good("✓")
	}
	if r.table.Begun() && !r.judged {
		fmt.Fprintln(r.Err)
	}
	r.judged = true
	fmt.Fprintf(r.Err, "%s %s\n", mark, r.palette.Bold(text))
	for line := range strings.Lines(why) {
		fmt.Fprintf(r.Err, "  %s\n", strings.TrimSuffix(line, "\n"))
	}
}

// reason returns why no attempt followed, and what the user can do about it.
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
		return "the retry token bucket has too few tokens for another retry (see --quota)"
	case awsretry.StopDeadline:
		return "the next delay would outlast --timeout"
	case awsretry.StopCanceled:
		return "the request was canceled"
	case awsretry.StopBody:
		return "the body cannot be sent again: of standard input, 1 MiB is buffered; -d @FILE has no such limit"
	case awsretry.StopRetryAfter:
		return "the service asks for a longer delay than --max-retry-after allows"
	case awsretry.StopRateLimit:
		return "the rate limiter has no send token (--fail-fast)"
	case awsretry.StopOuterRetry:
		return "its Amz-Sdk-Request header says that an AWS SDK retries it"
	}
	return string(a.Stop)
}
