package main

import (
	"go/token"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// library is the path of the root module.
const library = "example.com/awsretry"

// mayBeMutual has the files of the root that may use each other's names.
var mayBeMutual = map[[2]string]bool{{"config.go", "transport.go"}: true}

// layers finds internal packages that import the root, and files of the root
// that use each other's names.
var layers = &analysis.Analyzer{
	Name: "layers",
	Doc:  "find imports of the root by internal packages, and files of the root that use each other's names",
	Run: func(pass *analysis.Pass) (any, error) {
		fileOf := func(pos token.Pos) string { return filepath.Base(pass.Fset.Position(pos).Filename) }
		if strings.HasPrefix(pass.Pkg.Path(), library+"/internal/") {
			for _, file := range pass.Files {
				for _, spec := range file.Imports {
					if spec.Path.Value == `"`+library+`"` && !strings.HasSuffix(fileOf(spec.Pos()), "_test.go") {
						pass.Reportf(spec.Pos(), "an internal package imports the root")
					}
				}
			}
		}
		if pass.Pkg.Path() != library {
			return nil, nil
		}
		uses := make(map[[2]string]token.Pos) // where the first file uses a name of the second
		for id, object := range pass.TypesInfo.Uses {
			pair := [2]string{fileOf(id.Pos()), ""}
			if object.Pkg() != pass.Pkg || !object.Pos().IsValid() || strings.HasSuffix(pair[0], "_test.go") {
				continue
			}
			pair[1] = fileOf(object.Pos())
			if first, ok := uses[pair]; !ok || id.Pos() < first {
				uses[pair] = id.Pos()
			}
		}
		for pair, pos := range uses {
			back, ok := uses[[2]string{pair[1], pair[0]}]
			if ok && pair[0] < pair[1] && !mayBeMutual[pair] {
				pass.Reportf(pos, "%s and %s use each other's names: %s", pair[0], pair[1], pass.Fset.Position(back))
			}
		}
		return nil, nil
	},
}
