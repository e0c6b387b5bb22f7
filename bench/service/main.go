// Command service shows what awsretry and other libraries make of a service
// that throttles and of one that is down for a while, side by side, and writes
// the tables into docs/results. It sends nothing over any network: the service
// is the model of package simulate.
//
//	go run ./service
//	go run ./service -only pacing
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"example.com/awsretry/bench/internal/output"
)

func main() {
	only := flag.String("only", "", "the `page` to make: throttling, loops, storms, pacing, budgets or sdk (default all)")
	flag.Parse()
	pages := full()
	if *only != "" {
		pages = slices.DeleteFunc(pages, func(p page) bool { return p.only != *only })
	}
	if flag.NArg() > 0 || len(pages) == 0 {
		output.Exit(2, fmt.Errorf("there are no arguments, and -only is throttling, loops, storms, pacing, budgets or sdk"))
	}
	begin := time.Now()
	for _, p := range pages {
		tables, err := p.run(context.Background(), os.Stderr)
		if err == nil {
			err = output.Page(p.file, func(w io.Writer) { p.print(w, tables) })
		}
		if err != nil {
			output.Exit(1, err)
		}
	}
	fmt.Fprintf(os.Stderr, "done after %v\n", time.Since(begin).Round(time.Second))
}

// print writes the page as Markdown, with the rows of its tables.
func (p page) print(w io.Writer, tables [][]output.Row) {
	output.Head(w, p.title, "go run ./service -only "+p.only, "aws-sdk-go-v2", "go-retryablehttp", "rehttp", "failsafe-go")
	fmt.Fprint(w, p.intro)
	for i, t := range p.tables {
		fmt.Fprintf(w, "## %s\n\n", strings.TrimSpace(t.title+"\n\n"+t.about()))
		output.Table(w, []any{"library"}, t.columns, tables[i], output.Mean)
	}
	fmt.Fprint(w, p.terms)
}

// What the columns of a page mean.
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
	ofOutages = `- p50 in the outage, p99: of the calls that begin in the outage
- load: attempts / calls; worst second: of attempts, since the outage began, / calls
- recovered after: from the end of the outage to the first of five seconds in a row in which 99 % of the new calls
  succeed
`
	ofBudgets = "- load: attempts / calls\n"
)
