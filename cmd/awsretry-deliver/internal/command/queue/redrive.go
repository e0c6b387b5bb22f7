package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/printer"
	"example.com/awsretry/cmd/internal/term"
	"example.com/awsretry/deliveryqueue"
)

// redrive makes what the flags select, by default dead letters, wait for delivery
// again.
func (c *command) redrive(ctx context.Context, args []string) error {
	filter, err := c.filter.filter(args, time.Now())
	if err != nil {
		return err
	}
	filter.State = cmp.Or(filter.State, deliveryqueue.Dead)
	one, many := "dead letter", ""
	if filter.State != deliveryqueue.Dead {
		one, many = "delivery", "deliveries"
	}
	return c.inStore(ctx, func(q *deliveryqueue.Queue) error {
		faults, err := c.checkIDs(ctx, q, filter.IDs, filter.State)
		if err != nil {
			return err
		}
		if c.dryRun {
			l := c.newListing(ctx)
			if err := l.printAll(ctx, q, filter); err != nil {
				return c.listError(ctx, err)
			}
			return unlessFaults(l.endDry("delivered again"), faults)
		}
		var n int
		if c.until > 0 {
			n, err = q.RedriveUntil(ctx, filter, time.Now().Add(time.Duration(c.until)))
		} else {
			n, err = q.Redrive(ctx, filter)
		}
		refused := 0
		if passed := (*deliveryqueue.DeadlinePassedError)(nil); errors.As(err, &passed) {
			refused = passed.N
			faults++
			c.Fault(printer.Plural(refused, one, many) +
				" not delivered again: the deadline has passed, and --deadline gives another")
		} else if err != nil {
			return c.listError(ctx, err)
		}
		text := printer.Plural(n, one, many) + " will be delivered again"
		if !c.json {
			return unlessFaults(c.done(text), faults)
		}
		err = term.NewEncoder(c.Out).Encode(struct {
			Redriven int `json:"redriven"`
			Refused  int `json:"refused,omitempty"` // because their deadlines have passed
		}{n, refused})
		if err != nil {
			err = fmt.Errorf("%s, but that could not be printed: %w", text, err)
		}
		return unlessFaults(cli.Failed(err), faults)
	})
}

// unlessFaults returns err or, if it is nil, an error if there were faults, which
// have been reported.
func unlessFaults(err error, faults int) error {
	if err == nil && faults > 0 {
		return cli.Reported(cli.Failure)
	}
	return err
}

// checkIDs reports the IDs that do not exist and, unless want is "", those of
// deliveries in another state. It returns how many it reported.
func (c *command) checkIDs(
	ctx context.Context, q *deliveryqueue.Queue, ids []int64, want deliveryqueue.State,
) (faults int, err error) {
	if len(ids) == 0 {
		return 0, nil
	}
	found := make(map[int64]deliveryqueue.State)
	for d, err := range q.List(ctx, deliveryqueue.Filter{IDs: ids}) {
		if err != nil {
			return 0, c.listError(ctx, err)
		}
		found[d.ID] = d.State
	}
	for _, id := range ids {
		switch state := found[id]; {
		case state == "":
			c.fault(id, "there is no such delivery")
		case want != "" && state != want:
			c.fault(id, fmt.Sprintf("it is %s, not %s", state, want))
		default:
			continue
		}
		faults++
	}
	return faults, nil
}

// fault reports what is wrong with a delivery.
func (c *command) fault(id int64, text string) { c.Fault(fmt.Sprintf("%d: %s", id, text)) }

// cancel cancels the deliveries with the given numbers, and reports each, or all
// that the flags select.
func (c *command) cancel(ctx context.Context, args []string) error {
	filter, err := c.filter.filter(args, time.Now())
	if err != nil {
		return err
	}
	ids, flags := filter.IDs, filter
	flags.IDs = nil
	selects := !reflect.ValueOf(flags).IsZero()
	switch {
	case len(ids) > 0 && (selects || c.dryRun):
		return errors.New("ID and flags exclude each other; give the numbers alone")
	case len(ids) == 0 && !selects:
		return errors.New("ID is missing; it must be the number of a delivery, or a flag must say which")
	}
	return c.inStore(ctx, func(q *deliveryqueue.Queue) error {
		if len(ids) == 0 {
			return c.cancelAll(ctx, q, flags)
		}
		return c.cancelIDs(ctx, q, ids)
	})
}

// cancelAll cancels the deliveries that a filter selects.
func (c *command) cancelAll(ctx context.Context, q *deliveryqueue.Queue, filter deliveryqueue.Filter) error {
	if c.dryRun {
		l := c.newListing(ctx)
		for _, state := range []deliveryqueue.State{deliveryqueue.Waiting, deliveryqueue.Running, deliveryqueue.Dead} {
			of := filter
			if of.State = state; filter.State != "" && filter.State != state {
				continue
			}
			if err := l.printAll(ctx, q, of); err != nil {
				return c.listError(ctx, err)
			}
		}
		return l.endDry("canceled")
	}
	n, err := q.CancelAll(ctx, filter)
	if err != nil {
		return c.listError(ctx, err)
	}
	return c.done(printer.Plural(n, "delivery", "deliveries") + " canceled")
}

// cancelIDs cancels deliveries, and reports each.
func (c *command) cancelIDs(ctx context.Context, q *deliveryqueue.Queue, ids []int64) error {
	faults := 0
	for _, id := range ids {
		switch err := q.Cancel(ctx, id); {
		case ctx.Err() != nil:
			return cli.Failed(context.Cause(ctx))
		case errors.Is(err, deliveryqueue.ErrNotFound):
			c.fault(id, "there is no such delivery")
			faults++
			continue
		case err != nil:
			c.fault(id, strings.Replace(storeText(err), fmt.Sprintf("delivery %d is", id), "it is", 1))
			faults++
			continue
		}
		text := "canceled"
		for d, err := range q.List(ctx, deliveryqueue.Filter{IDs: []int64{id}}) {
			if err == nil && d.State == deliveryqueue.Running {
				text = "canceled, unless the attempt in progress succeeds or is the last"
			}
		}
		if err := c.done(fmt.Sprintf("%d: %s", id, text)); err != nil {
			return err
		}
	}
	return unlessFaults(nil, faults)
}
