package main

import (
	"bytes"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	gopath "path"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/mod/modfile"
)

// writeTree copies the files of the repository in dir that git knows to tree.
// The copies name the module path instead of the repository's own. It returns the
// folders with a go.mod.
func writeTree(dir, tree, path, version string) (modules []string, err error) {
	old, err := modulePath(dir)
	if err != nil {
		return nil, err
	}
	list := exec.Command("git", "ls-files", "-z")
	list.Dir = dir
	names, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files in %s: %w", dir, err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if err := copyFile(filepath.Join(dir, name), filepath.Join(tree, name), newRenamer(old, path), version); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if gopath.Base(name) == "go.mod" {
			modules = append(modules, gopath.Dir(name))
		}
	}
	return modules, nil
}

func modulePath(dir string) (string, error) {
	file := filepath.Join(dir, "go.mod")
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	path := modfile.ModulePath(text)
	if path == "" {
		return "", fmt.Errorf("%s has no module line", file)
	}
	return path, nil
}

func copyFile(from, to string, rename renamer, version string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("is a %v, which no module can have", info.Mode().Type())
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if !bytes.ContainsRune(text, 0) {
		if text, err = rewrite(from, text, rename, version); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	return os.WriteFile(to, text, info.Mode().Perm())
}

// rewrite returns a file's text under the new path. Go is formatted again,
// because the order of imports depends on the path.
func rewrite(name string, text []byte, rename renamer, version string) ([]byte, error) {
	renamed := rename.text(text)
	switch filepath.Ext(name) {
	case ".go":
		if bytes.Equal(renamed, text) {
			return text, nil
		}
		return format.Source(renamed)
	case ".md":
		return published(renamed, version)
	}
	return renamed, nil
}

// A renamer replaces one module path by another.
type renamer struct {
	find     *regexp.Regexp
	old, new string
}

func newRenamer(old, path string) renamer {
	find := regexp.QuoteMeta(old)
	return renamer{regexp.MustCompile(find + "|" + regexp.QuoteMeta(find)), old, path}
}

// text replaces the path, and the regular expressions that match it.
func (r renamer) text(text []byte) []byte {
	return r.find.ReplaceAllFunc(text, func(found []byte) []byte {
		if string(found) == r.old {
			return []byte(r.new)
		}
		return []byte(regexp.QuoteMeta(r.new))
	})
}

const unpublishedMark, publishedMark, endMark = "<!-- unpublished -->\n", "<!-- published\n", "-->\n"

// published replaces what a page says before the first release by what it has in
// a comment after that, where VERSION is the version:
//
//	<!-- unpublished -->
//	Put a clone next to your own module.
//	<!-- published
//	go get example.com/awsretry@VERSION
//	-->
func published(page []byte, version string) ([]byte, error) {
	var out strings.Builder
	rest := string(page)
	for {
		before, after, found := strings.Cut(rest, unpublishedMark)
		out.WriteString(before)
		if !found {
			return []byte(out.String()), nil
		}
		_, after, found = strings.Cut(after, publishedMark)
		text, after, ended := strings.Cut(after, endMark)
		if !found || !ended {
			return nil, fmt.Errorf("after %q, %q and %q must follow", unpublishedMark, publishedMark, endMark)
		}
		out.WriteString(strings.ReplaceAll(text, "VERSION", version))
		rest = after
	}
}
