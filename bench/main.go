// Command bench measures what awsretry and four other libraries add to a
// request, side by side in one run, and writes docs/results/speed.md, or prints
// it after fewer rounds. It sends nothing over any network: below every library
// is the same stub.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"example.com/awsretry/bench/internal/output"
)

func main() {
	testing.Init()
	const usualRounds = 7
	rounds := flag.Int("rounds", usualRounds, "rounds; each measures every case with every library, the table has medians")
	each := flag.Duration("time", 50*time.Millisecond, "for each measurement")
	flag.Parse()
	if *rounds < 1 || *each <= 0 || flag.NArg() > 0 {
		output.Exit(2, errors.New("-rounds and -time must be above 0, and there are no arguments"))
	}
	_ = flag.Set("test.benchtime", each.String())
	runtime.GOMAXPROCS(goroutines)
	measured, err := measure(*rounds)
	if err != nil {
		output.Exit(1, err)
	}
	file := "speed.md"
	if *rounds < usualRounds {
		file = ""
	}
	if err := output.Page(file, func(w io.Writer) { write(w, *rounds, measured) }); err != nil {
		output.Exit(1, err)
	}
}

// A pair is a library in a case.
type pair struct{ test, library string }

// A cost is what a library adds to a case.
type cost struct {
	added  []float64 // ns/op, in each round
	allocs int64     // per operation, in the last round
}

// measure goes through all cases and libraries in each round, so that a machine
// that is slower for a while is slower for all of them. From each library's
// time it subtracts the stub's time in the same round.
func measure(rounds int) (map[pair]cost, error) {
	costs := map[pair]cost{}
	for round := range rounds {
		for _, c := range cases {
			took := map[string]float64{}
			for i := range libraries {
				lib := libraries[(i+round)%len(libraries)] // no library is always the first
				if c.over(lib) == nil {
					continue
				}
				r := testing.Benchmark(func(b *testing.B) { c.benchmark(b, lib) })
				if r.N == 0 {
					return nil, fmt.Errorf("%s through %s failed", c.name, lib.name)
				}
				took[lib.name] = float64(r.T.Nanoseconds()) / float64(r.N)
				costs[pair{c.name, lib.name}] = cost{costs[pair{c.name, lib.name}].added, r.AllocsPerOp()}
			}
			for name, ns := range took {
				of := costs[pair{c.name, name}]
				of.added = append(of.added, ns-took[bareName])
				costs[pair{c.name, name}] = of
			}
		}
	}
	return costs, nil
}

// write writes what each library adds to each case, as Markdown.
func write(w io.Writer, rounds int, measured map[pair]cost) {
	fmt.Fprintf(w, "# What each library adds to a request\n\nWritten by `cd bench && go run .`: nanoseconds, "+
		"and allocations in parentheses.\n%s, %d of %d CPUs, medians of %d rounds\n\n",
		output.System(), goroutines, runtime.NumCPU(), rounds)
	header, line := "| case |", "|---|"
	for _, lib := range libraries[1:] {
		header, line = header+" "+lib.name+" |", line+"---|"
	}
	fmt.Fprintf(w, "%s\n%s\n", header, line)
	for _, c := range cases {
		fmt.Fprintf(w, "| %s |", c.name)
		for _, lib := range libraries[1:] {
			if of, ok := measured[pair{c.name, lib.name}]; ok {
				fmt.Fprintf(w, " %.0f (%d) |", max(output.Median(of.added), 0), of.allocs)
			} else {
				fmt.Fprint(w, " – |")
			}
		}
		fmt.Fprintln(w)
	}
}
