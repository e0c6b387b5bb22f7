package main

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// The short run goes through every phase with every contender.
func TestShortRun(t *testing.T) {
	round, err := short.round(t.Context(), contenders, len(contenders), io.Discard)
	if errors.Is(err, errNoStore) {
		t.Skip("SKIPPED:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range contenders {
		asks := strings.HasPrefix(c.name, "redis_rate") || strings.HasPrefix(c.name, "token bucket")
		for of, f := range round[i] {
			if phase(of) > healthy && !c.usesStore {
				continue
			}
			refused := phase(of) == stopped && strings.HasSuffix(c.name, "fails the request")
			if !refused && f.requests == 0 || f.longest == 0 || f.p50 > f.p99 || f.p99 > f.longest {
				t.Errorf("%s, phase %d: %+v", c.name, of, f)
			}
			if (f.failed > 0) != refused {
				t.Errorf("%s, phase %d: %v requests failed", c.name, of, f.failed)
			}
		}
		if f := round[i][healthy]; (f.roundTrips > 0.5) != asks || (f.scripts > 0) != c.usesStore {
			t.Errorf("%s: %.1f round trips a request, %.1f scripts/s", c.name, f.roundTrips, f.scripts)
		}
		if f := round[i][slow]; asks != (f.p50 >= short.delay.Seconds()) {
			t.Errorf("%s: a store that is %v away adds %.4f s", c.name, short.delay, f.p50)
		}
		if f := round[i][hanging]; asks != (f.longest >= short.hangs.Seconds()/2) {
			t.Errorf("%s: a store that hangs for %v adds %.4f s", c.name, short.hangs, f.longest)
		}
	}

	var out strings.Builder
	short.print(&out, contenders, [][][phases]figures{round})
	tables, rows := 0, 0
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "####") {
			tables++
		}
		if strings.HasPrefix(line, "| ") {
			rows++
		}
	}
	if want := int(phases)*(2+len(contenders)) - 2*(int(phases)-1); tables != int(phases) || rows != want {
		t.Errorf("%d tables with %d rows, want %d with %d:\n%s", tables, rows, phases, want, out.String())
	}
}
