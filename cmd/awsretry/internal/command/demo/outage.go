package demo

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"example.com/awsretry"
)

// outage shows the retry token bucket: it runs dry, so that retries do not add
// to an outage, and fills up again.
func (d *demo) outage() error {
	d.scene("The retry token bucket in an outage",
		"The server responds to everything with 500, and later works again. A retry costs 5 tokens; a request that\n"+
			"succeeds at once puts 1 back.")
	t := d.transport()
	t.Backoff = awsretry.Exponential{Initial: 2 * time.Millisecond, Max: 4 * time.Millisecond}
	d.row("   %s", d.Palette.Faint("SERVER     REQUESTS   FAILED  RETRIES  TOKENS"))

	if _, err := d.orders(t, false); err != nil {
		return err
	}
	const batches = 3
	var during, after ordersResult
	for range batches {
		b, err := d.orders(t, true)
		if err != nil {
			return err
		}
		during = during.and(b)
	}
	for range batches {
		b, err := d.orders(t, false)
		if err != nil {
			return err
		}
		after = after.and(b)
	}
	d.Say("")
	d.check(during.failed == during.requests && during.lastRetries == 0 && during.tokens < 5 && during.retries == 100,
		fmt.Sprintf("in the outage %s led to %s, and the last %d of them to %s",
			english.Plural(during.requests, "request", ""), english.Plural(during.retries, "retry", ""),
			ordersBatch, english.Plural(during.lastRetries, "retry", "")))
	d.check(after.failed == 0 && after.tokens == during.tokens+after.requests,
		fmt.Sprintf("then %s put %s back", english.Plural(after.requests-after.failed, "success", ""),
			english.Plural(after.tokens-during.tokens, "token", "")))

	d.Say("\n   One more failure, with tokens to pay for retries:\n")
	d.server.down.Store(true)
	o, err := d.get(t, "/orders")
	if err != nil {
		return err
	}
	d.check(o.attempts == 3 && o.status == http.StatusInternalServerError,
		fmt.Sprintf("%v: %s made", o, english.Plural(o.attempts-1, "retry", "")))
	return nil
}

const ordersBatch = 40

// ordersResult is the outcome of requests to /orders.
type ordersResult struct {
	requests, failed, retries int
	lastRetries               int // of the last batch
	tokens                    int // after it
}

func (o ordersResult) and(next ordersResult) ordersResult {
	return ordersResult{
		requests:    o.requests + next.requests,
		failed:      o.failed + next.failed,
		retries:     o.retries + next.retries,
		lastRetries: next.lastRetries,
		tokens:      next.tokens,
	}
}

// orders sends a batch of requests and prints a line about it.
func (d *demo) orders(t *awsretry.Transport, down bool) (ordersResult, error) {
	d.server.down.Store(down)
	o := ordersResult{requests: ordersBatch}
	for range o.requests {
		one, err := d.send(t, request{method: http.MethodGet, path: "/orders"})
		if err != nil {
			return o, err
		}
		if one.status != http.StatusOK {
			o.failed++
		}
		o.retries += one.attempts - 1
	}
	o.lastRetries = o.retries
	state, _ := t.State(d.server.address)
	o.tokens = state.Tokens
	server := d.Palette.Good("works    ")
	if down {
		server = d.Palette.Bad("is down  ")
	}
	const full = 500
	d.row("   %s  %8d  %7d  %7d  %6d  %s", server, o.requests, o.failed, o.retries, o.tokens,
		bar("█", float64(o.tokens)/full, 1))
	return o, nil
}

// bar draws a part of a bar of 25 characters. A part larger than most ends in
// an ellipsis.
func bar(fill string, part, most float64) string {
	const whole = 25
	if part > most {
		return strings.Repeat(fill, int(most*whole)) + "…"
	}
	return strings.Repeat(fill, int(max(part, 0)*whole+0.5))
}
