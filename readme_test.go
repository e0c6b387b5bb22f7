package awsretry_test

import (
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Every block of Go in the README stands, statement by statement, in an example that is compiled and run; only "quick", which
// spares the examples the pauses, is left out of it.
func TestReadmeCodeIsInTheExamples(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var examples strings.Builder
	for _, name := range []string{"example_test.go", "example_policies_test.go", "readme_examples_test.go"} {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		examples.Write(source)
	}
	plain := normal(examples.String())
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) < 5 {
		t.Fatalf("only %d blocks of Go: the README shows five ways of use", len(blocks))
	}
	for _, block := range blocks {
		if _, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc _() {\n"+block[1]+"\n}", 0); err != nil {
			t.Errorf("%v in\n%s", err, block[1])
		}
		if !strings.Contains(plain, normal(block[1])) {
			t.Errorf("no example has\n%s", block[1])
		}
	}
}

func normal(source string) string {
	source = regexp.MustCompile(`,? ?Backoff: quick`).ReplaceAllString(source, "")
	return strings.Join(strings.Fields(source), " ")
}
