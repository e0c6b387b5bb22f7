package main

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

var short = plan{
	processes: 4, callers: 2, rate: 50, calls: 20,
	settle: 500 * time.Millisecond, healthy: 2 * time.Second, slow: time.Second,
	hangs: time.Second, stopped: time.Second, after: 500 * time.Millisecond, delay: 20 * time.Millisecond,
}

// The short run goes through every phase with one contender of each kind.
func TestShortRun(t *testing.T) {
	among := []contender{contenders[0], contenders[3], contenders[5], contenders[7]}
	round, faults := make([][phases]figures, len(among)), make([]error, len(among))
	var running sync.WaitGroup
	for i, c := range among {
		running.Go(func() { round[i], faults[i] = short.run(t.Context(), c) })
	}
	running.Wait()
	err := errors.Join(faults...)
	if errors.Is(err, errNoStore) {
		t.Skip("SKIPPED:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range among {
		for of, f := range round[i] {
			mayFail := phase(of) == stopped && strings.HasSuffix(c.name, "fails the request")
			some := f.requests > 0 || mayFail && f.failed > 0 // on a loaded machine all fail
			if f.p50 > f.p99 || f.p99 > f.longest || some != (c.usesStore || phase(of) == healthy) {
				t.Errorf("%s, phase %d: %+v", c.name, of, f)
			}
			if f.failed > 0 && !mayFail {
				t.Errorf("%s, phase %d: %v requests failed", c.name, of, f.failed)
			}
		}
		f := round[i][healthy]
		if f.longest == 0 || (f.roundTrips > 0) != c.asks || (f.scripts > 0) != c.usesStore {
			t.Errorf("%s: %+v", c.name, f)
		}
		// Requests that ask the store meet its faults.
		if f := round[i][slow]; c.asks && f.longest < short.delay.Seconds() {
			t.Errorf("%s: a store that is %v away adds %.4f s", c.name, short.delay, f.longest)
		}
		if f := round[i][hanging]; c.asks && f.longest < short.hangs.Seconds()/2 {
			t.Errorf("%s: a store that hangs for %v adds %.4f s", c.name, short.hangs, f.longest)
		}
	}

	var out strings.Builder
	short.print(&out, among, [][][phases]figures{round})
	tables, rows := strings.Count("\n"+out.String(), "\n## "), strings.Count(out.String(), "\n| ")
	// Each table has a header and a separator, and one contender has no store.
	if want := int(phases)*(2+len(among)) - (int(phases) - 1); tables != int(phases) || rows != want {
		t.Errorf("%d tables with %d rows, want %d with %d:\n%s", tables, rows, phases, want, out.String())
	}
}
