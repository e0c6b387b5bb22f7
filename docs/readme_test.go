package docs

import (
	"errors"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// pagesOfCode are the pages whose Go is in examples.
var pagesOfCode = []string{
	"README.md", "awssdk/README.md", "docs/MODES.md", "docs/OBSERVE.md", "docs/BODIES.md", "docs/LOAD.md",
	"docs/DELIVERY.md", "docs/LIMITS.md", "docs/SERVICES.md", "docs/WEBHOOKS.md", "docs/TESTING.md",
	"docs/STATUSPAGE.md", "docs/CLIENTS.md",
}

// TestReadmeCodeIsInTheExamples finds every block of Go of the README, and of
// the other pages of code, in an example, which is compiled and run. The examples
// may add "Backoff: quick".
func TestReadmeCodeIsInTheExamples(t *testing.T) {
	names, err := filepath.Glob("*example*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var examples strings.Builder
	for _, name := range append(names, "awssdk/example_test.go", "deliveryqueue/example_test.go",
		"deliveryqueue/webhook/example_test.go", "services/example_test.go", "retrylog/example_test.go",
		"retrytest/example_test.go", "statuspage/example_test.go", "interop/rows/example_test.go", "interop/rows/policies_test.go") {
		examples.WriteString(readText(t, name))
	}
	code := normal(examples.String())
	if n := len(blocksOf(t, "README.md", "go")); n < 5 {
		t.Errorf("the README has only %d blocks of Go", n)
	}
	var blocks []string
	for _, page := range pagesOfCode {
		blocks = append(blocks, blocksOf(t, page, "go")...)
	}
	if len(blocks) < 20 {
		t.Errorf("only %d blocks of Go", len(blocks))
	}
	for _, block := range blocks {
		_, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc _() {\n"+block+"\n}", 0)
		if _, e := parser.ParseFile(token.NewFileSet(), "", "package p\n"+block, 0); err != nil && e != nil {
			t.Errorf("%v in\n%s", err, block)
		}
		if !strings.Contains(code, normal(block)) {
			t.Errorf("no example has\n%s", block)
		}
	}
}

func normal(source string) string {
	source = regexp.MustCompile(`,? ?Backoff: quick`).ReplaceAllString(source, "")
	return strings.Join(strings.Fields(source), " ")
}

// TestReadmeConfigFile compares the config file of docs/LOAD.md with the one
// that Example_profile loads.
func TestReadmeConfigFile(t *testing.T) {
	want := readText(t, "testdata/readme/config")
	if blocks := blocksOf(t, "docs/LOAD.md", "ini"); len(blocks) != 1 || blocks[0] != want {
		t.Errorf("the page has the files %q; Example_profile loads %q", blocks, want)
	}
}

// TestReadmeSetup runs the set-up of the README in a new module. It builds
// a program of the library, and resolves the imports of one of all its modules.
func TestReadmeSetup(t *testing.T) {
	_, setup, unpublished := strings.Cut(readText(t, "README.md"), "<!-- unpublished -->")
	if !unpublished {
		t.Skip("the README is that of a release, which needs no set-up")
	}
	setup, _, _ = strings.Cut(setup, "<!-- published")
	lines := regexp.MustCompile("(?s)```\n(.*?)```").FindStringSubmatch(setup)
	if lines == nil {
		t.Fatalf("no commands in %s", setup)
	}
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	user := filepath.Join(dir, "user")
	if err := errors.Join(os.Mkdir(user, 0o777), os.Symlink(root, filepath.Join(dir, "awsretry")),
		os.Mkdir(filepath.Join(user, "all"), 0o777),
		os.WriteFile(filepath.Join(user, "all", "all.go"), []byte(setupImports), 0o666),
		os.WriteFile(filepath.Join(user, "main.go"), []byte(setupProgram), 0o666)); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "sh", "-ec", "go mod init user.example/program\n"+lines[1]+
		"go list -deps ./... >/dev/null\ngo build -o program . && ./program")
	command.Dir = user
	command.Env = append(os.Environ(), "PWD="+user, "GOWORK=")
	if out, err := command.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "standard\n") {
		t.Errorf("%v, and the output\n%s", err, out)
	}
}

const setupProgram = `package main

import (
	"fmt"

	"example.com/awsretry"
)

func main() { fmt.Println(awsretry.Standard) }
`

// setupImports has every module that the set-up names.
const setupImports = `package all

import (
	_ "example.com/awsretry/awssdk"
	_ "example.com/awsretry/deliveryqueue"
	_ "example.com/awsretry/fleet"
	_ "example.com/awsretry/otelretry"
	_ "example.com/awsretry/retryablehttp"
)
`

// TestLinesFitTheScreen holds the pages that are read in a terminal to 100
// columns.
func TestLinesFitTheScreen(t *testing.T) {
	const columns = 100
	for _, name := range []string{"README.md", "CHANGELOG.md"} {
		for i, line := range strings.Split(readText(t, name), "\n") {
			line = strings.ReplaceAll(line, "\t", "    ")
			if n := utf8.RuneCountInString(line); n > columns {
				t.Errorf("%s:%d has %d columns, more than %d", name, i+1, n, columns)
			}
		}
	}
}

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocksOf returns the blocks of code of a page that are marked with
// a language.
func blocksOf(t *testing.T, page, language string) []string {
	t.Helper()
	var blocks []string
	block := regexp.MustCompile("(?s)```" + language + "\n(.*?)```")
	for _, match := range block.FindAllStringSubmatch(readText(t, page), -1) {
		blocks = append(blocks, match[1])
	}
	return blocks
}
