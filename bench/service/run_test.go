package main

import (
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

// The short run shows, as far as it goes, what the full one does.
func TestShortRun(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates for a minute with the race detector")
	}
	r, err := short.run(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}

	t.Run("throttling", func(t *testing.T) {
		figures := byLibrary(r.throttlings[0].rows)
		if f := figures[naiveName]; f.goodput < 0.95 || f.refused < 0.5 || f.failed < 0.2 {
			t.Errorf("naive retries: %+v", f)
		}
		if f := figures[adaptiveName]; f.goodput < 0.8 || f.goodput > 1.02 || f.refused > 0.1 ||
			f.failed > 0.02 || f.fair < 0.9 {
			t.Errorf("awsretry's adaptive mode: %+v", f)
		}
		if f := figures[sdkAdaptiveName]; f.goodput < 0.8 || f.goodput > 1.02 || f.refused > 0.1 {
			t.Errorf("the SDK's adaptive mode: %+v", f)
		}
		// The wall clock's seconds are too few for the limiters to find the rate,
		// and may be too few for a busy machine to find anything.
		for _, name := range []string{adaptiveName, sdkAdaptiveName} {
			if f, ok := figures[name+wallClock]; !ok || f.failed == 1 {
				t.Errorf("%s on the wall clock: %+v", name, f)
			}
		}
	})

	t.Run("pacing", func(t *testing.T) {
		if f := byLibrary(r.pacings[0].rows)[scaledName]; f.goodput < 0.95 || f.refused > 0.05 || f.failed > 0.02 ||
			f.begun < 0 || f.begun > 10 {
			t.Errorf("scaled pacing: %+v", f)
		}
		hourlies := byLibrary(r.hourlies[0].rows)
		if f := hourlies[standardName]; f.retries < 0.95 || f.cleared < 0 || f.cleared > 20*time.Second {
			t.Errorf("standard mode at an hourly limit: %+v", f)
		}
		if f := hourlies[adaptiveName]; f.goodput < 0.8 || f.retries < 0.1 || f.retries > 0.9 {
			t.Errorf("adaptive mode at an hourly limit: %+v", f)
		}
		if f := hourlies[limitsName]; f.goodput < 0.9 || f.retries > 0.02 {
			t.Errorf("with the limits that the service announces: %+v", f)
		}
	})
	t.Run("budgets", func(t *testing.T) {
		figures := byLibrary(r.fleets[0].rows)
		standard, share := figures[standardName], figures[standardName+", Quota.Share 0.2"]
		if standard.Amplification < 1.5 || share.Amplification > 1.2 || share.FailedShare > standard.FailedShare+0.01 {
			t.Errorf("standard mode has a load of %.2f, and with a share of %.2f", standard.Amplification, share.Amplification)
		}
	})
	t.Run("clients of the SDK", func(t *testing.T) {
		for name, f := range byLibrary(r.sdkThrottlings[0].rows) {
			paced := strings.Contains(name, "adaptive") || strings.Contains(name, "Scaled")
			if paced && !strings.HasSuffix(name, wallClock) && (f.goodput < 0.9 || f.refused > 0.1 || f.failed > 0.02) {
				t.Errorf("%s: %+v", name, f)
			}
		}
		after := byLibrary(r.sdkStorms[0].rows)
		for _, name := range []string{sdkAdaptiveName, awssdkName} {
			if f := after[name]; f.recovered < 0 || f.failedAfter > 0.03 {
				t.Errorf("%s after an outage: %+v", name, f)
			}
		}
	})
	for _, l := range r.loops {
		t.Run(l.of.name, func(t *testing.T) {
			figures := byLibrary(l.rows)
			spins, waits := figures[standardName], figures[longPollName]
			if spins.failed < 5000 || waits.failed < 150 || waits.failed > 300 {
				t.Errorf("standard mode: %+v; with LongPoll: %+v", spins, waits)
			}
		})
	}

	refuses, shared, hangs := byLibrary(r.storms[0].rows), byLibrary(r.storms[1].rows), byLibrary(r.storms[2].rows)
	for name, figures := range map[string]map[string]stormFigures{
		"refuses": refuses, "shared": shared, "hangs": hangs,
	} {
		t.Run("no retries of a service that "+name, func(t *testing.T) {
			if f := figures[noRetriesName]; math.Abs(f.during-1) > 0.05 || math.Abs(f.after-1) > 0.05 ||
				f.failedDuring < 0.95 {
				t.Errorf("got %+v", f)
			}
		})
	}
	t.Run("a service that refuses", func(t *testing.T) {
		if f := refuses[naiveName]; f.during < 2.8 || f.during > 3.05 || f.recovered < 0 || f.recovered > 2 {
			t.Errorf("naive retries: %+v", f)
		}
		if one, many := shared[standardName], refuses[standardName]; one.during > 2 || one.during >= many.during {
			t.Errorf("one retry token bucket for all: %+v; one for each: %+v", one, many)
		}
	})
	t.Run("a service that hangs", func(t *testing.T) {
		if f := hangs[naiveName]; f.recovered >= 0 || f.after < 2 {
			t.Errorf("naive retries: %+v, want it not to recover", f)
		}
		if f := hangs[noRetriesName]; f.recovered < 1 {
			t.Errorf("without retries: %+v, want it to recover when its queue is empty", f)
		}
	})
	t.Run("tables", func(t *testing.T) {
		var out strings.Builder
		for _, p := range r.pages() {
			p.print(&out)
		}
		tables, rows := strings.Count(out.String(), "\n## "), strings.Count(out.String(), "\n| ")
		// Each table has a header and a separator. Two have rows of the wall
		// clock: two and three.
		want := 4*(2+len(libraries)) + 2 + (2 + len(pacers)) + (2 + len(hourlyPacers)) + 2*(2+len(inLoops())) + 2*(2+len(retryers)) + 3 + 2 + len(budgets)
		if tables != 11 || rows != want {
			t.Errorf("%d tables with %d rows, want 11 with %d\n%s", tables, rows, want, out.String())
		}
	})
}

func byLibrary[F any](rows []row[F]) map[string]F {
	found := map[string]F{}
	for _, r := range rows {
		found[r.library] = r.figures
	}
	return found
}

func TestOnly(t *testing.T) {
	for _, tt := range []struct {
		tables                                      string
		throttlings, storms, pacings, hourlies, sdk int
	}{
		{"", 4, 3, 10, 1, 5}, {"throttling", 4, 0, 0, 0, 0}, {"storms", 0, 3, 0, 0, 0}, {"pacing", 0, 0, 10, 1, 0},
		{"sdk", 0, 0, 0, 0, 5},
	} {
		c, err := full.only(tt.tables)
		sdk := len(c.sdkThrottlings) + len(c.sdkStorms)
		if err != nil || len(c.throttlings) != tt.throttlings || len(c.storms) != tt.storms ||
			len(c.pacings) != tt.pacings || len(c.hourlies) != tt.hourlies || sdk != tt.sdk {
			t.Errorf("%q: %d throttlings, %d storms, %d pacings, %d hourlies and %d of the SDK, %v", tt.tables,
				len(c.throttlings), len(c.storms), len(c.pacings), len(c.hourlies), sdk, err)
		}
	}
	if _, err := full.only("all"); err == nil {
		t.Error("there is no error for tables that do not exist")
	}
}
