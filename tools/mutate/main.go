// Command mutate breaks the code on purpose, one rule at a time, and names the
// test that notices. It fails if a rule has no mutation that its tests notice.
//
// The rules are the rows of docs/SOURCES.md and the numbered rules of
// docs/ARCHITECTURE.md, which name their tests. The list of mutations is
// mutations.txt. Each is a fragment of a file and what replaces it. No file is
// changed: go test gets an overlay.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("mutate: ")
	dir := flag.String("C", ".", "the folder of the repository")
	list := flag.String("list", "mutate/mutations.txt", "the list of mutations")
	only := flag.String("run", "", "a regular expression: only mutations with a rule or a file that matches")
	jobs := flag.Int("j", runtime.NumCPU(), "how many mutations to run at the same time")
	flag.Parse()
	root, err := filepath.Abs(*dir)
	if err != nil {
		log.Fatal(err)
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		log.Fatal(err)
	}
	rules, err := readRules(root)
	if err != nil {
		log.Fatal(err)
	}
	mutations, err := readMutations(*list)
	if err != nil {
		log.Fatal(err)
	}

	faults := compare(rules, mutations)
	for _, fault := range faults {
		log.Print(fault)
	}
	start, count := time.Now(), 0
	var mu sync.Mutex // guards faults and the output
	var running sync.WaitGroup
	free := make(chan struct{}, max(*jobs, 1))
	for _, m := range mutations {
		if m.reason != "" || !wanted.MatchString(m.file) && !slices.ContainsFunc(m.rules, wanted.MatchString) {
			continue
		}
		count++
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			began := time.Now()
			test, err := m.run(root, m.tests(rules))
			mu.Lock()
			defer mu.Unlock()
			fmt.Print(m)
			if err != nil {
				faults = append(faults, err.Error())
				fmt.Printf("  FAULT: %v\n", err)
				return
			}
			fmt.Printf("  %s (%v)\n", test, time.Since(began).Round(100*time.Millisecond))
		})
	}
	running.Wait()
	fmt.Printf("%d mutations in %v, %d faults\n", count, time.Since(start).Round(time.Second), len(faults))
	if len(faults) > 0 {
		os.Exit(1)
	}
}
