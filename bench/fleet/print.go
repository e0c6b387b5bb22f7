package main

import (
	"fmt"
	"io"
	"runtime"
	"time"

	"example.com/awsretry/bench/internal/output"
)

// A column of a table has the median of a figure over all rounds.
type column struct {
	name   string
	of     func(figures) float64
	format func(float64) string
}

var (
	roundTrips = column{"round trips a request", func(f figures) float64 { return f.roundTrips }, decimal}
	scripts    = column{"scripts/s", func(f figures) float64 { return f.scripts }, whole}
	goodput    = column{"goodput", func(f figures) float64 { return f.goodput }, percent}
	throttled  = column{"throttled", func(f figures) float64 { return f.throttled }, percent}
	most       = column{"most in a second, of the limit", func(f figures) float64 { return f.most }, percent}
	p50        = column{"added p50", func(f figures) float64 { return f.p50 }, duration}
	p99        = column{"p99", func(f figures) float64 { return f.p99 }, duration}
	longest    = column{"longest", func(f figures) float64 { return f.longest }, duration}
	failed     = column{"failed", func(f figures) float64 { return f.failed }, whole}
)

// print writes a table for each phase, of the figures of all rounds.
func (p plan) print(w io.Writer, among []contender, rounds [][][phases]figures) {
	fmt.Fprintf(w, "# Limiters that ask Redis for each request\n\nWritten by `cd bench && go run ./fleet -rounds %d`.\n"+
		"%s %s/%s; %s\n\n", len(rounds), runtime.Version(), runtime.GOOS, runtime.GOARCH,
		output.Versions("redis_rate", "go-redis", "valkey-go"))
	titles := [phases]string{
		healthy: "The store is well",
		slow:    fmt.Sprintf("The store is %d ms away", p.delay.Milliseconds()),
		hanging: fmt.Sprintf("The store hangs for %.3g s", p.hangs.Seconds()),
		stopped: fmt.Sprintf("The store is stopped for %.3g s, and empty afterwards", p.stopped.Seconds()),
	}
	for of, title := range titles {
		fmt.Fprintf(w, "## %s\n\n", title)
		columns := []column{goodput, throttled, most, failed, p50, p99, longest}
		if phase(of) == healthy {
			columns = []column{roundTrips, scripts, goodput, throttled, most, failed, p50, p99, longest}
		}
		header := []any{""}
		for _, c := range columns {
			header = append(header, c.name)
		}
		var rows [][]any
		for i, contender := range among {
			if phase(of) != healthy && !contender.usesStore {
				continue
			}
			row := []any{contender.name}
			for _, c := range columns {
				var values []float64
				for _, round := range rounds {
					values = append(values, c.of(round[i][of]))
				}
				row = append(row, c.format(output.Median(values)))
			}
			rows = append(rows, row)
		}
		output.Table(w, 1, header, rows)
	}
}

func decimal(x float64) string { return fmt.Sprintf("%.1f", x) }
func whole(x float64) string   { return fmt.Sprintf("%.0f", x) }
func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

// duration has three digits at most, or microseconds.
func duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", seconds)
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.0f ms", seconds*1e3)
	case d >= time.Millisecond:
		return fmt.Sprintf("%.1f ms", seconds*1e3)
	}
	return fmt.Sprintf("%.2f ms", seconds*1e3)
}
