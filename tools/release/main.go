// Command release writes the repository under a module path and version at
// which it can be published, and a module proxy of its modules next to it:
//
//	release -C .. -module github.com/who/awsretry -version v0.4.0
//
// docs/RELEASING.md describes what is done with them.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("release: ")
	dir := flag.String("C", ".", "the root of the repository")
	path := flag.String("module", "", "the path of the root module, such as github.com/who/awsretry")
	version := flag.String("version", "", "the version of every module, such as v0.4.0")
	out := flag.String("out", "", "the folder for tree and proxy, which are replaced (default dist in the repository)")
	flag.Parse()
	if err := check(*path, *version); err != nil {
		log.Fatal(err)
	}
	to := cmp.Or(*out, filepath.Join(*dir, "dist"))
	released, err := release(*dir, to, *path, *version)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s is the repository, and %s a module proxy. The tags, in this order:\n",
		filepath.Join(to, "tree"), filepath.Join(to, "proxy"))
	for _, m := range released {
		fmt.Println(strings.TrimPrefix(m.dir+"/"+*version, "./"))
	}
}

// check reports whether every module of the repository can have a path below
// path, and the version.
func check(path, version string) error {
	if err := module.CheckPath(path); err != nil {
		return fmt.Errorf("MODULE is %q; it must be the path of a repository, such as github.com/who/awsretry: %w", path, err)
	}
	if _, major, _ := module.SplitPathVersion(path); major != "" {
		return fmt.Errorf("MODULE is %q; it must not end in %s: versions from v2 on are not supported, "+
			"because that suffix would follow the path of each nested module", path, major)
	}
	switch {
	case !semver.IsValid(version) || semver.Canonical(version) != version || module.IsPseudoVersion(version):
		return fmt.Errorf("VERSION is %q; it must be a complete semantic version, such as v0.4.0 or v0.4.0-rc.1", version)
	case semver.Major(version) != "v0" && semver.Major(version) != "v1":
		return fmt.Errorf("VERSION is %q; it must be v0 or v1: from v2 on, Go wants /%s at the end of each module's path, "+
			"which is not supported", version, semver.Major(version))
	}
	return nil
}

// release writes the folders tree and proxy in out, and returns the published
// modules, each after those that it requires.
func release(dir, out, path, version string) ([]*mod, error) {
	tree, proxy := filepath.Join(out, "tree"), filepath.Join(out, "proxy")
	if err := errors.Join(os.RemoveAll(tree), os.RemoveAll(proxy)); err != nil {
		return nil, err
	}
	dirs, err := writeTree(dir, tree, path, version)
	if err != nil {
		return nil, err
	}
	mods, err := editModules(tree, dirs, path, version)
	if err != nil {
		return nil, err
	}
	return publish(mods, tree, proxy, version)
}
