// Command bench measures what awsretry and four other libraries add to a
// request, side by side in one run, prints all figures and writes
// those of docs/results/speed.md. It sends nothing over
// any network: below every library is the same stub.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"testing"
	"text/tabwriter"
	"time"

	"example.com/awsretry/bench/internal/output"
)

func main() {
	testing.Init()
	rounds := flag.Int("rounds", usualRounds, "rounds; each measures every case with every library, the table shows medians")
	each := flag.Duration("time", 50*time.Millisecond, "for each measurement")
	flag.Parse()
	if *rounds < 1 || *each <= 0 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "bench: -rounds and -time must be above 0, and there are no arguments")
		os.Exit(2)
	}
	_ = flag.Set("test.benchtime", each.String())
	runtime.GOMAXPROCS(goroutines)
	fmt.Printf("%s %s/%s, %d of %d CPUs, medians of %d rounds\n\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, goroutines, runtime.NumCPU(), *rounds)
	results, err := measure(*rounds)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	results.print(os.Stdout)
	if *rounds < usualRounds {
		return
	}
	var table bytes.Buffer
	results.writeTable(&table, *rounds)
	if err := os.WriteFile("../docs/results/speed.md", table.Bytes(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// usualRounds is the least number of rounds whose figures are kept.
const usualRounds = 7

// writeTable writes what each library adds to each case, as Markdown.
func (r results) writeTable(w io.Writer, rounds int) {
	fmt.Fprintf(w, "# What each library adds to a request\n\nWritten by `cd bench && go run .`: nanoseconds, "+
		"and allocations in parentheses.\n%s %s/%s, %d of %d CPUs, medians of %d rounds\n\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, goroutines, runtime.NumCPU(), rounds)
	header, line := "| case |", "|---|"
	for _, lib := range libraries {
		if lib.name != bareName {
			header, line = header+" "+lib.name+" |", line+"---|"
		}
	}
	fmt.Fprintf(w, "%s\n%s\n", header, line)
	for _, c := range cases {
		row := "| " + c.name + " |"
		for _, lib := range libraries {
			i := slices.IndexFunc(r[c.name], func(m result) bool { return m.library == lib.name })
			switch {
			case lib.name == bareName:
			case i < 0:
				row += " – |"
			default:
				row += fmt.Sprintf(" %.0f (%d) |", max(r[c.name][i].added, 0), r[c.name][i].allocs)
			}
		}
		fmt.Fprintln(w, row)
	}
}

// A result is what one library adds to one case.
type result struct {
	library       string
	total, added  float64 // ns/op, medians over the rounds
	bytes, allocs int64   // per operation, in the last round
}

// results are by name of the case.
type results map[string][]result

// measure goes through all cases and libraries in each round, so that a machine
// that is slower for a while is slower for all of them. From each library's
// time it subtracts the stub's time in the same round.
func measure(rounds int) (results, error) {
	type key struct{ test, library string }
	total, added := map[key][]float64{}, map[key][]float64{}
	memory := map[key]testing.BenchmarkResult{}
	for round := range rounds {
		for _, c := range cases {
			measured := map[string]float64{}
			for i := range libraries {
				lib := libraries[(i+round)%len(libraries)] // no library is always the first
				if c.over(lib) == nil {
					continue
				}
				r := testing.Benchmark(func(b *testing.B) { c.benchmark(b, lib) })
				if r.N == 0 {
					return nil, fmt.Errorf("%s through %s failed", c.name, lib.name)
				}
				measured[lib.name] = float64(r.T.Nanoseconds()) / float64(r.N)
				memory[key{c.name, lib.name}] = r
			}
			for name, ns := range measured {
				k := key{c.name, name}
				total[k] = append(total[k], ns)
				added[k] = append(added[k], ns-measured[bareName])
			}
		}
	}
	found := results{}
	for _, c := range cases {
		for _, lib := range libraries {
			k := key{c.name, lib.name}
			if m, ok := memory[k]; ok {
				found[c.name] = append(found[c.name], result{
					lib.name, output.Median(total[k]), output.Median(added[k]), m.AllocedBytesPerOp(), m.AllocsPerOp(),
				})
			}
		}
	}
	return found, nil
}

func (r results) of(test, library string) result {
	i := slices.IndexFunc(r[test], func(r result) bool { return r.library == library })
	return r[test][i]
}

func (r results) print(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "case\tlibrary\tns/op\tadded ns/op\tB/op\tallocs/op\tto awsretry\t")
	for _, c := range cases {
		ours := r.of(c.name, oursName)
		for _, m := range r[c.name] {
			ratio := "-"
			if m.library != bareName && ours.added > 0 {
				ratio = fmt.Sprintf("%.2f", m.added/ours.added)
			}
			fmt.Fprintf(table, "%s\t%s\t%.1f\t%.1f\t%d\t%d\t%s\t\n",
				c.name, m.library, m.total, m.added, m.bytes, m.allocs, ratio)
		}
	}
	table.Flush()
	fmt.Fprintln(w, `
added: to the bare stub, in the same round; below 0 it is less than the noise
to awsretry: what the library adds / what awsretry adds
ns/op of two goroutines: the time that passes per request of either`)

	fmt.Fprintln(w)
	for _, name := range []string{getName, postName, bigPostName, retryName, jsonName} {
		ours, theirs := r.of(name, oursName).added, r.of(name, rehttpName).added
		fmt.Fprintf(w, "%s: awsretry adds %.0f ns, rehttp %.0f: %s\n", name, ours, theirs, verdict(ours, theirs))
	}
	alone, together := r.of(getName, oursName).total, r.of(parallelName, oursName).total
	fmt.Fprintf(w, "%s: %.0f ns a request, alone %.0f: %s\n", parallelName, together, alone, verdict(together, alone))
}

func verdict(time, limit float64) string {
	if time <= limit {
		return "no slower"
	}
	return "SLOWER"
}
