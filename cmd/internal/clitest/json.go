package clitest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// CheckJSON compares the names in a command's output with --json with those that
// docs/SCRIPTS.md lists for it.
func CheckJSON(t *testing.T, command string, printed ...string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "SCRIPTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n### "+command+"\n")
	section, _, _ = strings.Cut(section, "\n### ")
	documented := make(map[string]bool) // and whether it was printed
	for _, row := range regexp.MustCompile(`(?m)^\| (.*?) \|`).FindAllStringSubmatch(section, -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			documented[name[1]] = false
		}
	}
	for _, text := range printed {
		for decoder := json.NewDecoder(strings.NewReader(text)); decoder.More(); {
			var object any
			if err := decoder.Decode(&object); err != nil {
				t.Fatalf("%v in\n%s", err, text)
			}
			visit(object, "", func(name string) {
				for wildcard := name; ; {
					if _, ok := documented[name]; ok {
						documented[name] = true
						return
					}
					i := strings.LastIndex(wildcard, ".")
					if i < 0 {
						break
					}
					wildcard = wildcard[:i]
					name = wildcard + ".*"
				}
				t.Errorf("%s prints %s, which docs/SCRIPTS.md does not have", command, name)
			})
		}
	}
	for name, seen := range documented {
		if !seen {
			t.Errorf("docs/SCRIPTS.md has %s of %s, which is not printed", name, command)
		}
	}
}

// visit calls f with the path of each value that is neither an object nor a list.
func visit(value any, path string, f func(string)) {
	switch value := value.(type) {
	case map[string]any:
		for name, v := range value {
			visit(v, strings.TrimPrefix(path+"."+name, "."), f)
		}
	case []any:
		for _, v := range value {
			visit(v, path, f)
		}
	default:
		f(path)
	}
}
