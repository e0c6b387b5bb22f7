package kit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// WriteFile writes a file, or ends the test.
func WriteFile(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Find returns the path of a file or folder of the repository, which is in a
// folder above that of the test.
func Find(t testing.TB, path string) string {
	t.Helper()
	for _, up := range []string{".", "..", "../.."} {
		if found := filepath.Join(up, path); exists(found) {
			return found
		}
	}
	t.Fatalf("no folder above has %s", path)
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// A Page is one of docs/results that a test makes.
type Page struct {
	File, Title string
	By          string // the folder and the flags for go test that write it
}

// Update writes the page if UPDATE is set, and returns it.
func (p Page) Update(t testing.TB, tables string) string {
	t.Helper()
	dir, flags, _ := strings.Cut(p.By, " ")
	text := fmt.Sprintf("# %s\n\nWritten by `cd %s && UPDATE=1 go test -run %s`.\n%s", p.Title, dir, flags, tables)
	if os.Getenv("UPDATE") != "" {
		WriteFile(t, p.path(t), []byte(text))
	}
	return text
}

// Check is Update for a page that does not change by chance. It fails unless the
// page is what the test shows.
func (p Page) Check(t testing.TB, tables string) {
	t.Helper()
	text := p.Update(t, tables)
	if diff := cmp.Diff(strings.Split(p.Read(t), "\n"), strings.Split(text, "\n")); diff != "" {
		t.Errorf("%s is not what the test shows; UPDATE=1 writes it. Document to test:\n%s", p.File, diff)
	}
}

// Read returns the page.
func (p Page) Read(t testing.TB) string {
	t.Helper()
	return string(Must[[]byte](t)(os.ReadFile(p.path(t))))
}

func (p Page) path(t testing.TB) string { return filepath.Join(Find(t, "docs/results"), p.File) }
