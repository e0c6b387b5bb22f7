package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"example.com/awsretry"
)

// For how many seconds the scene sends. On a busy machine, adaptive mode may need
// more than usual.
const (
	standardSeconds     = 1
	adaptiveSeconds     = 6
	mostAdaptiveSeconds = 14
	settledSeconds      = 3 // the last ones, which the checks are about
)

// throttledService shows adaptive mode with a service that admits fewer requests
// than its callers send.
func (d *demo) throttledService() error {
	const callers = 16
	d.scene("Adaptive mode finds a throttled service's rate", fmt.Sprintf(
		"The service admits %v requests a second, and throttles the rest. "+
			"%d callers send as fast as they may: in standard\nmode, then in adaptive mode.", tableRate, callers))
	d.row("   %s", d.Palette.Faint("MODE      SECOND  ADMITTED  THROTTLED  SEND RATE  █ admitted ░ throttled"))
	standard, err := d.load(d.transport(), callers, func(s seconds) bool { return len(s) == standardSeconds })
	if err != nil {
		return err
	}
	fewer := func(s seconds) bool { return s.settled().share() < standard.share()/2 }
	enough := func(s seconds) bool { return s.settled().rate() > tableRate/4 }
	transport := d.transport()
	transport.Mode = awsretry.Adaptive
	adaptive, err := d.load(transport, callers, func(s seconds) bool {
		return len(s) == mostAdaptiveSeconds || len(s) >= adaptiveSeconds && fewer(s) && enough(s)
	})
	if err != nil {
		return err
	}
	d.Say("")
	d.check(fewer(adaptive), fmt.Sprintf(
		"%.1f %% of the attempts were throttled in standard mode, %.1f %% in the last %d seconds of adaptive mode",
		100*standard.share(), 100*adaptive.settled().share(), settledSeconds))
	d.check(enough(adaptive), fmt.Sprintf(
		"%.0f requests a second were admitted there, of the %v that the service allows",
		adaptive.settled().rate(), tableRate))
	return nil
}

// A second is the number of requests that the service admitted and throttled in
// a second.
type second struct{ admitted, throttled int64 }

type seconds []second

func (s seconds) settled() seconds { return s[max(len(s)-settledSeconds, 0):] }

func (s seconds) sums() (admitted, throttled int64) {
	for _, second := range s {
		admitted += second.admitted
		throttled += second.throttled
	}
	return admitted, throttled
}

// share returns the part of the attempts that was throttled.
func (s seconds) share() float64 {
	admitted, throttled := s.sums()
	return float64(throttled) / float64(max(admitted+throttled, 1))
}

// rate returns the number of admitted requests a second.
func (s seconds) rate() float64 {
	admitted, _ := s.sums()
	return float64(admitted) / float64(len(s))
}

// load sends from the given number of callers until done returns true, and prints
// a line for every second. Each caller sends its next request after the last response.
func (d *demo) load(t *awsretry.Transport, callers int, done func(seconds) bool) (seconds, error) {
	ctx, cancel := context.WithCancel(d.ctx) // before a deadline that is near, callers would not wait for a token
	defer cancel()
	faults := make(chan error, callers)
	for range callers {
		go func() { faults <- d.call(ctx, t) }()
	}
	name := awsretry.Standard
	if t.Mode != "" {
		name = t.Mode
	}
	var all seconds
	before := d.server.tableCounts()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for d.ctx.Err() == nil && !done(all) {
		select {
		case <-tick.C:
		case <-d.ctx.Done():
		}
		now := d.server.tableCounts()
		s := second{now.admitted - before.admitted, now.throttled - before.throttled}
		before = now
		all = append(all, s)
		rate := "no limit"
		if state, _ := t.State(d.server.address); state.Limited {
			rate = fmt.Sprintf("%.1f/s", state.SendRate)
		}
		d.row("   %-8s  %6d  %8d  %9d  %9s  %s", name, len(all), s.admitted, s.throttled, rate,
			d.Palette.Good(bar("█", float64(s.admitted)/tableRate, 1.4))+
				d.Palette.Throttle(bar("░", float64(s.throttled)/tableRate, 0.8)))
	}
	cancel()
	var fault error
	for range callers {
		fault = errors.Join(fault, <-faults)
	}
	return all, errors.Join(fault, d.ctx.Err())
}

// tableCounts returns the counts of all requests to /table until now.
func (s *server) tableCounts() second { return second{s.admitted.Load(), s.throttled.Load()} }

// call sends one request after another until ctx ends.
func (d *demo) call(ctx context.Context, t *awsretry.Transport) error {
	client := http.Client{Transport: t}
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.server.address+"/table", nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		} else if ctx.Err() == nil {
			return err
		}
	}
	return nil
}
