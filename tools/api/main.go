// Command api prints the exported API of packages, one line for each name, in
// the manner of the api folder of the Go repository. `make api` writes it to
// files that are committed, so that a change of the API shows in the diff.
package main

import (
	"flag"
	"fmt"
	"go/types"
	"log"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("api: ")
	dir := flag.String("C", ".", "the folder of the module")
	flag.Parse()
	loaded, err := packages.Load(&packages.Config{
		// Without NeedDeps, the types of what a package imports are read from what the compiler wrote.
		Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedSyntax | packages.NeedTypesInfo,
		Dir:  *dir,
	}, flag.Args()...)
	if err != nil {
		log.Fatal(err)
	}
	if packages.PrintErrors(loaded) > 0 {
		os.Exit(1)
	}
	for _, p := range loaded {
		lines := describe(p.Types)
		slices.Sort(lines)
		for _, line := range slices.Compact(lines) {
			fmt.Printf("pkg %s, %s\n", p.PkgPath, line)
		}
	}
}

// describe returns a line for each exported name of the package, except for methods
// that only packages of this repository can call or implement, because they have a
// type of an internal one.
func describe(pkg *types.Package) []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	qualifier := types.RelativeTo(pkg)
	show := func(t types.Type) string { return types.TypeString(t, qualifier) }

	for _, name := range pkg.Scope().Names() {
		object := pkg.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		switch object := object.(type) {
		case *types.Const:
			add("const %s %s = %s", name, show(object.Type()), object.Val())
		case *types.Var:
			add("var %s %s", name, show(object.Type()))
		case *types.Func:
			add("func %s%s", name, show(object.Type())[len("func"):])
		case *types.TypeName:
			describeType(object, show, add)
		}
	}
	return lines
}

// describeType adds a line for a type, and one for each exported field and
// method of it.
func describeType(object *types.TypeName, show func(types.Type) string, add func(string, ...any)) {
	name := object.Name()
	switch under := object.Type().Underlying().(type) {
	case *types.Struct:
		add("type %s struct", name)
		for field := range under.Fields() {
			if field.Exported() {
				add("type %s struct, %s %s", name, field.Name(), show(field.Type()))
			}
		}
	case *types.Interface:
		add("type %s interface", name)
		for method := range under.Methods() {
			if shown := show(method.Type())[len("func"):]; !strings.Contains(shown, "/internal/") {
				add("type %s interface, %s%s", name, method.Name(), shown)
			}
		}
		return
	default:
		add("type %s %s", name, show(under))
	}
	methods := types.NewMethodSet(types.NewPointer(object.Type()))
	for selection := range methods.Methods() {
		method := selection.Obj()
		shown := show(method.Type())[len("func"):]
		if !method.Exported() || strings.Contains(shown, "/internal/") {
			continue
		}
		receiver := "*" + name
		if types.NewMethodSet(object.Type()).Lookup(object.Pkg(), method.Name()) != nil {
			receiver = name
		}
		add("method (%s) %s%s", receiver, method.Name(), shown)
	}
}
