// Command platforms type-checks the packages and tests of a module for other platforms.
// To compile for a platform all that they import, as go vet does, takes minutes.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("platforms: ")
	dir := flag.String("C", ".", "the folder of the module")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: platforms [-C folder] GOOS/GOARCH...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	failed := false
	for _, platform := range flag.Args() {
		system, processor, ok := strings.Cut(platform, "/")
		if !ok {
			log.Fatalf("the platform is %q; it must be GOOS/GOARCH, such as linux/386", platform)
		}
		loaded, err := packages.Load(&packages.Config{
			Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedDeps |
				packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedTypesSizes,
			Dir: *dir, Tests: true,
			Env: append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0"),
		}, "./...")
		if err != nil {
			log.Fatalf("%s: %v", platform, err)
		}
		if packages.PrintErrors(loaded) > 0 {
			log.Printf("%s does not compile for %s", *dir, platform)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}
