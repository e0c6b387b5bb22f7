package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"example.com/awsretry"
	"example.com/awsretry/delivery"
	"github.com/schollz/progressbar/v3"
)

// A redriveReport tells what becomes of each letter: a line on standard output, and on a terminal a progress bar below it.
type redriveReport struct {
	process
	dir     string
	letters int // that are to be sent
	out     *keptError
	json    *json.Encoder // nil: for people
	palette palette
	table   table
	stop    context.CancelCauseFunc // ends the run

	mu     sync.Mutex // guards the fields below, and what is written: an interruption may come at any time
	bar    *progressbar.ProgressBar
	number int // of the letter, from 1
	faults int // that are not an endpoint's
}

func newRedriveReport(p process, asJSON bool, dir string, letters int, stop context.CancelCauseFunc) *redriveReport {
	r := &redriveReport{process: p, dir: dir, letters: letters, out: &keptError{Writer: p.stdout}, palette: newPalette(p, p.stdout), stop: stop}
	r.table = table{w: r.out, width: p.tableWidth(p.stdout), columns: redriveColumns}
	if asJSON {
		r.json = newJSON(r.out)
		return r
	}
	if letters > 0 && p.isTerminal(p.stderr) && p.getenv("TERM") != "dumb" {
		r.bar = newLetterBar(p.stderr, letters)
	}
	return r
}

// newLetterBar has no colours.
func newLetterBar(w io.Writer, letters int) *progressbar.ProgressBar {
	return progressbar.NewOptions(letters,
		progressbar.OptionSetWriter(w),
		progressbar.OptionUseANSICodes(true),
		progressbar.OptionSetWidth(barWidth),
		progressbar.OptionSetTheme(progressbar.Theme{Saucer: "█", SaucerPadding: "░"}),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionClearOnFinish(),
	)
}

const nameWidth = len("20060102T150405.000000000Z-0123456789abcdef.letter")

// redriveColumns are wide enough for any letter: a line is written as soon as
// its letter was sent.
var redriveColumns = []column{
	{title: "#", width: 4, right: true, spare: 1},
	{title: "METHOD", width: 6, spare: 2},
	{title: "STATUS", width: 7},
	{title: "ATTEMPTS", width: 8, right: true, spare: 3},
	{title: "TIME", width: 8, right: true, spare: 4},
	{title: "RESULT", width: len("delivered")},
	{title: "NAME", width: nameWidth},
	{title: "URL"},
}

// errOutputClosed stops the run: who reads the report has seen enough.
var errOutputClosed = errors.New("standard output was closed")

// written looks whether the report still has a reader. r.mu must be held.
func (r *redriveReport) written() {
	if errors.Is(r.out.err, syscall.EPIPE) {
		r.stop(errOutputClosed)
	}
}

func (r *redriveReport) begin(how string) {
	if r.json != nil || r.letters == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.written()
	fmt.Fprintf(r.out, "%s\n%s\n\n", r.palette.bold(count(r.letters, "dead letter")+" in "+oneLine(r.dir)), r.palette.faint(how))
	r.table.header(r.palette)
	if r.bar != nil {
		r.bar.RenderBlank()
	}
}

// above writes where the bar is, which goes on below. r.mu must be held.
func (r *redriveReport) above(w io.Writer, line string) {
	if r.bar != nil {
		r.bar.Clear()
	}
	fmt.Fprintln(w, line)
}

// attempt tells what is waited for.
func (r *redriveReport) attempt(a awsretry.Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bar != nil && a.Stop == "" {
		r.bar.Describe(fmt.Sprintf("%s, attempt %d in %s", status(a), a.Number+1, brief(a.Delay)))
	}
}

// letter tells what came of a letter, of which nothing more comes. sent is nil
// where it was not sent.
func (r *redriveReport) letter(result delivery.LetterResult, sent *sending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.written()
	if result.Err != nil && (sent == nil || result.Result == delivery.Delivered) { // it is not the endpoint's
		r.faults++
		if r.json == nil {
			r.above(r.stderr, newPalette(r.process, r.stderr).bad("✗")+" "+oneLine(filepath.Join(r.dir, result.Letter.Name)+": "+plainError(result.Err).Error()))
		}
	}
	if r.json != nil {
		r.json.Encode(newLetterRecord(result, sent))
		return
	}
	if result.Result == delivery.Broken {
		return
	}
	r.number++
	if r.bar != nil {
		r.bar.Clear()
	}
	r.row(result, sent)
	if r.bar != nil {
		r.bar.Describe("")
		if r.number <= r.letters { // letters may have come since they were counted
			r.bar.Add(1)
		}
	}
}

