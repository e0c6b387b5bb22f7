package queue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/printer"
	"example.com/awsretry/cmd/internal/term"
	"example.com/awsretry/deliveryqueue"
)

// list prints the deliveries that the flags select.
func (c *command) list(ctx context.Context, args []string) error {
	filter, err := c.filter.filter(args, time.Now())
	if err != nil {
		return err
	}
	return c.inStore(ctx, func(q *deliveryqueue.Queue) error {
		faults, err := c.checkIDs(ctx, q, filter.IDs, "")
		if err != nil {
			return err
		}
		l := c.newListing(ctx)
		l.attempts = len(filter.IDs) > 0
		if err := l.printAll(ctx, q, filter); err != nil {
			return c.listError(ctx, err)
		}
		text := "No such deliveries in " + c.storeName()
		if l.printed > 0 {
			text = "\n" + printer.Plural(l.printed, "delivery", "deliveries")
		}
		return unlessFaults(l.end(text), faults)
	})
}

// A listing prints deliveries, without their headers and bodies.
type listing struct {
	*printer.Printer
	now      time.Time
	attempts bool // the last attempts of each delivery are printed too
	printed  int
}

// listColumns are wide enough for any delivery: a store may have any number of
// them.
var listColumns = []term.Column{
	{Title: "ID", Width: 6, Right: true},
	{Title: "STATE", Width: len("delivered")},
	{Title: "ENQUEUED (UTC)", Width: len(time.DateTime), Spare: 4},
	{Title: "ATTEMPTS", Width: 8, Right: true, Spare: 2},
	{Title: "STATUS", Width: 6, Spare: 1},
	{Title: "NEXT", Width: len("in 59 minutes"), Spare: 3},
	{Title: "REASON", Width: 12, Spare: 5},
	{Title: "METHOD", Width: 6, Spare: 6},
	{Title: "URL"},
}

func (c *command) newListing(ctx context.Context) *listing {
	return &listing{Printer: printer.NewListing(ctx, c.Streams, c.json, listColumns), now: time.Now()}
}

// printAll prints what filter selects. It returns the error of the store, or of
// writing.
func (l *listing) printAll(ctx context.Context, q *deliveryqueue.Queue, filter deliveryqueue.Filter) error {
	for d, err := range q.List(ctx, filter) {
		if err != nil {
			return err
		}
		if l.print(d); l.Out.Err != nil {
			return cli.Failed(l.Out.Err)
		}
	}
	return nil
}

func (l *listing) print(d deliveryqueue.Delivery) {
	l.printed++
	if l.Object(newEntry(d)) {
		return
	}
	if l.printed == 1 {
		l.Header()
	}
	next, address := "-", term.OneLine(d.URL)
	if !d.Next.IsZero() {
		next = until(d.Next, l.now)
	}
	if d.Err != "" && d.State != deliveryqueue.Delivered {
		address += "  " + term.OneLine(d.Err)
	}
	l.Table.Row(
		strconv.FormatInt(d.ID, 10),
		colorOf(l.Palette, d.State)(string(d.State)),
		d.Enqueued.UTC().Format(time.DateTime),
		printer.Grouped(d.Attempts),
		printer.Status(d.Status),
		next,
		term.OneLine(d.Reason),
		term.OneLine(d.Method),
		address,
	)
	if !l.attempts {
		return
	}
	for _, r := range d.Last {
		text := r.Body
		if r.Status == 0 {
			text = r.Err
		}
		fmt.Fprintln(l.Out, strings.TrimRight(l.Palette.Faint(fmt.Sprintf("        %s  %s  %s  ", r.Start.UTC().Format(time.DateTime),
			printer.Status(r.Status), term.Duration(r.Elapsed)))+term.OneLine(text), " "))
	}
}

// until returns the time until the next attempt.
func until(next, now time.Time) string {
	if !next.After(now) {
		return "now"
	}
	return "in " + humanize.RelTime(now, next, "", "")
}

func colorOf(p term.Palette, state deliveryqueue.State) term.Color {
	switch state {
	case deliveryqueue.Delivered:
		return p.Good
	case deliveryqueue.Dead:
		return p.Bad
	}
	return p.Warn
}

