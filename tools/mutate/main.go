// Command mutate breaks the code on purpose, one rule at a time, and names the
// test that notices. It fails if none does.
//
// The list of mutations is mutations.txt. Each is a fragment of a file and what
// replaces it, for one or more rows of docs/SOURCES.md, rules of
// docs/ARCHITECTURE.md or others. No file is changed: go test gets an overlay.
//
// The tests that the row names run first. If they pass, the tests of all
// packages that the mutation may concern do.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("mutate: ")
	dir := flag.String("C", ".", "the folder of the repository")
	list := flag.String("list", "mutate/mutations.txt", "the list of mutations")
	check := flag.Bool("check", false, "check the list and run no test")
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

	mutations, err := readMutations(*list)
	if err != nil {
		log.Fatal(err)
	}
	repo, err := openRepository(root)
	if err != nil {
		log.Fatal(err)
	}
	faults := repo.check(mutations)
	for _, fault := range faults {
		log.Print(fault)
	}
	if len(faults) > 0 {
		log.Fatalf("%d faults in %s", len(faults), *list)
	}
	if *check {
		fmt.Printf("%d mutations of %d rules\n", len(mutations), len(repo.rows))
		return
	}

	var chosen []*mutation
	for _, m := range mutations {
		if m.matches(wanted) {
			chosen = append(chosen, m)
		}
	}
	start := time.Now()
	survived := 0
	for result := range repo.runAll(chosen, *jobs) {
		fmt.Print(result)
		if !result.ok() {
			survived++
		}
	}
	fmt.Printf("%d mutations in %v, %d not noticed as they should be\n",
		len(chosen), time.Since(start).Round(time.Second), survived)
	if survived > 0 {
		os.Exit(1)
	}
}
