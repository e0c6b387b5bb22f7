package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/delivery"
	"github.com/schollz/progressbar/v3"
)

// A redriveReport tells what becomes of each letter: a line on standard output, and on a terminal a progress bar below it.
type redriveReport struct {
	process
	letters int // that are to be sent
	out     *keptError
	json    *json.Encoder // nil: for people
	palette palette

	mu     sync.Mutex // guards the fields below, and what is written: an interruption may come at any time
	bar    *progressbar.ProgressBar
	number int // of the letter, from 1
}

func newRedriveReport(p process, asJSON bool, letters int) *redriveReport {
	r := &redriveReport{process: p, letters: letters, out: &keptError{Writer: p.stdout}, palette: newPalette(p, p.stdout)}
	if asJSON {
		r.json = json.NewEncoder(r.out)
		r.json.SetEscapeHTML(false)
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

// redriveRow is a line up to its last columns. The widths are fixed: a line is written as soon as its letter was sent.
func redriveRow(number, method, status, attempts, elapsed string) string {
	return strings.Join([]string{
		right(number, 4), left(method, 6), left(status, 7), right(attempts, 8), right(elapsed, 8), "",
	}, "  ")
}

const resultWidth = len("delivered")

func (r *redriveReport) begin(dir, how string) {
	if r.json != nil || r.letters == 0 {
		return
	}
	fmt.Fprintf(r.out, "%s\n%s\n\n", r.palette.bold(count(r.letters, "dead letter")+" in "+oneLine(dir)), r.palette.faint(how))
	fmt.Fprintln(r.out, r.palette.faint(redriveRow("#", "METHOD", "STATUS", "ATTEMPTS", "TIME")+left("RESULT", resultWidth)+"  URL"))
	r.mu.Lock()
	defer r.mu.Unlock()
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

// letter tells what came of a letter.
func (r *redriveReport) letter(req *http.Request, last awsretry.Attempt, err error, elapsed time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	if r.json != nil {
		r.json.Encode(newLetterRecord(req, last, err, elapsed))
		return
	}
	result, paint := "delivered", r.palette.good
	if err != nil {
		result, paint = "kept", r.palette.bad
	}
	attempts, answer, detail := last.Number, "-", ""
	if attempts > 0 {
		answer = status(last)
		if err != nil {
			detail = details(last)
		}
	} else if err != nil {
		detail = withoutQuery(err, req.URL)
	}
	row := redriveRow(strconv.Itoa(r.number), oneLine(req.Method), answer, strconv.Itoa(attempts), brief(elapsed)) +
		paint(left(result, resultWidth)) + "  " + bareURL(req.URL)
	if detail != "" {
		row += "  " + r.palette.faint(oneLine(detail))
	}
	r.above(r.out, row)
	if r.bar != nil {
		r.bar.Describe("")
		if r.number <= r.letters { // letters may have come since they were counted
			r.bar.Add(1)
		}
	}
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
	faults, interrupted := 0, false
	palette := newPalette(r.process, r.stderr)
	for _, err := range errorsOf(err) {
		var reported reportedError
		switch {
		case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
			interrupted = true
		case !errors.As(err, &reported):
			faults++
			fmt.Fprintf(r.stderr, "%s %s\n", palette.bad("✗"), oneLine(plainError(err).Error()))
		}
	}
	if r.json != nil {
		r.json.Encode(struct {
			Delivered   int  `json:"delivered"`
			Kept        int  `json:"kept"`
			Broken      int  `json:"broken"`
			Busy        int  `json:"busy"`
			Interrupted bool `json:"interrupted"`
		}{done.Delivered, done.Kept, done.Broken, done.Busy, interrupted})
	} else {
		r.verdict(done, faults, interrupted)
	}
	switch {
	case r.out.err != nil:
		return failed(r.out.err)
	case interrupted || faults > 0:
		return &failure{status: exitFailure}
	case done.Kept+done.Busy > 0:
		return &failure{status: exitHTTPError}
	}
	return nil
}

// verdict is the last line.
func (r *redriveReport) verdict(done delivery.Redriven, faults int, interrupted bool) {
	if r.letters > 0 {
		fmt.Fprintln(r.out)
	} else if done == (delivery.Redriven{}) && faults == 0 {
		fmt.Fprintln(r.out, "No dead letters")
		return
	}
	text := grouped(done.Delivered) + " delivered"
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
	if interrupted {
		text = "interrupted: " + text
		if rest := r.letters - done.Delivered - done.Kept - done.Busy; rest > 0 {
			text += ", " + grouped(rest) + " not sent"
		}
	}
	mark := r.palette.good("✓")
	if interrupted || faults > 0 || done.Kept+done.Busy > 0 {
		mark = r.palette.bad("✗")
	}
	fmt.Fprintf(r.out, "%s %s\n", mark, r.palette.bold(text))
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
	Method    string  `json:"method"`
	URL       string  `json:"url"`
	Result    string  `json:"result"` // delivered or kept
	Attempts  int     `json:"attempts"`
	Status    int     `json:"status,omitempty"`
	Code      string  `json:"code,omitempty"`
	Error     string  `json:"error,omitempty"` // where there was no answer
	Stop      string  `json:"stop,omitempty"`
	ElapsedMS float64 `json:"elapsed_ms"`
}

func newLetterRecord(req *http.Request, last awsretry.Attempt, err error, elapsed time.Duration) letterRecord {
	l := letterRecord{
		Method:    req.Method,
		URL:       bareURL(req.URL),
		Result:    "delivered",
		Attempts:  last.Number,
		Code:      last.Code,
		Stop:      string(last.Stop),
		ElapsedMS: milliseconds(elapsed),
	}
	if last.Response != nil {
		l.Status = last.Response.StatusCode
	}
	if err != nil {
		l.Result = "kept"
		var gaveUp *awsretry.Error
		if errors.As(err, &gaveUp) {
			l.Stop, err = string(gaveUp.Stop), gaveUp.Err
		}
		if last.Response == nil {
			l.Error = withoutQuery(err, req.URL)
		}
	}
	return l
}