// end prints the last line.
func (l *listing) end(text string) error {
	if l.JSON == nil {
		fmt.Fprintln(l.Out, text)
	}
	return cli.Failed(l.Out.Err)
}

// endDry prints the last line of a dry run.
func (l *listing) endDry(done string) error {
	if l.printed == 0 {
		return l.end("dry run: none would be " + done)
	}
	return l.end("\ndry run: " + printer.Grouped(l.printed) + " would be " + done)
}

// An entry is a delivery as JSON.
type entry struct {
	ID             int64      `json:"id"`
	State          string     `json:"state"`
	Method         string     `json:"method"`
	URL            string     `json:"url"`
	IdempotencyKey string     `json:"idempotency_key"`
	Tags           []string   `json:"tags,omitempty"`
	Enqueued       time.Time  `json:"enqueued"`
	Next           *time.Time `json:"next,omitempty"`
	Ended          *time.Time `json:"ended,omitempty"`
	Attempts       int        `json:"attempts"`
	Status         int        `json:"status,omitempty"`
	Error          string     `json:"error,omitempty"`
	Reason         string     `json:"reason,omitempty"`
	Last           []result   `json:"last,omitempty"`
}

// A result is how an attempt ended as JSON.
type result struct {
	Start     time.Time `json:"start"`
	ElapsedMS float64   `json:"elapsed_ms"`
	Status    int       `json:"status,omitempty"`
	Error     string    `json:"error,omitempty"`
	Body      string    `json:"body,omitempty"`
}

func newEntry(d deliveryqueue.Delivery) entry {
	e := entry{
		d.ID, string(d.State), d.Method, d.URL, d.IdempotencyKey, d.Tags, d.Enqueued.UTC(), utc(d.Next), utc(d.Ended),
		d.Attempts, d.Status, d.Err, d.Reason, nil,
	}
	for _, r := range d.Last {
		e.Last = append(e.Last, result{
			r.Start.UTC(), float64(r.Elapsed) / float64(time.Millisecond), r.Status, r.Err, r.Body,
		})
	}
	return e
}

// utc returns nil for the zero time.
func utc(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// listError returns an error of reading the store with its exit status.
func (c *command) listError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return cli.Failed(context.Cause(ctx))
	case errors.As(err, new(*cli.Error)):
		return err
	}
	return c.storeError(err)
}

// body prints the body of a delivery.
func (c *command) body(ctx context.Context, args []string) error {
	ids, err := parseIDs(args)
	if err != nil {
		return err
	}
	return c.inStore(ctx, func(q *deliveryqueue.Queue) error {
		req, err := q.Request(ctx, ids[0])
		switch {
		case errors.Is(err, deliveryqueue.ErrNotFound):
			c.fault(ids[0], "there is no such delivery")
			return unlessFaults(nil, 1)
		case err != nil:
			return c.listError(ctx, err)
		case req.Body == nil:
			return nil
		}
		defer req.Body.Close()
		_, err = io.Copy(c.Out, req.Body)
		return cli.Failed(err)
	})
}

// stats prints how many deliveries there are in each state.
func (c *command) stats(ctx context.Context, _ []string) error {
	return c.inStore(ctx, func(q *deliveryqueue.Queue) error {
		s, err := q.Stats(ctx)
		if err != nil {
			return c.listError(ctx, err)
		}
		p := printer.New(c.Streams, c.Out, c.json, nil)
		if !p.Object(counts(s)) {
			for i, n := range []int{s.Waiting, s.Running, s.Delivered, s.Dead, s.Canceled} {
				fmt.Fprintf(p.Out, "%-9s  %11s\n", states[i], printer.Grouped(n))
			}
		}
		return cli.Failed(p.Out.Err)
	})
}

// counts are the deliveries in each state as JSON.
type counts struct {
	Waiting   int `json:"waiting"`
	Running   int `json:"running"`
	Delivered int `json:"delivered"`
	Dead      int `json:"dead"`
	Canceled  int `json:"canceled"`
}
