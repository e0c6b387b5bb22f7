package main

import (
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// The short run shows, as far as it goes, what the full one does.
func TestShortRun(t *testing.T) {
	t.Setenv(revisionVariable, "")
	r := short.run(io.Discard)

	throttled := figures(r.throttled[0])
	naive, adaptive, sdk := throttled[naiveName], throttled[adaptiveName], throttled[sdkAdaptiveName]
	if naive.goodput < 0.95 || naive.refused < 0.5 || naive.failed < 0.2 {
		t.Errorf("naive retries of a service that throttles: %+v", naive)
	}
	if adaptive.goodput < 0.8 || adaptive.goodput > 1.02 || adaptive.refused > 0.1 || adaptive.failed > 0.02 || adaptive.fair < 0.9 {
		t.Errorf("awsretry's adaptive mode: %+v", adaptive)
	}
	if sdk.goodput < 0.8 || sdk.goodput > 1.02 || sdk.refused > 0.1 {
		t.Errorf("the SDK's adaptive mode: %+v", sdk)
	}

	refuses, shared, hangs := figures(r.stormy[0]), figures(r.stormy[1]), figures(r.stormy[2])
	for name, f := range map[string]stormy{"refuses": refuses[noRetriesName], "shared": shared[noRetriesName], "hangs": hangs[noRetriesName]} {
		if math.Abs(f.during-1) > 0.05 || math.Abs(f.after-1) > 0.05 || f.failedDuring < 0.95 {
			t.Errorf("%s: without retries: %+v", name, f)
		}
	}
	if f := refuses[naiveName]; f.during < 2.8 || f.during > 3.05 || f.recovered != 0 {
		t.Errorf("naive retries of a service that refuses: %+v", f)
	}
	if one, many := shared["awsretry standard"], refuses["awsretry standard"]; one.during > 2 || one.during >= many.during {
		t.Errorf("one retry token bucket for all: %+v; one for each: %+v", one, many)
	}
	if f := hangs[naiveName]; f.recovered >= 0 || f.after < 2 {
		t.Errorf("naive retries of a service that hangs: %+v, want it not to recover", f)
	}
	if f := hangs[noRetriesName]; f.recovered < 1 {
		t.Errorf("without retries, a service that hangs: %+v, want it to recover when it has worked off its queue", f)
	}

	var out strings.Builder
	r.print(&out, short)
	tables, rows := 0, 0
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "###") {
			tables++
		}
		if strings.HasPrefix(line, "| ") {
			rows++
		}
	}
	if want := 4 * (1 + len(libraries)); tables != 4 || rows != want+2 {
		t.Errorf("%d tables with %d rows, want 4 with %d and two of the wall clock's\n%s", tables, rows, want, out.String())
	}
}

func figures[F any](rows []*row[F]) map[string]F {
	found := map[string]F{}
	for _, r := range rows {
		if r.on == virtualTime {
			found[r.library] = r.figures
		}
	}
	return found
}

func TestRecovered(t *testing.T) {
	for _, tt := range []struct {
		succeeded []float64
		want      int
	}{
		{[]float64{100, 99, 100, 100, 100, 0}, 0},
		{[]float64{0, 98, 99, 100, 100, 100, 100}, 2},
		{[]float64{100, 100, 100, 100, 98, 100, 100, 100, 100, 100}, 5},
		{[]float64{100, 100, 100, 100}, -1},
		{nil, -1},
	} {
		began := slices.Repeat([]float64{100}, len(tt.succeeded))
		if got := recovered(began, tt.succeeded); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.succeeded, got, tt.want)
		}
	}
}

func TestFigures(t *testing.T) {
	s := storm{clients: 2, callers: 1, rate: 1, before: time.Second, outage: 2 * time.Second, after: 6 * time.Second}
	call := func(begin int, ok bool) called {
		return called{time.Duration(begin)*time.Second + 1, time.Duration(begin) * time.Second, ok}
	}
	var calls []called
	for second := range 9 {
		calls = append(calls, call(second, second != 2 && second != 3), call(second, second == 0 || second > 3))
	}
	got := s.figures([]float64{2, 2, 6, 4, 2, 2, 2, 2, 2}, calls)
	want := stormy{
		during: 2, peak: 3, after: 14.0 / 12, recovered: 1, failedDuring: 0.75, failedAfter: 2.0 / 12, failed: 5,
		p50: time.Second, p99: 2 * time.Second,
	}
	if math.Abs(got.failedAfter-want.failedAfter) > 1e-12 {
		t.Errorf("failed after: %v, want %v", got.failedAfter, want.failedAfter)
	}
	got.failedAfter = want.failedAfter
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestJain(t *testing.T) {
	for _, tt := range []struct {
		of   []float64
		want float64
	}{
		{[]float64{3, 3, 3}, 1}, {[]float64{4, 0, 0, 0}, 0.25}, {[]float64{1, 3}, 0.8},
	} {
		if got := jain(tt.of); math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("%v: %v, want %v", tt.of, got, tt.want)
		}
	}
}

func TestTable(t *testing.T) {
	var out strings.Builder
	printTable(&out, []string{"library", "load"}, [][]string{{"a", "1.00×"}, {"longer than", percent(math.NaN())}})
	const want = `| library     |  load |
|-------------|------:|
| a           | 1.00× |
| longer than |     – |

`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
