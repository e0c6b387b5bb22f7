// Command lint runs the analyzers of go vet, staticcheck, errcheck, nilerr and
// unparam over the packages of a module, and loads each package once for all of
// them. A finding that is not a fault is silenced by a line above it, such as
//
//	//lint:ignore nilerr why
package main

import (
	"os"
	"regexp"
	"strings"

	"github.com/gostaticanalysis/nilerr"
	"github.com/kisielk/errcheck/errcheck"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/buildssa"
	"golang.org/x/tools/go/analysis/passes/scannererr"
	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/packages"
	"honnef.co/go/tools/lintcmd"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
	"mvdan.cc/unparam/check"
)

// quiet matches the functions whose error says nothing new. What prints to the
// terminal keeps its first error, which ends the command.
var quiet = regexp.MustCompile(`\.(Close|Flush|Remove|Unsetenv|Fprint|Fprintf|Fprintln)$|json\.Encoder|progressbar`)

// stillUsed matches what is deprecated but still has an effect: http.Client
// sets Cancel, and http.Transport returns a ProtocolError.
var stillUsed = regexp.MustCompile(`\.(Cancel|CancelRequest|ProtocolError) has been deprecated`)

func main() {
	for _, a := range staticcheck.Analyzers {
		if a.Analyzer.Name == "SA1019" {
			ignore(a.Analyzer, func(_, message string) bool { return stillUsed.MatchString(message) })
		}
	}
	for _, a := range []*analysis.Analyzer{unchecked, scannererr.Analyzer, unparam} {
		ignore(a, func(file, _ string) bool { return strings.HasSuffix(file, "_test.go") })
	}

	cmd := lintcmd.NewCommand("lint")
	cmd.AddAnalyzers(simple.Analyzers...)
	cmd.AddAnalyzers(staticcheck.Analyzers...)
	cmd.AddAnalyzers(stylecheck.Analyzers...)
	cmd.AddAnalyzers(unused.Analyzer)
	cmd.AddBareAnalyzers(vet.Suite...)
	cmd.AddBareAnalyzers(unchecked, nilerr.Analyzer, unparam)
	cmd.ParseFlags(append([]string{"-checks=all"}, os.Args[1:]...))
	cmd.Run()
}

// ignore makes the analyzer drop the findings that match.
func ignore(a *analysis.Analyzer, match func(file, message string) bool) {
	run := a.Run
	a.Run = func(pass *analysis.Pass) (any, error) {
		filtered := *pass
		filtered.Report = func(d analysis.Diagnostic) {
			if !match(pass.Fset.Position(d.Pos).Filename, d.Message) {
				pass.Report(d)
			}
		}
		return run(&filtered)
	}
}

// unchecked is errcheck, with the name of the function in the message.
var unchecked = &analysis.Analyzer{
	Name: "errcheck",
	Doc:  "find errors that are not checked",
	Run: func(pass *analysis.Pass) (any, error) {
		var found []analysis.Diagnostic
		collecting := *pass
		collecting.Report = func(d analysis.Diagnostic) { found = append(found, d) }
		result, err := errcheck.Analyzer.Run(&collecting)
		if err != nil {
			return nil, err
		}
		for i, dropped := range result.(errcheck.Result).UncheckedErrors {
			if !quiet.MatchString(dropped.FuncName) {
				pass.Reportf(found[i].Pos, "the error of %s is not checked", dropped.FuncName)
			}
		}
		return nil, nil
	},
}

var unparam = &analysis.Analyzer{
	Name:     "unparam",
	Doc:      "find parameters and results that are not needed",
	Requires: []*analysis.Analyzer{buildssa.Analyzer},
	Run: func(pass *analysis.Pass) (any, error) {
		var checker check.Checker
		checker.Packages([]*packages.Package{
			{Fset: pass.Fset, Syntax: pass.Files, Types: pass.Pkg, TypesInfo: pass.TypesInfo},
		})
		checker.ProgramSSA(pass.ResultOf[buildssa.Analyzer].(*buildssa.SSA).Pkg.Prog)
		found, err := checker.Check()
		for _, issue := range found {
			pass.Reportf(issue.Pos(), "%s", issue.Message())
		}
		return nil, err
	},
}
