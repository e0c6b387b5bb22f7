package demo

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"example.com/awsretry"
)

// settled is the number of a scene's last seconds, which the checks are about.
const settled = 3

// throttledService shows adaptive mode with a service that admits fewer requests
// than its callers send.
func (d *demo) throttledService() {
	d.scene("Adaptive mode finds a throttled service's rate", fmt.Sprintf(
		"The service admits %v requests a second, and throttles the rest. "+
			"%d callers send as fast as they may: in standard\nmode, then in adaptive mode.", tableRate, callers))
	d.row("%s", d.palette.Faint("MODE      SECOND  ADMITTED  THROTTLED  SEND RATE  █ admitted ░ throttled"))
	t := d.transport()
	standard := d.load(t, 1, 1, nil)
	fewer := func(c counts) bool { return c.share() < standard.share()/2 }
	enough := func(c counts) bool { return c.admitted > settled*tableRate/4 }
	t = d.transport()
	t.Mode = awsretry.Adaptive
	// On a busy machine, it may need more than 6 seconds.
	adaptive := d.load(t, 6, 14, func(c counts) bool { return fewer(c) && enough(c) })
	d.say("")
	d.check(fewer(adaptive),
		"%.1f %% of the attempts were throttled in standard mode, %.1f %% in the last %d seconds of adaptive mode",
		100*standard.share(), 100*adaptive.share(), settled)
	d.check(enough(adaptive), "%.0f requests a second were admitted there, of the %v that the service allows",
		adaptive.admitted/settled, tableRate)
}

// counts are how many requests the service has admitted and throttled.
type counts struct{ admitted, throttled float64 }

func (c counts) share() float64 { return c.throttled / max(c.admitted+c.throttled, 1) }

const callers = 16

// load sends from all callers, of which each sends its next request after the last
// response. It prints a line for every second, and returns the counts of the last
// ones: after least seconds when done returns true for them, after most in any case.
func (d *demo) load(t *awsretry.Transport, least, most int, done func(counts) bool) (sum counts) {
	ctx, cancel := context.WithCancel(d.ctx) // before a deadline that is near, callers would not wait for a token
	var running sync.WaitGroup
	for range callers {
		running.Go(func() {
			for ctx.Err() == nil {
				d.send(ctx, t, d.request(http.MethodPost, "/table", nil, 0))
			}
		})
	}
	var last [settled]counts
	for n := 1; d.ctx.Err() == nil && (n <= least || n <= most && !done(sum)); n++ {
		select {
		case <-time.After(time.Second):
		case <-d.ctx.Done():
		}
		now, rate := counts{float64(d.server.admitted.Swap(0)), float64(d.server.throttled.Swap(0))}, "no limit"
		if state, _ := t.State(d.server.address); state.Limited {
			rate = fmt.Sprintf("%.1f/s", state.SendRate)
		}
		d.row("%-8s  %6d  %8.0f  %9.0f  %9s  %s%s", t.Mode, n, now.admitted, now.throttled, rate,
			d.palette.Good(bar("█", now.admitted/tableRate, 1.4)), d.palette.Throttle(bar("░", now.throttled/tableRate, 0.8)))
		last, sum = [settled]counts{last[1], last[2], now}, counts{}
		for _, c := range last {
			sum.admitted, sum.throttled = sum.admitted+c.admitted, sum.throttled+c.throttled
		}
	}
	cancel()
	running.Wait()
	return sum
}
