package get

import (
	"io"
	"net/http"
	"time"

	"github.com/schollz/progressbar/v3"

	"example.com/awsretry"
	"example.com/awsretry/cmd/internal/printer"
	"example.com/awsretry/internal/byterange"
)

// A download follows a response body that is continued when it breaks off. All of
// it runs in the goroutine that reads the body. A nil download does nothing.
type download struct {
	report  *report
	reading bool  // the last attempt was a success: the next one continues its body
	total   int64 // bytes of the body; -1: unknown, or a part of the object
	breaks  int
	bar     *progressbar.ProgressBar // nil: none
}

// follow makes the Transport continue a body, and the download see it break off.
func follow(t *awsretry.Transport, r *report) *download {
	d := &download{report: r, total: -1}
	t.Resume = true
	policy := t.Policy
	if policy == nil {
		policy = awsretry.DefaultPolicy
	}
	t.Policy = func(a *awsretry.Attempt) awsretry.Class {
		class := policy(a)
		d.classified(a, class)
		return class
	}
	return d
}

// classified detects that the body broke off: no observer sees it, but it is
// classified as the failure of an attempt that was a success before.
func (d *download) classified(a *awsretry.Attempt, class awsretry.Class) {
	if d.reading && a.Err != nil {
		d.breaks++
		d.clear()
		d.report.broke(a.Offset, d.total, a.Err)
	}
	d.reading = class == awsretry.Success
}

// observe reports an attempt.
func (d *download) observe(a awsretry.Attempt) {
	d.clear()
	d.report.observe(a)
}

// body returns the body of the response. Its Reads draw a bar if toFile and
// standard error is a terminal.
func (d *download) body(resp *http.Response, toFile bool) io.Reader {
	if d == nil {
		return resp.Body
	}
	if resp.StatusCode == http.StatusOK {
		d.total = resp.ContentLength
	}
	r := d.report
	if !toFile || r.JSON != nil || resp.ContentLength == 0 || !r.IsTerminal(r.Err) || r.Getenv("TERM") == "dumb" {
		return resp.Body
	}
	d.bar = printer.NewBar(r.Err, resp.ContentLength,
		progressbar.OptionShowBytes(true),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetElapsedTime(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetSpinnerChangeInterval(0), // otherwise a goroutine draws the bar of an unknown length
	)
	d.bar.RenderBlank()
	return io.TeeReader(resp.Body, quiet{d.bar})
}

// A quiet writer drops its errors: a terminal that was closed does not end a
// download.
type quiet struct{ io.Writer }

func (q quiet) Write(p []byte) (int, error) {
	_, _ = q.Writer.Write(p)
	return len(p), nil
}

// clear removes the bar, which the next Read draws again.
func (d *download) clear() {
	if d != nil && d.bar != nil {
		d.bar.Clear()
	}
}

// whyNotContinued returns why the body of resp is not continued if it breaks
// off, "" if it is.
func (d *download) whyNotContinued(resp *http.Response) string {
	switch {
	case resp.ContentLength == 0:
		return ""
	case d.report.settings.MaxAttempts == 1:
		return "no retry is allowed (--max-attempts 1)"
	}
	_, why := byterange.Resumable(resp.Request, resp)
	return why
}
