package letters

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"example.com/awsretry"
	"example.com/awsretry/cmd/internal/attempts"
	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/printer"
	"example.com/awsretry/cmd/internal/term"
	"example.com/awsretry/delivery/letters"
)

// A report prints a line for each letter on standard output, and on a terminal
// a progress bar below the lines.
type report struct {
	*printer.Printer
	dir     string
	letters int // to send
	number  int // of the letter, from 1
	faults  int
}

func newReport(s term.Streams, asJSON bool, dir string, letters int, stop context.CancelCauseFunc) *report {
	r := &report{Printer: printer.New(s, s.Out, asJSON, reportColumns), dir: dir, letters: letters}
	if r.Stop = stop; letters > 0 {
		r.AddBar(letters)
	}
	return r
}

// reportColumns are wide enough for any letter, because a line is printed as soon
// as its letter was sent.
var reportColumns = []term.Column{
	{Title: "#", Width: 4, Right: true, Spare: 1},
	{Title: "METHOD", Width: 6, Spare: 2},
	{Title: "STATUS", Width: 7},
	{Title: "ATTEMPTS", Width: 8, Right: true, Spare: 3},
	{Title: "TIME", Width: 8, Right: true, Spare: 4},
	{Title: "RESULT", Width: len("delivered")},
	{Title: "NAME", Width: nameWidth},
	{Title: "URL"},
}

// begin prints what will be sent, and how.
func (r *report) begin(how string) {
	if r.JSON == nil && r.letters > 0 {
		r.Do(func() {
			r.Begin(printer.Plural(r.letters, "dead letter", "")+" in "+term.OneLine(r.dir), how)
			r.Header()
		})
	}
}

// attempt shows in the bar what the report is waiting for.
func (r *report) attempt(a awsretry.Attempt) {
	if r.Bar != nil && a.Stop == "" {
		r.Do(func() {
			r.Bar.Describe(fmt.Sprintf("%s, attempt %d in %s", attempts.Status(a), a.Number+1, term.Duration(a.Delay)))
		})
	}
}

// stopping prints why the run does not stop at once.
func (r *report) stopping() {
	r.Stopping("The attempt in progress ends on its own; Ctrl-C again stops at once.")
}

// letter reports the outcome of a letter. sent is nil if it was not sent.
func (r *report) letter(result letters.Record, sent *sending) {
	fault := isFault(result, sent)
	r.Do(func() {
		if fault {
			r.faults++
		}
		if r.Object(newRecord(result, sent)) {
			return
		}
		if fault {
			r.Fault(term.OneLine(filepath.Join(r.dir, result.Letter.Name)) + ": " + errorText(result.Err))
		}
		if result.Result == letters.Broken {
			return
		}
		r.number++
		r.row(result, sent)
		if r.Bar != nil {
			r.Bar.Describe("")
			if r.number <= r.letters { // letters may have come after the count
				r.Bar.Add(1)
			}
		}
	})
}

func (r *report) row(result letters.Record, sent *sending) {
	status, number, elapsed, detail := "-", "-", "-", ""
	if sent != nil {
		number, elapsed = strconv.Itoa(sent.last.Number), term.Duration(sent.elapsed)
		detail = sent.err
		if sent.last.Number > 0 {
			status = attempts.Status(sent.last)
			detail = attempts.Details(sent.last)
		}
	}
	address := withoutSecrets(result.Letter.URL)
	if detail != "" && result.Result != letters.Delivered {
		address += "  " + term.OneLine(detail)
	}
	color := r.Palette.Bad
	switch result.Result {
	case letters.Delivered:
		color = r.Palette.Good
	case letters.Unsent, letters.Busy:
		color = r.Palette.Warn
	}
	r.Table.Row(
		strconv.Itoa(r.number),
		term.OneLine(result.Letter.Method),
		status,
		number,
		elapsed,
		color(string(result.Result)),
		term.OneLine(result.Letter.Name),
		address,
	)
}

// end reports the outcome of all letters, and returns the error with the exit
// status.
func (r *report) end(ctx context.Context, done letters.Counts, err error) error {
	interrupted := ctx.Err() != nil && errors.Is(err, context.Cause(ctx))
	tooMany := errors.Is(err, letters.ErrMaxFailures)
	if err != nil && !interrupted && !tooMany && done == (letters.Counts{}) {
		// The error is the folder's. The letters' errors have been reported.
		r.faults++
		r.Do(func() { r.Fault(errorText(err)) })
	}
	status := 0
	switch {
	case interrupted || r.faults > 0:
		status = cli.Failure
	case done.Kept+done.Busy > 0:
		status = cli.HTTPError
	}
	verdict := r.verdict(done, interrupted, tooMany)
	return r.End(struct {
		Delivered   int  `json:"delivered"`
		Kept        int  `json:"kept"`
		Broken      int  `json:"broken"`
		Busy        int  `json:"busy"`
		Unsent      int  `json:"unsent,omitempty"`   // by a dry run
		TooMany     bool `json:"too_many,omitempty"` // failures in a row
		Interrupted bool `json:"interrupted"`
	}{done.Delivered, done.Kept, done.Broken, done.Busy, done.Unsent, tooMany, interrupted}, func() {
		switch {
		case r.letters > 0:
			fmt.Fprintln(r.Out)
		case done == (letters.Counts{}) && r.faults == 0:
			fmt.Fprintln(r.Out, noLetters(r.dir))
			return
		}
		r.Conclude(status == 0, verdict, "")
	}, verdict, status)
}

// verdict returns the outcome of all letters on a line.
func (r *report) verdict(done letters.Counts, interrupted, tooMany bool) string {
	text := printer.Grouped(done.Delivered) + " delivered"
	if done.Unsent > 0 {
		text = "dry run: " + printer.Grouped(done.Unsent) + " would be sent"
	}
	for _, part := range []struct {
		n    int
		text string
	}{
		{done.Kept, "kept"},
		{done.Busy, "left to another redrive"},
		{done.Broken, "not a dead letter"},
	} {
		if part.n > 0 {
			text += ", " + printer.Grouped(part.n) + " " + part.text
		}
	}
	switch {
	case interrupted:
		text = "interrupted: " + text
	case tooMany:
		text = "too many failures in a row: " + text
	default:
		return text
	}
	if rest := r.letters - done.Delivered - done.Kept - done.Busy - done.Unsent; rest > 0 {
		text += ", " + printer.Grouped(rest) + " not sent"
	}
	return text
}
