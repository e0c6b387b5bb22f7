// Command service shows what awsretry and other libraries make of a service
// that throttles and of one that is down for a while, side by side, and writes
// one table for each case into docs/results, or prints it after -quick. It sends
// nothing over any network: the service is the model of package simulate.
//
//	go run ./service
//	go run ./service -only pacing
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	quick := flag.Bool("quick", false, "a short run, to see that it works; its figures say little")
	only := flag.String("only", "", "the tables to make: `throttling, loops, storms, pacing, budgets or sdk` (default all)")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "service: there are no arguments")
		os.Exit(2)
	}
	cases := full
	if *quick {
		cases = short
	}
	cases, err := cases.only(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "service:", err)
		os.Exit(2)
	}
	begin := time.Now()
	r, err := cases.run(context.Background(), os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "service:", err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stderr, "done after %v\n", time.Since(begin).Round(time.Second))
	if *quick {
		for _, p := range r.pages() {
			p.print(os.Stdout)
		}
		return
	}
	if err := r.write(resultsFolder); err != nil {
		fmt.Fprintln(os.Stderr, "service:", err)
		os.Exit(1)
	}
}

// resultsFolder is where the results are kept, from the folder of the module.
const resultsFolder = "../docs/results"
