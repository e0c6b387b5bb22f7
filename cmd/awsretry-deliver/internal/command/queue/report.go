package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/cmd/internal/attempts"
	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/printer"
	"example.com/awsretry/cmd/internal/term"
	"example.com/awsretry/deliveryqueue"
)

// A report prints a line for each attempt on standard output, and on a terminal
// a progress bar below the lines.
type report struct {
	*printer.Printer
	line      func(awsretry.Attempt) // writes the record of an attempt as JSON
	command   *command
	config    deliveryqueue.Config
	delivered int
	dead      int
	retries   int
}

// reportColumns are wide enough for any attempt, because a line is printed as soon
// as the attempt was made.
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
	r := &report{Printer: printer.New(c.Streams, c.Out, c.json, reportColumns), command: c, config: config}
	r.Stop = stop
	r.line = attempts.JSON(r.Out, func(a awsretry.Attempt) []slog.Attr {
		return []slog.Attr{slog.String("idempotency_key", a.Request.Header.Get("Idempotency-Key"))}
	})
	r.AddBar(1)
	return r
}

// begin prints the contents of the store, and how the deliveries are attempted.
func (r *report) begin(s deliveryqueue.Stats) {
	if r.JSON != nil {
		return
	}
	r.Do(func() {
		r.Begin(r.command.storeName()+": "+summary(s),
			fmt.Sprintf("%s at a time, of %v at most; a stop takes %v at most, and 5s for what is cut off then",
				printer.Plural(r.config.Workers, "attempt", ""), r.config.AttemptTimeout, r.config.StopTimeout))
		r.Header()
	})
}

// summary returns how many deliveries have not succeeded.
func summary(s deliveryqueue.Stats) string {
	text := printer.Grouped(s.Waiting) + " waiting"
	if s.Running > 0 {
		text += ", " + printer.Grouped(s.Running) + " running"
	}
	return text + ", " + printer.Plural(s.Dead, "dead letter", "")
}

// progress shows in the bar how many deliveries have ended, and their total.
func (r *report) progress(s deliveryqueue.Stats) {
	r.Do(func() {
		ended := r.delivered + r.dead
		r.Bar.ChangeMax(max(ended+s.Waiting+s.Running, 1))
		r.Bar.Describe(summary(s))
		r.Bar.Set(ended)
	})
}

// stopping prints why the work does not stop at once.
func (r *report) stopping(why error) {
	if errors.Is(why, errEmpty) || errors.Is(why, errEnded) {
		return
	}
	r.Stopping(fmt.Sprintf(
		"The attempts in progress end on their own, within %v; Ctrl-C again stops at once.", r.config.StopTimeout))
}

// attempt reports an attempt. It is an observer.
func (r *report) attempt(a awsretry.Attempt) { r.Do(func() { r.row(a) }) }

func (r *report) row(a awsretry.Attempt) {
	var result string
	color := r.Palette.Bad
	switch {
	case a.Class == awsretry.Success:
		r.delivered++
		result, color = "delivered", r.Palette.Good
	case a.Stop == "":
		r.retries++
		result, color = "retry in "+term.Duration(a.Delay), r.Palette.Warn
	case a.Stop == awsretry.StopCanceled:
		result, color = "cut off", r.Palette.Warn
	default:
		r.dead++
		result = "dead: " + string(a.Stop)
	}
	if r.JSON != nil {
		r.line(a)
		return
	}
	address := term.URL(a.Request.URL)
	if detail := attempts.Details(a); detail != "" && a.Class != awsretry.Success {
		address += "  " + term.OneLine(detail)
	}
	r.Table.Row(
		a.Start.UTC().Format(time.DateTime),
		term.OneLine(a.Request.Method),
		attempts.Status(a),
		strconv.Itoa(a.Number),
		term.Duration(a.Elapsed),
		color(result),
		address,
	)
}

// end reports the results of the work, and returns the error with the exit status.
// why is why the work ended. err is the error of Run, or of counting what is left;
// if the latter failed, after is nil.
func (r *report) end(why error, before deliveryqueue.Stats, after *deliveryqueue.Stats, err error) error {
	untilEmpty := r.command.work.untilEmpty
	interrupted := untilEmpty && !errors.Is(why, errEmpty)
	newDead := r.dead
	if after != nil {
		newDead = max(newDead, after.Dead-before.Dead) // rows that cannot be read have no attempt
	}
	verdict := fmt.Sprintf("%s delivered, %s, %s", printer.Grouped(r.delivered),
		printer.Plural(newDead, "new dead letter", ""), printer.Plural(r.retries, "retry", "retries"))
	if after != nil {
		verdict += "; in the store: " + summary(*after)
	}
	fault := ""
	if err != nil {
		fault = storeText(err)
		verdict += "; " + fault
	}
	status := 0
	switch {
	case err != nil || interrupted:
		status = cli.Failure
	case untilEmpty && newDead > 0:
		status = cli.HTTPError
	}
	return r.End(struct {
		Delivered   int     `json:"delivered"`
		NewDead     int     `json:"new_dead"`
		Retries     int     `json:"retries"`
		Store       *counts `json:"store,omitempty"`
		Interrupted bool    `json:"interrupted"`
		Error       string  `json:"error,omitempty"`
	}{r.delivered, newDead, r.retries, (*counts)(after), interrupted, fault}, func() {
		text := verdict
		if interrupted {
			text = "interrupted: " + text
		}
		fmt.Fprintln(r.Out)
		r.Conclude(status == 0, text, "")
	}, verdict, status)
}
