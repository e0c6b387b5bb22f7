package queue

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/printer"
	"example.com/awsretry/cmd/internal/term"
	"example.com/awsretry/deliveryqueue"
)

// endpointColumns are wide enough for any endpoint, apart from its URL.
var endpointColumns = []term.Column{
	{Title: "WAITING", Width: 9, Right: true},
	{Title: "RUNNING", Width: 7, Right: true},
	{Title: "DEAD", Width: 9, Right: true},
	{Title: "DUE", Width: len("59 minutes"), Spare: 1},
	{Title: "STATE", Width: len("disabled")},
	{Title: "SINCE (UTC)", Width: len(time.DateTime), Spare: 2},
	{Title: "NEXT", Width: len("in 59 minutes"), Spare: 3},
	{Title: "URL"},
}

// endpoints prints the endpoints.
func (c *command) endpoints(ctx context.Context, _ []string) error {
	return c.inStore(ctx, func(q *deliveryqueue.Queue) error {
		all, err := q.Endpoints(ctx)
		if err != nil {
			return c.listError(ctx, err)
		}
		p := printer.NewListing(ctx, c.Streams, c.json, endpointColumns)
		now := time.Now()
		for i, e := range all {
			if p.Object(newEndpointEntry(e)) {
				continue
			}
			if i == 0 {
				p.Header()
			}
			printEndpoint(p, e, now)
		}
		if p.JSON == nil && len(all) == 0 {
			fmt.Fprintln(p.Out, "No endpoints in "+c.storeName())
		}
		return cli.Failed(p.Out.Err)
	})
}

func printEndpoint(p *printer.Printer, e deliveryqueue.Endpoint, now time.Time) {
	state, since, color := "-", time.Time{}, p.Palette.Good
	switch {
	case !e.Paused.IsZero():
		state, since, color = "paused", e.Paused, p.Palette.Warn
	case !e.Disabled.IsZero():
		state, since, color = "disabled", e.Disabled, p.Palette.Bad
	case !e.Failing.IsZero():
		state, since, color = "failing", e.Failing, p.Palette.Bad
	}
	next, due, at := "-", "-", "-"
	if e.Next.After(now) && e.Waiting > 0 && e.Paused.IsZero() {
		next = until(e.Next, now)
	}
	if !e.Due.IsZero() {
		due = strings.TrimSpace(humanize.RelTime(e.Due, now, "", ""))
	}
	if !since.IsZero() {
		at = since.UTC().Format(time.DateTime)
	}
	p.Table.Row(
		printer.Grouped(e.Waiting), printer.Grouped(e.Running), printer.Grouped(e.Dead),
		due, color(state), at, next, term.OneLine(e.URL),
	)
}

// An endpointEntry is an endpoint as JSON.
type endpointEntry struct {
	URL      string     `json:"url"`
	Waiting  int        `json:"waiting"`
	Running  int        `json:"running"`
	Dead     int        `json:"dead"`
	Due      *time.Time `json:"due,omitempty"`
	Failing  *time.Time `json:"failing,omitempty"`
	Disabled *time.Time `json:"disabled,omitempty"`
	Paused   *time.Time `json:"paused,omitempty"`
	Next     *time.Time `json:"next,omitempty"`

	PerSecond int `json:"per_second,omitempty"`
}

func newEndpointEntry(e deliveryqueue.Endpoint) endpointEntry {
	return endpointEntry{
		e.URL, e.Waiting, e.Running, e.Dead, utc(e.Due), utc(e.Failing), utc(e.Disabled), utc(e.Paused), utc(e.Next),
		e.PerSecond,
	}
}

// throttle limits the attempts at an endpoint.
func (c *command) throttle(ctx context.Context, args []string) error {
	n, done := c.perSecond.Value, "no limit"
	if n > 0 {
		done = fmt.Sprintf("%s per second", printer.Plural(n, "attempt", ""))
	}
	return setEndpoint(func(q *deliveryqueue.Queue, ctx context.Context, endpoint string) error {
		return q.SetThrottle(ctx, endpoint, n)
	}, done)(c, ctx, args)
}

// setEndpoint returns a function that changes an endpoint.
func setEndpoint(
	set func(*deliveryqueue.Queue, context.Context, string) error, done string,
) func(*command, context.Context, []string) error {
	return func(c *command, ctx context.Context, args []string) error {
		endpoint := args[0]
		if err := checkEndpoint("URL", endpoint); err != nil {
			return err
		}
		return c.inStore(ctx, func(q *deliveryqueue.Queue) error {
			if err := set(q, ctx, endpoint); err != nil {
				return c.listError(ctx, err)
			}
			return c.done(endpoint + ": " + done)
		})
	}
}
