package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"example.com/awsretry"
)

// savedRequest shows a request that two failures do not spoil.
func (d *demo) savedRequest() error {
	d.scene("Retries save a request", "The server resets the connection, answers 503, and then works.")
	t := d.transport()
	r, err := d.send(t, http.MethodGet, "/flaky", nil, 0, true)
	if err != nil {
		return err
	}
	seen := d.server.requests("/flaky")
	d.check(r.status == http.StatusOK && r.attempts == 3 && seen == 3,
		fmt.Sprintf("%v; the server saw %s", r, count(seen, "request")))
	return nil
}

// badRequest shows that the error code decides, not the status alone.
func (d *demo) badRequest() error {
	d.scene("A bad request is not retried", "Two requests are answered 400: one is wrong, the other was merely too much just now.")
	for _, c := range []struct {
		path             string
		status, attempts int
	}{
		{"/invalid", http.StatusBadRequest, 1},
		{"/busy", http.StatusOK, 2},
	} {
		r, err := d.send(d.transport(), http.MethodGet, c.path, nil, 0, true)
		if err != nil {
			return err
		}
		seen := d.server.requests(c.path)
		d.check(r.status == c.status && r.attempts == c.attempts && seen == c.attempts,
			fmt.Sprintf("%v; the server saw %s", r, count(seen, "request")))
		if c.path == "/invalid" {
			d.say("")
		}
	}
	return nil
}

// replayedBody shows that a retry sends the bytes of the first attempt.
func (d *demo) replayedBody() error {
	const fileSize, streamSize = 4 << 20, 256 << 10
	d.scene("A body is sent again", "A file is uploaded, and the server resets the connection on the way. Then a stream that can be read only\nonce, which the server reads whole before it answers 503.")
	content := make([]byte, fileSize)
	rand.Read(content)
	file, err := os.CreateTemp("", "awsretry-demo-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if _, err := file.Write(content); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := d.replay("/upload", file, "the file", content); err != nil {
		return err
	}
	d.say("")
	content = content[:streamSize]
	return d.replay("/stream", struct{ io.Reader }{bytes.NewReader(content)}, "the stream", content)
}

func (d *demo) replay(path string, body io.Reader, name string, content []byte) error {
	before := len(d.server.received())
	r, err := d.send(d.transport(), http.MethodPut, path, body, int64(len(content)), true)
	if err != nil {
		return err
	}
	received := d.server.received()[before:]
	want := sha256.Sum256(content)
	const row = "   %-17s %10s bytes  SHA-256 %x…%s"
	d.row(row, name, grouped(len(content)), want[:6], "")
	same := 0
	for i, u := range received {
		note := ""
		if u.cut {
			note = d.palette.faint("  then the reset")
		}
		d.row(row, fmt.Sprintf("attempt %d brought", i+1), grouped(int(u.size)), u.sum[:6], note)
		if u.sum == want {
			same++
		}
	}
	d.check(r.status == http.StatusCreated && r.attempts == 2 && len(received) == 2 && received[1].sum == want,
		fmt.Sprintf("%v; %d of %d brought %s whole, byte for byte", r, same, len(received), name))
	return nil
}

// outage shows the retry token bucket: it runs dry, so that retries do not add to an outage, and fills up again.
func (d *demo) outage() error {
	d.scene("The retry token bucket in an outage", "The server answers everything with 500, and later works again. A retry costs 5 tokens; a request that\nsucceeds at once puts 1 back.")
	t := d.transport()
	t.Backoff = awsretry.Exponential{Initial: 2 * time.Millisecond, Max: 4 * time.Millisecond}
	d.row("   %s", d.palette.faint("SERVER     REQUESTS   FAILED  RETRIES  TOKENS"))

	if _, err := d.orders(t, false); err != nil {
		return err
	}
	const batches = 3
	var inOutage, after ordersResult
	for range batches {
		b, err := d.orders(t, true)
		if err != nil {
			return err
		}
		inOutage = inOutage.and(b)
	}
	for range batches {
		b, err := d.orders(t, false)
		if err != nil {
			return err
		}
		after = after.and(b)
	}
	d.say("")
	d.check(inOutage.failed == inOutage.requests && inOutage.lastRetries == 0 && inOutage.tokens < 5 && inOutage.retries == 100,
		fmt.Sprintf("in the outage %s led to %s, and the last %d of them to %s",
			count(inOutage.requests, "request"), count(inOutage.retries, "retry"), ordersBatch, count(inOutage.lastRetries, "retry")))
	d.check(after.failed == 0 && after.tokens == inOutage.tokens+after.requests,
		fmt.Sprintf("then %s put %s back", count(after.requests-after.failed, "success"), count(after.tokens-inOutage.tokens, "token")))

	d.say("\n   One more failure, with tokens to pay for retries:\n")
	d.server.down.Store(true)
	r, err := d.send(t, http.MethodGet, "/orders", nil, 0, true)
	if err != nil {
		return err
	}
	d.check(r.attempts == 3 && r.status == http.StatusInternalServerError, fmt.Sprintf("%v: %s made", r, count(r.attempts-1, "retry")))
	return nil
}

