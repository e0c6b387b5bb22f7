package get

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/dustin/go-humanize/english"

	"example.com/awsretry"
	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/files"
	"example.com/awsretry/cmd/internal/term"
)

// writeBody writes the body of the response, and returns the error with the exit
// status of the request. With a download, the report on a good response follows its
// body.
func (c *command) writeBody(ctx context.Context, resp *http.Response, out *files.Output, report *report,
	d *download, ended ending) error {
	success := report.last.Class == awsretry.Success
	good := success && resp.StatusCode/100 == 2
	if !good { // it is not continued
		d = nil
	}
	if d == nil {
		report.response(resp)
	} else if why := d.whyNotContinued(resp); why != "" {
		c.warn("if the body breaks off, it is not continued: " + why)
	}
	if !good && out.IsReplaced() {
		out.Abandon()
		out = files.Stdout(c.Out)
		report.notSaved(c.output.Value)
	}
	size, err := c.copyBody(ctx, resp, out, d)
	d.clear()
	var cut *bodyError
	without := ""
	if out.IsReplaced() {
		without = ", and nothing was written to " + c.output.Value
	}
	if err != nil {
		out.Abandon()
	} else {
		err = out.Keep()
	}
	var left *files.LeftError
	switch {
	case errors.As(err, &cut):
		why, cause := report.brokenBody(ended.explain(cut.error))
		return report.bodyFault(why, "the body was cut off after %s%s: %v",
			english.Plural(int(size), "byte", ""), without, cause)
	case errors.As(err, &left):
		return report.bodyFault("", "%s could not be replaced: %v", c.output.Value, left)
	case err != nil:
		return report.bodyFault("", "the body could not be written%s: %v", without, ended.explain(err))
	}
	if !success {
		return cli.Reported(cli.HTTPError)
	}
	if d != nil {
		report.response(resp)
	}
	file := ""
	if !out.IsStdout() {
		file = c.output.Value
	}
	report.complete(file, size, d)
	return nil
}

// copyBody copies the body and returns its length. On a terminal, empty lines
// separate it from the report.
func (c *command) copyBody(ctx context.Context, resp *http.Response, out *files.Output, d *download) (int64, error) {
	body := bodyReader{d.body(resp, !out.IsStdout() && !c.IsTerminal(out.Writer))}
	var w io.Writer = out
	if !out.IsReplaced() { // the write may wait for the reader of a pipe
		w = files.NewWriter(ctx, w)
	}
	if !c.IsTerminal(out.Writer) {
		return io.Copy(w, body)
	}
	separated := out.IsStdout() && c.IsTerminal(c.Err)
	if separated && resp.ContentLength != 0 {
		fmt.Fprintln(c.Err)
	}
	last := &lastByte{Writer: w, last: '\n'}
	screen := term.NewWriter(last)
	size, err := io.Copy(screen, body)
	err = errors.Join(err, screen.Close())
	if separated && last.last != '\n' {
		fmt.Fprintln(c.Err)
	}
	return size, err
}

// A bodyReader marks the errors of reading a body, which otherwise could be
// mistaken for those of writing it.
type bodyReader struct{ io.Reader }

func (b bodyReader) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = &bodyError{err}
	}
	return n, err
}

type bodyError struct{ error }

// A lastByte records the last byte that was written.
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
