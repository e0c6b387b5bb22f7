package queue

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/dustin/go-humanize"

	"example.com/awsretry/cmd/awsretry-deliver/internal/policyfile"
	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/deliveryqueue"
	"example.com/awsretry/deliveryqueue/webhook"
)

// enqueue stores a request. Its errors are usage errors until the store is
// open.
func (c *command) enqueue(ctx context.Context, args []string) error {
	u, err := cli.ParseURL(args[0])
	if err != nil {
		return err
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && !c.private {
		if refused := (*webhook.AddressError)(nil); errors.As(webhook.CheckAddr(addr), &refused) {
			return fmt.Errorf("URL has the address %v (%s), which is not public; --allow-private accepts it",
				refused.Addr, refused.Kind)
		}
	}
	if err := c.checkKey(); err != nil {
		return err
	}
	options := deliveryqueue.Options{Endpoint: c.endpoint.Value, IdempotencyKey: c.key.Value, Once: c.once, Tags: c.filter.tags}
	if c.policy.Value != "" {
		if c.policy.Value == "-" && c.request.Data != nil && *c.request.Data == "@-" {
			return errors.New("--policy and --data are both to be read from standard input; only one of them can be")
		}
		file, err := policyfile.Read(c.policy.Value, c.In)
		if err != nil {
			return cli.Failed(err)
		}
		options.Policy = file.Policy
	}
	req, err := c.request.Make(ctx, u, http.MethodPost, c.In)
	if err != nil {
		if ctx.Err() != nil {
			return cli.Failed(context.Cause(ctx))
		}
		return err
	}
	if req.Body != nil {
		defer req.Body.Close()
	}
	q, err := c.open(ctx, true, deliveryqueue.Config{})
	if err != nil {
		return err
	}
	defer q.Close()
	id, err := q.Enqueue(ctx, req, options)
	if err != nil {
		return c.enqueueError(ctx, err)
	}
	if _, err := fmt.Fprintln(c.Out, id); err != nil {
		return cli.Failed(fmt.Errorf("delivery %d is stored, but its number could not be printed: %w", id, err))
	}
	return nil
}

// checkKey returns an error for an idempotency key that no header can have.
func (c *command) checkKey() error {
	key := c.key.Value
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("--key is %.40q; it must be of visible ASCII characters, without spaces", key)
	}
	const longest = 255
	if len(key) > longest {
		return fmt.Errorf("--key has %d characters; it must have 1 to %d", len(key), longest)
	}
	if key == "" {
		return nil
	}
	for _, header := range c.request.Headers {
		if name, _, _ := strings.Cut(header, ":"); strings.EqualFold(name, "Idempotency-Key") {
			return errors.New("--key and --header Idempotency-Key exclude each other; give one of them")
		}
	}
	return nil
}

func (c *command) enqueueError(ctx context.Context, err error) error {
	if tooLarge := (*deliveryqueue.BodyTooLargeError)(nil); errors.As(err, &tooLarge) {
		return fmt.Errorf(
			"--data is too long; a delivery's body may have %s bytes at most",
			humanize.Comma(tooLarge.Limit),
		)
	}
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)): // of reading the body
		return cli.Failed(err)
	case ctx.Err() != nil:
		err = errors.New("interrupted; the delivery may be stored")
	}
	return c.storeError(err)
}