func (r *redriveReport) row(result delivery.LetterResult, sent *sending) {
	answer, attempts, elapsed, detail := "-", "-", "-", ""
	if sent != nil {
		attempts, elapsed = strconv.Itoa(sent.last.Number), brief(sent.elapsed)
		detail = sent.err
		if sent.last.Number > 0 {
			answer = status(sent.last)
			detail = details(sent.last)
		}
		if result.Result == delivery.Delivered {
			detail = ""
		}
	}
	paint := r.palette.bad
	switch result.Result {
	case delivery.Delivered:
		paint = r.palette.good
	case delivery.Unsent, delivery.Busy:
		paint = r.palette.warn
	}
	address := oneLine(bareAddress(result.Letter.URL))
	if detail != "" {
		address += "  " + oneLine(detail)
	}
	const resultColumn = 5
	r.table.row([]string{strconv.Itoa(r.number), oneLine(result.Letter.Method), answer, attempts, elapsed,
		string(result.Result), oneLine(result.Letter.Name), address},
		func(column int) func(...any) string {
			if column == resultColumn {
				return paint
			}
			return nil
		})
}

// interrupted tells why it does not stop at once.
func (r *redriveReport) interrupted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.json == nil {
		r.above(r.stderr, "The attempt under way comes to its end; Ctrl-C again stops at once.")
		if r.bar != nil {
			r.bar.Describe("stopping")
		}
	}
}

// end tells what came of all letters, and gives the exit status.
func (r *redriveReport) end(ctx context.Context, done delivery.Redriven, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bar != nil {
		r.bar.Clear()
		r.bar = nil
	}
	interrupted, tooMany := false, false
	for _, err := range errorsOf(err) {
		switch {
		case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
			interrupted = true
		case errors.Is(err, delivery.ErrMaxFailures):
			tooMany = true
		case done == (delivery.Redriven{}): // the folder's; that of a letter has been reported
			r.faults++
			fmt.Fprintf(r.stderr, "%s %s\n", newPalette(r.process, r.stderr).bad("✗"), oneLine(plainError(err).Error()))
		}
	}
	text := r.verdict(done, interrupted, tooMany)
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
		r.conclude(done, text, interrupted)
	}
	switch {
	case errors.Is(r.out.err, syscall.EPIPE): // so that somebody is told all the same
		return failed(fmt.Errorf("%w: %s", errOutputClosed, text))
	case r.out.err != nil:
		return failed(r.out.err)
	case interrupted || r.faults > 0:
		return &failure{status: exitFailure}
	case done.Kept+done.Busy > 0:
		return &failure{status: exitHTTPError}
	}
	return nil
}

// verdict is what came of all letters in a line.
func (r *redriveReport) verdict(done delivery.Redriven, interrupted, tooMany bool) string {
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
	rest := r.letters - done.Delivered - done.Kept - done.Busy - done.Unsent
	switch {
	case interrupted:
		text = "interrupted: " + text
	case tooMany:
		text = "too many failures in a row: " + text
	default:
		rest = 0
	}
	if rest > 0 {
		text += ", " + grouped(rest) + " not sent"
	}
	return text
}

// conclude writes the last line.
func (r *redriveReport) conclude(done delivery.Redriven, verdict string, interrupted bool) {
	if r.letters > 0 {
		fmt.Fprintln(r.out)
	} else if done == (delivery.Redriven{}) && r.faults == 0 {
		fmt.Fprintln(r.out, noLetters(r.dir))
		return
	}
	mark := r.palette.good("✓")
	if interrupted || r.faults > 0 || done.Kept+done.Busy > 0 {
		mark = r.palette.bad("✗")
	}
	fmt.Fprintf(r.out, "%s %s\n", mark, r.palette.bold(verdict))
}

// errorsOf are the errors that were joined.
func errorsOf(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err != nil {
		return []error{err}
	}
	return nil
}

// A letterRecord is what came of a letter, as JSON.
type letterRecord struct {
	Name      string          `json:"name"`
	Method    string          `json:"method,omitempty"`
	URL       string          `json:"url,omitempty"`
	Result    delivery.Result `json:"result"`
	Attempts  int             `json:"attempts"`
	Status    int             `json:"status,omitempty"`
	Code      string          `json:"code,omitempty"`
	Error     string          `json:"error,omitempty"` // where there was no answer, or the fault is another's
	Stop      string          `json:"stop,omitempty"`
	ElapsedMS float64         `json:"elapsed_ms"`
}

func newLetterRecord(result delivery.LetterResult, sent *sending) letterRecord {
	l := letterRecord{
		Name:   result.Letter.Name,
		Method: result.Letter.Method,
		URL:    bareAddress(result.Letter.URL),
		Result: result.Result,
	}
	if result.Err != nil && (sent == nil || result.Result == delivery.Delivered) {
		l.Error = plainError(result.Err).Error()
	}
	if sent == nil {
		return l
	}
	l.Attempts, l.Code, l.Stop, l.ElapsedMS = sent.last.Number, sent.last.Code, string(sent.stop), milliseconds(sent.elapsed)
	switch {
	case sent.last.Response != nil:
		l.Status = sent.last.Response.StatusCode
	case l.Error == "":
		l.Error = sent.err
	}
	return l
}
