package measure_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
)

func TestDbg(t *testing.T) {
	if os.Getenv("DBG") == "" {
		t.Skip()
	}
	pacing := awsretry.CubicPacing
	if os.Getenv("DBG") == "scaled" {
		pacing = awsretry.ScaledPacing
	}
	*virtual = true
	synctest.Test(t, func(t *testing.T) {
		m := newMeasurement(t, pacing)
		store := &fleettest.Store{Latency: time.Millisecond}
		m.client = func() fleet.Client { return store }
		ctx, cancel := context.WithCancel(t.Context())
		if os.Getenv("UNEQ") != "" {
			unequal(m, ctx)
		} else {
			callersEach(4)(m, ctx)
		}
		for range 200 {
			from := m.service.now()
			time.Sleep(250 * time.Millisecond)
			n, bad := 0, 0
			for _, x := range m.service.between(from, m.service.now()) {
				n++
				if !x.accepted {
					bad++
				}
			}
			if os.Getenv("STEPS") != "" {
				if from > 10*time.Second && from < 10250*time.Millisecond {
					m.service.setRate(20)
				}
				if from > 25*time.Second && from < 25250*time.Millisecond {
					m.service.setRate(200)
				}
			}
			fmt.Printf("%6.2f rate %6.1f sent %4d/s bad %d tokens %.1f\n", from.Seconds(), m.rate(ctx), 4*n, bad, m.service.tokens)
		}
		cancel()
		for _, p := range m.processes {
			p.leave()
		}
	})
}
