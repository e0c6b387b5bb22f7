// Command layers checks how a module's packages and the files of its root
// package refer to each other: which file uses a name that another file
// declares. Two files that use each other's names are a fault, unless that pair
// is allowed; so is an internal package that imports the root.
package main

import (
	"flag"
	"fmt"
	"go/token"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("layers: ")
	dir := flag.String("C", ".", "the folder of the module")
	allow := flag.String("allow", "", "pairs of files that may use each other's names, such as a.go:b.go,c.go:d.go")
	list := flag.Bool("list", false, "print every reference")
	flag.Parse()

	fset := token.NewFileSet()
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedTypes | packages.NeedImports |
			packages.NeedDeps | packages.NeedSyntax | packages.NeedTypesInfo,
		Dir:  *dir,
		Fset: fset,
	}, ".", "./internal/...")
	if err != nil {
		log.Fatal(err)
	}
	if packages.PrintErrors(loaded) > 0 {
		os.Exit(1)
	}
	root := loaded[0].PkgPath
	for _, p := range loaded {
		if len(p.PkgPath) < len(root) {
			root = p.PkgPath
		}
	}
	faults := 0
	fault := func(format string, args ...any) {
		faults++
		log.Printf(format, args...)
	}
	for _, p := range loaded {
		if p.PkgPath == root {
			faults += checkFiles(fset, p, allowed(*allow), *list)
		} else if p.Imports[root] != nil {
			fault("%s imports %s", p.PkgPath, root)
		}
	}
	if faults > 0 {
		os.Exit(1)
	}
}

// A pair is two files. The first uses names of the second.
type pair struct{ from, to string }

func allowed(list string) map[pair]bool {
	pairs := make(map[pair]bool)
	for field := range strings.SplitSeq(list, ",") {
		if a, b, ok := strings.Cut(field, ":"); ok {
			pairs[pair{a, b}], pairs[pair{b, a}] = true, true
		}
	}
	return pairs
}

// checkFiles reports how many pairs of the package's files use each other's
// names without being allowed to.
func checkFiles(fset *token.FileSet, p *packages.Package, allowed map[pair]bool, list bool) (faults int) {
	uses := make(map[pair]map[string]bool)
	for id, object := range p.TypesInfo.Uses {
		if object.Pkg() != p.Types || !object.Pos().IsValid() {
			continue
		}
		edge := pair{filepath.Base(fset.Position(id.Pos()).Filename),
			filepath.Base(fset.Position(object.Pos()).Filename)}
		if edge.from == edge.to {
			continue
		}
		if uses[edge] == nil {
			uses[edge] = make(map[string]bool)
		}
		uses[edge][object.Name()] = true
	}
	names := func(edge pair) string { return strings.Join(slices.Sorted(maps.Keys(uses[edge])), " ") }
	edges := slices.SortedFunc(maps.Keys(uses), func(a, b pair) int {
		return strings.Compare(a.from+" "+a.to, b.from+" "+b.to)
	})
	mutual := 0
	for _, edge := range edges {
		back := pair{edge.to, edge.from}
		if list {
			fmt.Printf("%s -> %s: %s\n", edge.from, edge.to, names(edge))
		}
		if uses[back] == nil || edge.from > edge.to {
			continue
		}
		mutual++
		if !allowed[edge] {
			faults++
			log.Printf("%[1]s and %[2]s use each other's names:\n\t%[1]s uses %[3]s\n\t%[2]s uses %[4]s",
				edge.from, edge.to, names(edge), names(back))
		}
	}
	fmt.Printf("%s: %d files, %d references between files, %d mutual\n", p.PkgPath, len(p.GoFiles), len(edges), mutual)
	return faults
}
