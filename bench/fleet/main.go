// Command fleet compares awsretry, with and without module fleet, with rate
// limiters that ask Redis for each request: many processes send to one service
// that throttles, while their store is well, slow, hangs and is stopped. All of
// it is on loopback. It needs valkey-server or redis-server. The tables go into
// docs/results, those of -quick and -only to standard output.
//
//	go run ./fleet
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

func main() {
	rounds := flag.Int("rounds", 3, "how often each is measured; the tables have medians")
	quick := flag.Bool("quick", false, "a short run, to see that it works; its figures say little")
	only := flag.String("only", "", "measure those whose name contains `text`")
	flag.Parse()
	if *rounds < 1 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "fleet: -rounds must be above 0, and there are no arguments")
		os.Exit(2)
	}
	p := full
	if *quick {
		p = short
	}
	var among []contender
	for _, c := range contenders {
		if strings.Contains(c.name, *only) {
			among = append(among, c)
		}
	}
	begin := time.Now()
	var all [][][phases]figures
	for range *rounds {
		round, err := p.round(context.Background(), among, 1, os.Stderr)
		if err != nil {
			fmt.Fprintln(os.Stderr, "fleet:", err)
			os.Exit(1)
		}
		all = append(all, round)
	}
	fmt.Fprintf(os.Stderr, "done after %v\n", time.Since(begin).Round(time.Second))
	if *quick || *only != "" {
		p.print(os.Stdout, among, all)
		return
	}
	var text bytes.Buffer
	p.print(&text, among, all)
	if err := os.WriteFile("../docs/results/limiters.md", text.Bytes(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

// round measures each contender once, so many at a time.
func (p plan) round(
	ctx context.Context, among []contender, parallel int, progress io.Writer,
) ([][phases]figures, error) {
	all, faults := make([][phases]figures, len(among)), make([]error, len(among))
	var running sync.WaitGroup
	free := make(chan struct{}, parallel)
	for i, c := range among {
		free <- struct{}{}
		fmt.Fprintln(progress, c.name)
		running.Go(func() {
			defer func() { <-free }()
			if all[i], faults[i] = p.run(ctx, c); faults[i] != nil {
				faults[i] = fmt.Errorf("%s: %w", c.name, faults[i])
			}
		})
	}
	running.Wait()
	return all, errors.Join(faults...)
}
