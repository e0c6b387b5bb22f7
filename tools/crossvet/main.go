// Command crossvet checks that a module's packages and tests compile on other
// platforms. It reads all dependencies from their source. go vet would compile
// them for each platform, which takes minutes.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"

	"golang.org/x/tools/go/packages"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("crossvet: ")
	dir := flag.String("C", ".", "the folder of the module")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: crossvet [-C folder] GOOS/GOARCH...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	var running sync.WaitGroup
	failed := make([]bool, flag.NArg())
	for i, platform := range flag.Args() {
		goos, goarch, ok := strings.Cut(platform, "/")
		if !ok {
			log.Fatalf("the platform is %q; it must be GOOS/GOARCH, such as windows/amd64", platform)
		}
		running.Go(func() { failed[i] = !check(*dir, goos, goarch) })
	}
	running.Wait()
	for _, f := range failed {
		if f {
			os.Exit(1)
		}
	}
}

// check loads the module in dir, tests included, for one platform. It prints
// the errors, and reports whether there are none.
func check(dir, goos, goarch string) bool {
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedDeps | packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax,
		Dir:   dir,
		Env:   append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0"),
		Tests: true,
	}, "./...")
	if err != nil {
		log.Printf("%s/%s: %v", goos, goarch, err)
		return false
	}
	found := map[string]bool{} // a package and its test variant have the same errors
	for _, p := range loaded {
		for _, e := range p.Errors {
			if text := e.Error(); !found[text] {
				found[text] = true
				log.Printf("%s/%s: %s", goos, goarch, text)
			}
		}
	}
	return len(found) == 0
}
