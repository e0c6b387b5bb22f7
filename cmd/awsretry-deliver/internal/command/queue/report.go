package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"example.com/awsretry"
	"example.com/awsretry/cmd/internal/attempts"
	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/term"
	"example.com/awsretry/deliveryqueue"
)

// A report prints a line for each attempt on standard output, and on a terminal
// a progress bar below the lines.
type report struct {
	*command
	config  deliveryqueue.Config
	palette term.Palette
	stop    context.CancelCauseFunc // ends the work

	mu        sync.Mutex // guards the fields below and the output
	out       *term.ErrWriter
	lines     *json.Encoder // nil: for people
	table     term.Table
	bar       *progressbar.ProgressBar // nil: none
	delivered int
	dead      int
	retries   int
}

// reportColumns are wide enough for any attempt: a line is printed as soon as
// the attempt was made.
var reportColumns = []term.Column{
	{Title: "AT (UTC)", Width: len(time.DateTime), Spare: 4},
	{Title: "METHOD", Width: 6, Spare: 2},
	{Title: "STATUS", Width: 7},
	{Title: "ATTEMPT", Width: 7, Right: true, Spare: 1},
	{Title: "TIME", Width: 8, Right: true, Spare: 3},
	{Title: "RESULT", Width: len("dead: max_attempts")},
	{Title: "URL"},
}

func newReport(c *command, config deliveryqueue.Config, stop context.CancelCauseFunc) *report {
	r := &report{command: c, config: config, palette: term.NewPalette(c.Streams, c.Out), stop: stop}
	r.out = &term.ErrWriter{Writer: c.Out}
	r.table = term.Table{W: r.out, Width: c.TableWidth(c.Out), Columns: reportColumns}
	if c.json {
		r.lines = term.NewEncoder(r.out)
	} else if c.IsTerminal(c.Err) && c.Getenv("TERM") != "dumb" {
		r.bar = term.NewBar(c.Err, 1)
	}
	return r
}

func (r *report) hasBar() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bar != nil
}

// checkReader stops the work if the report has no reader any more. r.mu must be
// held.
func (r *report) checkReader() {
	if cli.IsBrokenPipe(r.out.Err) {
		r.stop(errOutputClosed)
	}
}

// begin prints what the store has, and how it is worked.
func (r *report) begin(s deliveryqueue.Stats) {
	if r.lines != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.checkReader()
	title := r.storeName() + ": " + summary(s)
	how := fmt.Sprintf("%s at a time, of %v at most; a stop takes %v at most, and 5s for what is cut off then",
		plural(r.config.Workers, "attempt", ""), r.config.AttemptTimeout, r.config.StopTimeout)
	fmt.Fprintf(r.out, "%s\n%s\n\n", r.palette.Bold(title), r.palette.Faint(how))
	r.table.Header(r.palette.Faint)
	if r.bar != nil {
		r.bar.RenderBlank()
	}
}

// summary says how many deliveries there are that have not ended well.
func summary(s deliveryqueue.Stats) string {
	text := grouped(s.Waiting) + " waiting"
	if s.Running > 0 {
		text += ", " + grouped(s.Running) + " running"
	}
	return text + ", " + plural(s.Dead, "dead letter", "")
}

// progress shows in the bar how many deliveries have ended, of those that have
// and those that wait.
func (r *report) progress(s deliveryqueue.Stats) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bar == nil {
		return
	}
	ended := r.delivered + r.dead
	r.bar.ChangeMax(max(ended+s.Waiting+s.Running, 1))
	r.bar.Describe(summary(s))
	r.bar.Set(ended)
}

