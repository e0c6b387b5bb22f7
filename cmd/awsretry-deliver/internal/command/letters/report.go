package letters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/schollz/progressbar/v3"

	"example.com/awsretry"
	"example.com/awsretry/cmd/internal/attempts"
	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/term"
	"example.com/awsretry/delivery/letters"
)

// A report prints a line for each letter on standard output, and on a terminal
// a progress bar below the lines.
type report struct {
	term.Streams
	dir     string
	letters int // to send
	out     *term.ErrWriter
	json    *json.Encoder // nil: for people
	palette term.Palette
	table   term.Table
	stop    context.CancelCauseFunc // ends the run

	mu     sync.Mutex               // guards the fields below and the output: an interruption may come at any time
	bar    *progressbar.ProgressBar // nil: none
	number int                      // of the letter, from 1
	faults int
}

func newReport(s term.Streams, asJSON bool, dir string, letters int, stop context.CancelCauseFunc) *report {
	r := &report{
		Streams: s,
		dir:     dir,
		letters: letters,
		out:     &term.ErrWriter{Writer: s.Out},
		palette: term.NewPalette(s, s.Out),
		stop:    stop,
	}
	r.table = term.Table{W: r.out, Width: s.TableWidth(s.Out), Columns: reportColumns}
	if asJSON {
		r.json = term.NewEncoder(r.out)
		return r
	}
	if letters > 0 && s.IsTerminal(s.Err) && s.Getenv("TERM") != "dumb" {
		r.bar = term.NewBar(s.Err, int64(letters))
	}
	return r
}

// reportColumns are wide enough for any letter: a line is printed as soon as
// its letter was sent.
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

// errOutputClosed stops the run: the reader of the report has seen enough.
var errOutputClosed = errors.New("standard output was closed")

// checkReader stops the run if the report has no reader any more. r.mu must be
// held.
func (r *report) checkReader() {
	if cli.IsBrokenPipe(r.out.Err) {
		r.stop(errOutputClosed)
	}
}

// begin prints what is going to be sent, and how.
func (r *report) begin(how string) {
	if r.json != nil || r.letters == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.checkReader()
	title := english.Plural(r.letters, "dead letter", "") + " in " + term.OneLine(r.dir)
	fmt.Fprintf(r.out, "%s\n%s\n\n", r.palette.Bold(title), r.palette.Faint(how))
	r.table.Header(r.palette.Faint)
	if r.bar != nil {
		r.bar.RenderBlank()
	}
}

// attempt shows in the bar what the report is waiting for.
func (r *report) attempt(a awsretry.Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bar != nil && a.Stop == "" {
		r.bar.Describe(fmt.Sprintf("%s, attempt %d in %s", attempts.Status(a), a.Number+1, term.Duration(a.Delay)))
	}
}

// stopping prints why the run does not stop at once.
func (r *report) stopping() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.json == nil {
		r.printAbove(r.Err, "The attempt in progress ends on its own; Ctrl-C again stops at once.")
		if r.bar != nil {
			r.bar.Describe("stopping")
		}
	}
}

// printAbove prints a line in place of the bar, which continues below. r.mu
// must be held.
func (r *report) printAbove(w io.Writer, line string) {
	if r.bar != nil {
		r.bar.Clear()
	}
	fmt.Fprintln(w, line)
}

// letter reports the outcome of a letter. sent is nil if it was not sent.
func (r *report) letter(result letters.Record, sent *sending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.checkReader()
	if isFault(result, sent) {
		r.faults++
	}
	if r.json != nil {
		r.json.Encode(newRecord(result, sent))
		return
	}
	if isFault(result, sent) {
		path := term.OneLine(filepath.Join(r.dir, result.Letter.Name))
		r.printAbove(r.Err, term.NewPalette(r.Streams, r.Err).Bad("✗")+" "+path+": "+errorText(result.Err))
	}
	if result.Result == letters.Broken {
		return
	}
	r.number++
	if r.bar != nil {
		r.bar.Clear()
	}
	r.row(result, sent)
	if r.bar != nil {
		r.bar.Describe("")
		if r.number <= r.letters { // letters may have come after the count
			r.bar.Add(1)
		}
	}
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
	color := r.palette.Bad
	switch result.Result {
	case letters.Delivered:
		color = r.palette.Good
	case letters.Unsent, letters.Busy:
		color = r.palette.Warn
	}
	r.table.Row(
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
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bar != nil {
		r.bar.Clear()
		r.bar = nil
	}
	interrupted := ctx.Err() != nil && errors.Is(err, context.Cause(ctx))
	tooMany := errors.Is(err, letters.ErrMaxFailures)
	if err != nil && !interrupted && !tooMany && done == (letters.Counts{}) {
		// The error is of the folder; those of letters have been reported.
		r.faults++
		fmt.Fprintf(r.Err, "%s %s\n", term.NewPalette(r.Streams, r.Err).Bad("✗"), errorText(err))
	}
	verdict := r.verdict(done, interrupted, tooMany)
	if r.json != nil {
		r.json.Encode(struct {
			Delivered   int  `json:"delivered"`
			Kept        int  `json:"kept"`
			Broken      int  `json:"broken"`
			Busy        int  `json:"busy"`
			Unsent      int  `json:"unsent,omitempty"`   // by a dry run
			TooMany     bool `json:"too_many,omitempty"` // failures in a row
			Interrupted bool `json:"interrupted"`
		}{done.Delivered, done.Kept, done.Broken, done.Busy, done.Unsent, tooMany, interrupted})
	} else {
		r.conclude(done, verdict, interrupted)
	}
	switch {
	case cli.IsBrokenPipe(r.out.Err): // the verdict goes to standard error instead
		return cli.Failed(fmt.Errorf("%w: %s", errOutputClosed, verdict))
	case r.out.Err != nil:
		return cli.Failed(r.out.Err)
	case interrupted || r.faults > 0:
		return cli.Reported(cli.Failure)
	case done.Kept+done.Busy > 0:
		return cli.Reported(cli.HTTPError)
	}
	return nil
}

// verdict returns the outcome of all letters on a line.
func (r *report) verdict(done letters.Counts, interrupted, tooMany bool) string {
	text := grouped(done.Delivered) + " delivered"
	if done.Unsent > 0 {
		text = "dry run: " + grouped(done.Unsent) + " would be sent"
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
			text += ", " + grouped(part.n) + " " + part.text
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
		text += ", " + grouped(rest) + " not sent"
	}
	return text
}

// conclude prints the last line.
func (r *report) conclude(done letters.Counts, verdict string, interrupted bool) {
	if r.letters > 0 {
		fmt.Fprintln(r.out)
	} else if done == (letters.Counts{}) && r.faults == 0 {
		fmt.Fprintln(r.out, noLetters(r.dir))
		return
	}
	mark := r.palette.Good("✓")
	if interrupted || r.faults > 0 || done.Kept+done.Busy > 0 {
		mark = r.palette.Bad("✗")
	}
	fmt.Fprintf(r.out, "%s %s\n", mark, r.palette.Bold(verdict))
}

func grouped(n int) string { return humanize.Comma(int64(n)) }
