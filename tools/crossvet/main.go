// Command crossvet checks that a module's packages compile on other platforms,
// and runs some of go vet's analyzers there, of those that look at one package
// alone. It reads the dependencies from their source. go vet would compile them
// for each platform, which takes minutes.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/analysis/passes/assign"
	"golang.org/x/tools/go/analysis/passes/atomic"
	"golang.org/x/tools/go/analysis/passes/bools"
	"golang.org/x/tools/go/analysis/passes/composite"
	"golang.org/x/tools/go/analysis/passes/copylock"
	"golang.org/x/tools/go/analysis/passes/errorsas"
	"golang.org/x/tools/go/analysis/passes/httpresponse"
	"golang.org/x/tools/go/analysis/passes/ifaceassert"
	"golang.org/x/tools/go/analysis/passes/loopclosure"
	"golang.org/x/tools/go/analysis/passes/nilfunc"
	"golang.org/x/tools/go/analysis/passes/shift"
	"golang.org/x/tools/go/analysis/passes/stringintconv"
	"golang.org/x/tools/go/analysis/passes/structtag"
	"golang.org/x/tools/go/analysis/passes/tests"
	"golang.org/x/tools/go/analysis/passes/unmarshal"
	"golang.org/x/tools/go/analysis/passes/unreachable"
	"golang.org/x/tools/go/analysis/passes/unsafeptr"
	"golang.org/x/tools/go/packages"
)

var analyzers = []*analysis.Analyzer{
	assign.Analyzer, atomic.Analyzer, bools.Analyzer, composite.Analyzer, copylock.Analyzer, errorsas.Analyzer,
	httpresponse.Analyzer, ifaceassert.Analyzer, loopclosure.Analyzer, nilfunc.Analyzer, shift.Analyzer,
	stringintconv.Analyzer, structtag.Analyzer, tests.Analyzer, unmarshal.Analyzer, unreachable.Analyzer,
	unsafeptr.Analyzer,
}

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
		running.Go(func() { failed[i] = !vet(*dir, goos, goarch) })
	}
	running.Wait()
	for _, f := range failed {
		if f {
			os.Exit(1)
		}
	}
}

// vet checks the module in dir, tests included, for one platform. It prints
// what it finds, and reports whether there is nothing.
func vet(dir, goos, goarch string) bool {
	found := map[string]bool{} // a package and its test variant have the same faults
	fault := func(format string, args ...any) bool {
		if text := fmt.Sprintf(format, args...); !found[text] {
			found[text] = true
			log.Printf("%s/%s: %s", goos, goarch, text)
		}
		return false
	}
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedDeps | packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax |
			packages.NeedTypesInfo | packages.NeedModule,
		Dir:   dir,
		Env:   append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0"),
		Tests: true,
	}, "./...")
	if err != nil {
		return fault("%v", err)
	}
	clean := true
	for _, p := range loaded {
		for _, e := range p.Errors {
			clean = fault("%v", e)
		}
	}
	if !clean {
		return false
	}
	graph, err := checker.Analyze(analyzers, loaded, nil)
	if err != nil {
		return fault("%v", err)
	}
	for action := range graph.All() {
		if !action.IsRoot {
			continue
		}
		if action.Err != nil {
			clean = fault("%s: %v", action, action.Err)
		}
		for _, d := range action.Diagnostics {
			clean = fault("%s: %s", action.Package.Fset.Position(d.Pos), d.Message)
		}
	}
	return clean
}
