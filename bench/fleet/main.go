// Command fleet compares awsretry, with and without module fleet, with rate
// limiters that ask Redis for each request: many processes send to one service
// that throttles, while their store is well, slow, hangs and is stopped. All of
// it is on loopback. It needs valkey-server or redis-server. The tables go into
// docs/results.
//
//	go run ./fleet
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"example.com/awsretry/bench/internal/output"
)

func main() {
	rounds := flag.Int("rounds", 3, "how often each is measured; the tables have medians")
	flag.Parse()
	if *rounds < 1 || flag.NArg() > 0 {
		output.Exit(2, errors.New("-rounds must be above 0, and there are no arguments"))
	}
	all := make([][][phases]figures, *rounds)
	for i := range all {
		for _, c := range contenders {
			fmt.Fprintln(os.Stderr, c.name)
			figures, err := full.run(context.Background(), c)
			if err != nil {
				output.Exit(1, fmt.Errorf("%s: %w", c.name, err))
			}
			all[i] = append(all[i], figures)
		}
	}
	if err := output.Page("limiters.md", func(w io.Writer) { full.print(w, contenders, all) }); err != nil {
		output.Exit(1, err)
	}
}

// print writes a table for each phase, of the figures of all rounds.
func (p plan) print(w io.Writer, among []contender, rounds [][][phases]figures) {
	output.Head(w, "Limiters that ask Redis for each request", fmt.Sprintf("go run ./fleet -rounds %d", len(rounds)),
		"redis_rate", "go-redis", "valkey-go")
	titles := [phases]string{
		healthy: "The store is well",
		slow:    fmt.Sprintf("The store is %d ms away", p.delay.Milliseconds()),
		hanging: fmt.Sprintf("The store hangs for %.3g s", p.hangs.Seconds()),
		stopped: fmt.Sprintf("The store is stopped for %.3g s, and empty afterwards", p.stopped.Seconds()),
	}
	for of, title := range titles {
		fmt.Fprintf(w, "## %s\n\n", title)
		shown := columns
		if phase(of) != healthy {
			shown = columns[2:] // the store is not asked how much it does
		}
		var rows []output.Row
		for i, contender := range among {
			if phase(of) != healthy && !contender.usesStore {
				continue
			}
			row := output.Row{Names: []any{contender.name}}
			for _, round := range rounds {
				row.Figures = append(row.Figures, output.Figures(shown, round[i][of]))
			}
			rows = append(rows, row)
		}
		output.Table(w, []any{""}, shown, rows, output.Median)
	}
}