// stopping prints why the work does not stop at once.
func (r *report) stopping(why error) {
	if errors.Is(why, errEmpty) || errors.Is(why, errEnded) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lines != nil {
		return
	}
	r.printAbove(r.Err, fmt.Sprintf(
		"The attempts in progress end on their own, within %v; Ctrl-C again stops at once.", r.config.StopTimeout))
	if r.bar != nil {
		r.bar.Describe("stopping")
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

// attempt reports an attempt. It is an observer.
func (r *report) attempt(a awsretry.Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.checkReader()
	var result string
	color := r.palette.Bad
	switch {
	case a.Class == awsretry.Success:
		r.delivered++
		result, color = "delivered", r.palette.Good
	case a.Stop == "":
		r.retries++
		result, color = "retry in "+term.Duration(a.Delay), r.palette.Warn
	case a.Stop == awsretry.StopCanceled:
		result, color = "cut off", r.palette.Warn
	default:
		r.dead++
		result = "dead: " + string(a.Stop)
	}
	if r.lines != nil {
		r.lines.Encode(attempts.NewRecord(a))
		return
	}
	if r.bar != nil {
		r.bar.Clear()
	}
	address := term.URL(a.Request.URL)
	if detail := attempts.Details(a); detail != "" && a.Class != awsretry.Success {
		address += "  " + term.OneLine(detail)
	}
	r.table.Row(
		a.Start.UTC().Format(time.DateTime),
		term.OneLine(a.Request.Method),
		attempts.Status(a),
		strconv.Itoa(a.Number),
		term.Duration(a.Elapsed),
		color(result),
		address,
	)
	if r.bar != nil {
		r.bar.RenderBlank()
	}
}

// end reports what has become of the deliveries, and returns the error with the
// exit status. why is why the work ended, and err that of Run and of counting
// what is left: after is nil if that failed.
func (r *report) end(why error, before deliveryqueue.Stats, after *deliveryqueue.Stats, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bar != nil {
		r.bar.Clear()
		r.bar = nil
	}
	empty, closed := errors.Is(why, errEmpty), errors.Is(why, errOutputClosed)
	interrupted := r.work.untilEmpty && !empty
	newDead := r.dead
	if after != nil {
		newDead = max(newDead, after.Dead-before.Dead) // rows that cannot be read have no attempt
	}
	verdict := fmt.Sprintf("%s delivered, %s, %s",
		grouped(r.delivered), plural(newDead, "new dead letter", ""), plural(r.retries, "retry", "retries"))
	if after != nil {
		verdict += "; in the store: " + summary(*after)
	}
	if err != nil {
		verdict += "; " + storeText(err)
	}
	r.conclude(verdict, after, newDead, interrupted, err)
	switch {
	case closed || cli.IsBrokenPipe(r.out.Err): // the verdict goes to standard error instead
		return cli.Failed(fmt.Errorf("%w: %s", errOutputClosed, verdict))
	case r.out.Err != nil:
		return cli.Failed(r.out.Err)
	case err != nil || interrupted:
		return cli.Reported(cli.Failure)
	case r.work.untilEmpty && newDead > 0:
		return cli.Reported(cli.HTTPError)
	}
	return nil
}

// conclude prints the last line. r.mu must be held.
func (r *report) conclude(verdict string, after *deliveryqueue.Stats, newDead int, interrupted bool, err error) {
	if r.lines != nil {
		text, left := "", (*counts)(nil)
		if err != nil {
			text = storeText(err)
		}
		if after != nil {
			c := newCounts(*after)
			left = &c
		}
		r.lines.Encode(struct {
			Delivered   int     `json:"delivered"`
			NewDead     int     `json:"new_dead"`
			Retries     int     `json:"retries"`
			Store       *counts `json:"store,omitempty"`
			Interrupted bool    `json:"interrupted"`
			Error       string  `json:"error,omitempty"`
		}{r.delivered, newDead, r.retries, left, interrupted, text})
		return
	}
	mark := r.palette.Good("✓")
	if err != nil || interrupted || r.work.untilEmpty && newDead > 0 {
		mark = r.palette.Bad("✗")
	}
	if interrupted {
		verdict = "interrupted: " + verdict
	}
	fmt.Fprintf(r.out, "\n%s %s\n", mark, r.palette.Bold(verdict))
}
