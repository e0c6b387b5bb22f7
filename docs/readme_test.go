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

// TestReadmeSetup runs the set-ups of the README and of retryablehttp, each in
// a new module. It builds a program there, and resolves the imports of one of all
// modules. What it takes from the module cache was checked when it was downloaded.
func TestReadmeSetup(t *testing.T) {
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for page, program := range map[string]string{"README.md": setupProgram, "retryablehttp/README.md": replacedProgram} {
		t.Run(page, func(t *testing.T) {
			_, setup, unpublished := strings.Cut(readText(t, page), "<!-- unpublished -->")
			if !unpublished {
				t.Skip("the page is that of a release")
			}
			setup, _, _ = strings.Cut(setup, "<!-- published")
			lines := regexp.MustCompile("(?s)```\n(.*?)```").FindStringSubmatch(setup)
			if lines == nil {
				t.Fatalf("no commands in %s", setup)
			}
			dir := t.TempDir()
			user := filepath.Join(dir, "user")
			if err := errors.Join(os.Mkdir(user, 0o777), os.Symlink(root, filepath.Join(dir, "awsretry")),
				os.WriteFile(filepath.Join(user, "main.go"), []byte(program), 0o666)); err != nil {
				t.Fatal(err)
			}
			if page == "README.md" {
				if err := errors.Join(os.Mkdir(filepath.Join(user, "all"), 0o777),
					os.WriteFile(filepath.Join(user, "all", "all.go"), []byte(setupImports), 0o666)); err != nil {
					t.Fatal(err)
				}
			}
			commands := strings.ReplaceAll(lines[1], "go install .", "go list -deps . >/dev/null")
			command := exec.CommandContext(t.Context(), "sh", "-ec", "go mod init user.example/program\n"+commands+
				"go list -deps ./... >/dev/null\ngo build -o program . && ./program")
			command.Dir = user
			command.Env = append(os.Environ(), "PWD="+user, "GOWORK=off", "GOSUMDB=off")
			if out, err := command.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "standard\n") {
				t.Errorf("%v, and the output\n%s", err, out)
			}
		})
	}
}

const setupProgram = `package main

import (
	"fmt"

	"example.com/awsretry"
)

func main() { fmt.Println(awsretry.Standard) }
`

// replacedProgram has a method that the package of its import does not have.
const replacedProgram = `package main

import (
	"fmt"

	"github.com/hashicorp/go-retryablehttp"
)

func main() {
	t := retryablehttp.NewClient().Transport()
	t.Mode = "standard"
	fmt.Println(t.Mode)
}
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

// TestPagesAreShort limits the words of a page, but of those that a reader looks
// things up in.
func TestPagesAreShort(t *testing.T) {
	most := map[string]int{"README.md": 1700, "docs/ALGORITHM.md": 0, "docs/ARCHITECTURE.md": 0, "docs/FLEET.md": 0,
		"docs/SETTINGS.md": 0, "docs/SOURCES.md": 0}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range append(pages, "README.md") {
		limit, own := most[page]
		if !own {
			limit = 1500
		}
		if n := len(strings.Fields(readText(t, page))); limit > 0 && n > limit {
			t.Errorf("%s has %d words, more than %d", page, n, limit)
		}
	}
}

// TestIndex finds every page of docs in the index, and the index in the README.
func TestIndex(t *testing.T) {
	if !strings.Contains(readText(t, "README.md"), "](docs/README.md)") {
		t.Error("the README does not link to docs/README.md")
	}
	pages, err := filepath.Glob("docs/[A-Z]*.md")
	if err != nil {
		t.Fatal(err)
	}
	index := readText(t, "docs/README.md")
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" && !regexp.MustCompile(`\| .*\? \| .*\(`+name+`\)`).MatchString(index) {
			t.Errorf("docs/README.md has no question that %s answers", name)
		}
	}
}

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
