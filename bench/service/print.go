package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"example.com/awsretry/bench/internal/output"
)

// A page is a file of results: the tables of one -only.
type page struct {
	file, only, title string
	terms             string // what the columns mean
	tables            func(io.Writer)
}

// pages returns the pages that have tables.
func (r results) pages() []page {
	var found []page
	add := func(has bool, p page) {
		if has {
			found = append(found, p)
		}
	}
	add(len(r.throttlings) > 0, page{"throttling.md", "throttling", "A modeled service that throttles", ofCalls, func(w io.Writer) {
		for _, t := range r.throttlings {
			printThrottling(w, t, false)
		}
	}})
	add(len(r.loops) > 0, page{"loops.md", "loops", "Closed loops", ofLoops, r.printLoops})
	add(len(r.storms) > 0, page{"outages.md", "storms", "A service that is down for 30 s", ofOutages, func(w io.Writer) {
		printStorms(w, r.storms)
	}})
	add(len(r.pacings)+len(r.hourlies) > 0, page{"pacing.md", "pacing", "Services of every size", ofCalls + ofSearch, func(w io.Writer) {
		for _, t := range r.pacings {
			printThrottling(w, t, true)
		}
		for _, t := range r.hourlies {
			t.of.print(w, t.rows)
		}
	}})
	const sizes = "An outage, and retries of one process to 10,000"
	add(len(r.fleets) > 0, page{"budgets.md", "budgets", sizes, ofBudgets, func(w io.Writer) { printBudgets(w, r.fleets) }})
	const sdk = "The retryers of the AWS SDK for Go and of awssdk"
	add(len(r.sdkThrottlings)+len(r.sdkStorms) > 0, page{"awssdk.md", "sdk", sdk, ofCalls + ofOutages, func(w io.Writer) {
		for _, t := range r.sdkThrottlings {
			printThrottling(w, t, false)
		}
		printStorms(w, r.sdkStorms)
	}})
	return found
}

// print writes the page as Markdown.
func (p page) print(w io.Writer) {
	fmt.Fprintf(w, "# %s\n\nWritten by `cd bench && go run ./service -only %s`.\n%s %s/%s; %s\n\n",
		p.title, p.only, runtime.Version(), runtime.GOOS, runtime.GOARCH,
		output.Versions("aws-sdk-go-v2", "go-retryablehttp", "rehttp", "failsafe-go"))
	p.tables(w)
	fmt.Fprint(w, p.terms)
}

// write writes each page to a file in the folder.
func (r results) write(dir string) error {
	for _, p := range r.pages() {
		var text bytes.Buffer
		p.print(&text)
		if err := os.WriteFile(filepath.Join(dir, p.file), text.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func printStorms(w io.Writer, storms []comparison[storm, stormFigures]) {
	for _, t := range storms {
		fmt.Fprintf(w, "## %s\n\n%s\n\n", t.of.name, t.of.about())
		var cells [][]any
		for _, row := range t.rows {
			f := row.figures
			recovered := fmt.Sprintf("> %.0f s", t.of.after.Seconds())
			if f.recovered >= 0 {
				recovered = fmt.Sprintf("%d s", f.recovered)
			}
			cells = append(cells, []any{
				row.library, times(f.during), times(f.peak), times(f.after), recovered,
				percent(f.failedDuring), percent(f.failedAfter), seconds(f.p50), seconds(f.p99),
			})
		}
		output.Table(w, 1, []any{
			"library", "load in the outage", "worst second", "load after it", "recovered after",
			"failed in the outage", "failed after it", "p50 in the outage", "p99",
		}, cells)
	}
}

// printThrottling writes the table of a throttling. For pacers it has the time
// that they take to find the rate, and not the callers' shares.
func printThrottling(w io.Writer, t comparison[throttling, throttlingFigures], pacing bool) {
	fmt.Fprintf(w, "## %s\n\n%s\n\n", t.of.name, t.of.about(!pacing))
	byClient := t.of.virtual.scenario.Clients.Count > 1
	columns := []struct {
		name  string
		shown bool
		value func(throttlingFigures) string
	}{
		{"goodput", true, func(f throttlingFigures) string { return percent(f.goodput) }},
		{"throttled", true, func(f throttlingFigures) string { return percent(f.refused) }},
		{"calls failed", true, func(f throttlingFigures) string { return percent(f.failed) }},
		{"p50", true, func(f throttlingFigures) string { return seconds(f.p50) }},
		{"p99", true, func(f throttlingFigures) string { return seconds(f.p99) }},
		{"Jain, callers", true, func(f throttlingFigures) string { return index(f.fair) }},
		{"Jain, clients", byClient, func(f throttlingFigures) string { return index(f.fairClients) }},
		{"90 % after", pacing, func(f throttlingFigures) string { return found(f.begun) }},
		{"after a step", pacing && len(t.of.virtual.scenario.Events) > 0,
			func(f throttlingFigures) string { return found(f.stepped) }},
	}
	header := []any{"library"}
	cells := make([][]any, len(t.rows))
	for i, row := range t.rows {
		cells[i] = []any{row.library}
	}
	for _, c := range columns {
		if !c.shown {
			continue
		}
		header = append(header, c.name)
		for i, row := range t.rows {
			cells[i] = append(cells[i], c.value(row.figures))
		}
	}
	output.Table(w, 1, header, cells)
}

// The meanings of the columns.
const (
	ofCalls = `- goodput: successful calls / those that the service could have served
- throttled: of the attempts; calls failed: of the calls
- p50, p99: of a call, successful or not, with its delays and its time in line
- Jain: Jain's fairness index of the successful calls; 1 if all have the same
`
	ofSearch = `- 90 % after, after a step: seconds until the goodput is nine tenths of what the service gives, from the beginning of
  the run, and from the slowest step on
`
	ofLoops   = "- throttled: of the attempts\n"
	ofBudgets = "- load: attempts / calls\n"
	ofOutages = `- p50 in the outage, p99: of the calls that begin in the outage
- load: attempts / calls; worst second: of attempts, since the outage began, / calls
- recovered after: from the end of the outage to the first of five seconds in a row in which 99 % of the new calls
  succeed
`
)

func percent(part float64) string { return orNone("%.1f %%", 100*part) }

func times(n float64) string { return orNone("%.2f×", n) }

func index(n float64) string { return orNone("%.3f", n) }

// orNone formats a ratio, which does not exist if its denominator is 0.
func orNone(format string, n float64) string {
	if math.IsNaN(n) {
		return "–"
	}
	return fmt.Sprintf(format, n)
}

// found formats the seconds until something is found.
func found(s int) string {
	if s < 0 {
		return "never"
	}
	return fmt.Sprintf("%d s", s)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
