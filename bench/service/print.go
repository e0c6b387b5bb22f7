package main

import (
	"fmt"
	"io"
	"math"
	"path"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// print writes the tables as Markdown.
func (r results) print(w io.Writer) {
	fmt.Fprintf(w, "%s %s/%s; %s\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, versions())
	for _, t := range r.throttlings {
		fmt.Fprintf(w, "### %s\n\n%s\n\n", t.of.name, t.of.about())
		header := []any{"library", "goodput", "throttled", "calls failed", "p50", "p99", "longest", "Jain, callers"}
		byClient := t.of.virtual.scenario.Clients.Count > 1
		if byClient {
			header = append(header, "Jain, clients")
		}
		var cells [][]any
		for _, row := range t.rows {
			f := row.figures
			line := []any{
				row.library, percent(f.goodput), percent(f.refused), percent(f.failed),
				seconds(f.p50), seconds(f.p99), seconds(f.longest), index(f.fair),
			}
			if byClient {
				line = append(line, index(f.fairClients))
			}
			cells = append(cells, line)
		}
		printTable(w, header, cells)
	}
	r.printLoops(w)
	for _, t := range r.storms {
		fmt.Fprintf(w, "### %s\n\n%s\n\n", t.of.name, t.of.about())
		var cells [][]any
		for _, row := range t.rows {
			f := row.figures
			recovered := fmt.Sprintf("> %.0f s", t.of.after.Seconds())
			if f.recovered >= 0 {
				recovered = fmt.Sprintf("%d s", f.recovered)
			}
			cells = append(cells, []any{
				row.library, times(f.during), times(f.peak), times(f.after), recovered,
				percent(f.failedDuring), percent(f.failedAfter), f.failed, seconds(f.p50), seconds(f.p99),
			})
		}
		printTable(w, []any{
			"library", "load in the outage", "worst second", "load after it", "recovered after",
			"failed in the outage", "failed after it", "calls failed", "p50 in the outage", "p99",
		}, cells)
	}
	fmt.Fprint(w, explanation)
}

const explanation = `goodput: successful calls / those that the service could have served
throttled: of the attempts; calls failed: of the calls
p50, p99, longest: of a call, successful or not, with its delays and its time in line; in the outage: of the new calls
Jain: Jain's fairness index of the successful calls; 1 if all have the same
load: attempts / calls, which is 1 without retries; worst second: of attempts, since the outage began, / calls
recovered after: from the end of the outage to the first of five seconds in a row in which 99 % of the new calls succeed
`

// versions returns the versions of the libraries, or "" in a binary that was
// built without modules, as tests are.
func versions() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var found []string
	for _, module := range info.Deps {
		switch name := path.Base(module.Path); name {
		case "aws-sdk-go-v2", "go-retryablehttp", "rehttp", "failsafe-go":
			found = append(found, name+" "+module.Version)
		}
	}
	return strings.Join(found, ", ")
}

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

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// printTable aligns all columns except the first to the right.
func printTable(w io.Writer, header []any, rows [][]any) {
	t := table.NewWriter()
	t.Style().Markdown.PadContent = true
	var columns []table.ColumnConfig
	for i := range header[1:] {
		right := table.ColumnConfig{Number: i + 2, Align: text.AlignRight, AlignHeader: text.AlignRight}
		columns = append(columns, right)
	}
	t.SetColumnConfigs(columns)
	t.AppendHeader(header)
	for _, row := range rows {
		t.AppendRow(row)
	}
	fmt.Fprintf(w, "%s\n\n", t.RenderMarkdown())
}
