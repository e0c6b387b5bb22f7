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
	"unicode/utf8"
)

// print writes the tables as Markdown.
func (r results) print(w io.Writer, c cases) {
	fmt.Fprintf(w, "%s %s/%s; %s\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, versions())
	for i, t := range c.throttlings {
		fmt.Fprintf(w, "### %s\n\n%s\n\n", t.name, t.about())
		header := []string{"library", "goodput", "throttled", "calls failed", "p50", "p99", "longest", "Jain, callers"}
		if t.clients > 1 {
			header = append(header, "Jain, clients")
		}
		var cells [][]string
		for _, row := range r.throttled[i] {
			f := row.figures
			line := []string{
				row.name(), percent(f.goodput), percent(f.refused), percent(f.failed),
				seconds(f.p50), seconds(f.p99), seconds(f.longest), index(f.fair),
			}
			if t.clients > 1 {
				line = append(line, index(f.fairClients))
			}
			cells = append(cells, line)
		}
		printTable(w, header, cells)
	}
	for i, s := range c.storms {
		fmt.Fprintf(w, "### %s\n\n%s\n\n", s.name, s.about())
		header := []string{
			"library", "load in the outage", "worst second", "load after it", "recovered after", "failed in the outage", "failed after it",
			"calls failed", "p50 in the outage", "p99",
		}
		var cells [][]string
		for _, row := range r.stormy[i] {
			f := row.figures
			recovered := fmt.Sprintf("> %.0f s", s.after.Seconds())
			if f.recovered >= 0 {
				recovered = fmt.Sprintf("%d s", f.recovered)
			}
			cells = append(cells, []string{
				row.name(), times(f.during), times(f.peak), times(f.after), recovered, percent(f.failedDuring), percent(f.failedAfter),
				fmt.Sprint(f.failed), seconds(f.p50), seconds(f.p99),
			})
		}
		printTable(w, header, cells)
	}
	fmt.Fprint(w, legend)
}

const legend = `goodput: successful calls / those that the service could have admitted
throttled: of the attempts; calls failed: of the calls
p50, p99, longest: of a call, successful or not, with its pauses and its time in line; in the outage: of the calls begun then
Jain: Jain's fairness index of the successful calls; 1 where all have the same
load: attempts / calls, which is 1 without retries; worst second: of attempts, from the beginning of the outage on, / calls
recovered after: from the end of the outage to the first of five seconds in a row in each of which 99 % of the calls begun succeed
`

// versions are those of the libraries; "" where the binary was built without modules, as tests are.
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

func (r *row[F]) name() string {
	if r.on == theWallClock {
		return r.library + " (wall clock)"
	}
	return r.library
}

func (t throttling) about() string {
	return fmt.Sprintf("Measured from %v to %v in virtual time, from %v to %v on the wall clock.",
		t.virtual.from, t.virtual.to, t.wall.from, t.wall.to)
}

func (s storm) about() string {
	capacity := fmt.Sprintf("It serves %.0f requests per second and throttles the rest", s.headroom*s.calls())
	if s.hangs {
		capacity = fmt.Sprintf("It serves %.0f requests per second in their order, keeps %v worth of them waiting and answers 503 to more; "+
			"callers give up an attempt after %v, which it does not learn", s.headroom*s.calls(), queued, gives)
	}
	return fmt.Sprintf("%d callers with %v calls per second each, whatever is answered; an outage of %v after %v; measured until %v after it. %s.",
		s.clients*s.callers, s.rate, s.outage, s.before, s.after, capacity)
}

func percent(part float64) string { return orNone("%.1f %%", 100*part) }

func times(n float64) string { return orNone("%.2f×", n) }

func index(n float64) string { return orNone("%.3f", n) }

// orNone is for a ratio that there is none of where its denominator is 0.
func orNone(format string, n float64) string {
	if math.IsNaN(n) {
		return "–"
	}
	return fmt.Sprintf(format, n)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// printTable aligns the columns, all but the first to the right.
func printTable(w io.Writer, header []string, rows [][]string) {
	widths := make([]int, len(header))
	for _, line := range append([][]string{header}, rows...) {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	write := func(line []string) {
		for i, cell := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				fmt.Fprint(w, "| ", cell, pad, " |")
			} else {
				fmt.Fprint(w, " ", pad, cell, " |")
			}
		}
		fmt.Fprintln(w)
	}
	write(header)
	for i, width := range widths {
		if i == 0 {
			fmt.Fprint(w, "|", strings.Repeat("-", width+2), "|")
		} else {
			fmt.Fprint(w, strings.Repeat("-", width+1), ":|")
		}
	}
	fmt.Fprintln(w)
	for _, line := range rows {
		write(line)
	}
	fmt.Fprintln(w)
}