const ordersBatch = 40

// ordersResult is what came of some requests to /orders.
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
		r, err := d.send(t, http.MethodGet, "/orders", nil, 0, false)
		if err != nil {
			return o, err
		}
		if r.status != http.StatusOK {
			o.failed++
		}
		o.retries += r.attempts - 1
	}
	o.lastRetries = o.retries
	state, _ := t.State(d.server.address)
	o.tokens = state.Tokens
	server := d.palette.good("works    ")
	if down {
		server = d.palette.bad("is down  ")
	}
	const full = 500
	d.row("   %s  %8d  %7d  %7d  %6d  %s", server, o.requests, o.failed, o.retries, o.tokens, bar("█", float64(o.tokens)/full, 1))
	return o, nil
}

// throttledService shows what adaptive mode makes of a service that admits less than is asked of it.
func (d *demo) throttledService() error {
	const callers = 16
	d.scene("Adaptive mode finds a throttled service's rate", fmt.Sprintf(
		"The service admits %v requests a second, and throttles the rest. %d callers send as fast as they may: in standard\nmode, then in adaptive mode.", tableRate, callers))
	d.row("   %s", d.palette.faint("MODE      SECOND  ADMITTED  THROTTLED  SEND RATE  █ admitted ░ throttled"))
	standard := d.transport()
	before, err := d.load(standard, callers, d.times.standard)
	if err != nil {
		return err
	}
	adaptive := d.transport()
	adaptive.Mode = awsretry.Adaptive
	after, err := d.load(adaptive, callers, d.times.adaptive)
	if err != nil {
		return err
	}
	d.say("")
	settled := after[len(after)/2:] // the second half
	d.check(share(settled) < share(before)/4,
		fmt.Sprintf("%.1f %% of the attempts were throttled in standard mode, %.1f %% in the second half of adaptive mode", 100*share(before), 100*share(settled)))
	admitted := 0
	for _, s := range settled {
		admitted += s.admitted
	}
	rate := float64(admitted) / float64(len(settled))
	d.check(rate > 0.4*tableRate, fmt.Sprintf("%.0f requests a second were admitted there, of the %v that the service allows", rate, tableRate))
	return nil
}

// A second is what the service did in it.
type second struct{ admitted, throttled int }

// share is the part of the attempts that was throttled.
func share(seconds []second) float64 {
	var sum second
	for _, s := range seconds {
		sum.admitted += s.admitted
		sum.throttled += s.throttled
	}
	return float64(sum.throttled) / float64(max(sum.admitted+sum.throttled, 1))
}

// load sends from so many callers at once, each its next request after the answer, and prints a line for every second.
func (d *demo) load(t *awsretry.Transport, callers int, length time.Duration) ([]second, error) {
	ctx, cancel := context.WithCancel(d.ctx) // with a deadline, who could not be served before it would not wait
	defer cancel()
	defer time.AfterFunc(length, cancel).Stop()
	faults := make(chan error, callers)
	for range callers {
		go func() { faults <- d.call(ctx, t) }()
	}
	name := string(awsretry.Standard)
	if t.Mode != "" {
		name = string(t.Mode)
	}
	var seconds []second
	admitted, throttled := d.server.limited.counts()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for n := 1; n <= int(length/time.Second); n++ {
		select {
		case <-tick.C:
		case <-d.ctx.Done():
		}
		a, th := d.server.limited.counts()
		s := second{a - admitted, th - throttled}
		admitted, throttled = a, th
		seconds = append(seconds, s)
		rate := "no limit"
		if state, _ := t.State(d.server.address); state.Limited {
			rate = fmt.Sprintf("%.1f/s", state.SendRate)
		}
		d.row("   %-8s  %6d  %8d  %9d  %9s  %s", name, n, s.admitted, s.throttled, rate,
			d.palette.good(bar("█", float64(s.admitted)/tableRate, 1.4))+d.palette.throttle(bar("░", float64(s.throttled)/tableRate, 0.8)))
	}
	cancel()
	var fault error
	for range callers {
		fault = errors.Join(fault, <-faults)
	}
	return seconds, errors.Join(fault, d.ctx.Err())
}

// call sends one request after the other until ctx ends.
func (d *demo) call(ctx context.Context, t *awsretry.Transport) error {
	client := http.Client{Transport: t}
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.server.address+"/table", nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	return nil
}
