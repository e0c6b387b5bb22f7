// Command pacing simulates clients with CubicPacing and ScaledPacing at services
// that throttle, and prints a table of what they reach, or what other values of
// the constants of ScaledPacing make of it.
//
//	go run ./pacing
//	go run ./pacing -vary
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
)

func main() {
	seeds := flag.Int("seeds", 8, "runs of each scenario, with different random numbers; at least 2")
	only := flag.String("only", "", "run the scenarios whose names contain this")
	part := flag.Float64("steady", 0, "also show clients that know the limit, and send at this part of it in all")
	constants := flag.Bool("vary", false, "show what becomes of the main scenarios with other constants (most of an hour)")
	flag.Parse()
	if flag.NArg() > 0 || *seeds < 2 {
		flag.Usage()
		os.Exit(2)
	}
	chosen := slices.DeleteFunc(scenarios(), func(s scenario) bool {
		return !strings.Contains(s.name, *only) || *constants && *only == "" && !s.varied
	})
	if len(chosen) == 0 {
		fmt.Fprintf(os.Stderr, "pacing: no scenario's name contains %q\n", *only)
		os.Exit(2)
	}
	debug.SetGCPercent(1000) // a run makes much garbage and keeps little
	if *constants {
		vary(os.Stdout, os.Stderr, chosen, *seeds)
		return
	}
	compare(os.Stdout, chosen, *seeds, *part)
}
