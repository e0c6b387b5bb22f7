package docs

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.com/awsretry"
	"example.com/awsretry/delivery"
	"example.com/awsretry/poll"
)

// TestMain runs the tests in the root of the repository.
func TestMain(m *testing.M) {
	if err := os.Chdir(".."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func TestDocsNameExistingTests(t *testing.T) {
	tests := testFuncs(t)
	named := regexp.MustCompile("`((?:Test|Fuzz|Example)[A-Z_][A-Za-z0-9_]*)`")
	for _, page := range pages(t) {
		for _, match := range named.FindAllStringSubmatch(readText(t, page), -1) {
			if !tests[match[1]] {
				t.Errorf("%s names %s, which does not exist", page, match[1])
			}
		}
	}
}

// TestSourcesNameExistingSymbols finds the symbols of each rule in
// docs/SOURCES.md. It also checks that each row has a symbol and a test, and
// that the letters of the differences are those of the list.
func TestSourcesNameExistingSymbols(t *testing.T) {
	const page = "docs/SOURCES.md"
	symbols := exportedSymbols(t)
	code := regexp.MustCompile("`([^`]+)`")
	difference := regexp.MustCompile(`: ([a-z])$`)
	text := readText(t, page)

	rows := 0
	letters := make(map[string]bool)
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| rule |") {
			continue
		}
		rows++
		if len(cells) != 4 {
			t.Errorf("%s: the row has %d cells, not 4: %s", page, len(cells), line)
			continue
		}
		named := code.FindAllStringSubmatch(cells[1], -1)
		if len(named) == 0 || !code.MatchString(cells[2]) {
			t.Errorf("%s: a row without a symbol or a test: %s", page, line)
		}
		for _, match := range named {
			if !symbols[match[1]] {
				t.Errorf("%s names %s, which does not exist", page, match[1])
			}
		}
		if match := difference.FindStringSubmatch(strings.TrimSpace(cells[3])); match != nil {
			letters[match[1]] = true
			if !strings.Contains(text, "\n- **"+match[1]+". ") {
				t.Errorf("%s: difference %s is not explained", page, match[1])
			}
		}
	}
	if rows < 50 {
		t.Errorf("%s has only %d rules", page, rows)
	}
	for _, match := range regexp.MustCompile(`\n- \*\*([a-z])\. `).FindAllStringSubmatch(text, -1) {
		if !letters[match[1]] {
			t.Errorf("%s explains difference %s, which no rule has", page, match[1])
		}
	}
}

// TestSettingsAreComplete finds every field of the types that hold settings in
// docs/SETTINGS.md, and those of Source in docs/LOAD.md.
func TestSettingsAreComplete(t *testing.T) {
	const page = "docs/SETTINGS.md"
	text := readText(t, page) + readText(t, "docs/LOAD.md")
	for _, settings := range []any{
		awsretry.Transport{}, awsretry.Exponential{}, awsretry.Decorrelated{}, awsretry.QuotaConfig{},
		awsretry.RateLimitConfig{}, awsretry.Source{}, delivery.Transport{}, poll.Config{},
	} {
		typ := reflect.TypeOf(settings)
		for i := range typ.NumField() {
			if field := typ.Field(i); field.IsExported() && !strings.Contains(text, "\n| `"+field.Name+"` |") {
				t.Errorf("%s does not have %v.%s", page, typ, field.Name)
			}
		}
	}
}

func TestAwssdkSettingsAreComplete(t *testing.T) {
	const page = "awssdk/README.md"
	text := readText(t, page)
	fields := 0
	for symbol := range exportedSymbols(t) {
		if field, ok := strings.CutPrefix(symbol, "awssdk.Config."); ok {
			fields++
			if !strings.Contains(text, "\n| `"+field+"` |") {
				t.Errorf("%s does not have %s", page, field)
			}
		}
	}
	if fields < 10 {
		t.Errorf("found only %d fields of awssdk.Config", fields)
	}
}

func TestArchitectureNamesEveryPackage(t *testing.T) {
	const page = "docs/ARCHITECTURE.md"
	text := readText(t, page)
	folders, err := os.ReadDir("internal")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		if folder.IsDir() && !strings.Contains(text, "\n| internal/"+folder.Name()+" |") {
			t.Errorf("%s does not have internal/%s", page, folder.Name())
		}
	}
}

func TestArchitectureNamesExistingFiles(t *testing.T) {
	const page = "docs/ARCHITECTURE.md"
	exists := make(map[string]bool)
	for _, file := range goFiles(t) {
		exists[filepath.Base(file)] = true
	}
	for _, name := range regexp.MustCompile(`\w+\.go\b`).FindAllString(readText(t, page), -1) {
		if !exists[name] {
			t.Errorf("%s names %s, which does not exist", page, name)
		}
	}
}

// TestGoLines holds the go.mod files to the first release of a Go version, since
// a go line raises that of every user, and the README to what they say.
func TestGoLines(t *testing.T) {
	readme := readText(t, "README.md")
	var files []string
	for _, pattern := range []string{"go.mod", "*/go.mod", "*/*/go.mod"} {
		more, _ := filepath.Glob(pattern)
		files = append(files, more...)
	}
	if len(files) < 10 {
		t.Errorf("only %d go.mod files", len(files))
	}
	for _, file := range files {
		line := regexp.MustCompile(`(?m)^go (1\.\d+)\.0$`).FindStringSubmatch(readText(t, file))
		if line == nil {
			t.Errorf("%s has no go line of a first release, such as 1.25.0", file)
		} else if !strings.Contains(readme, "Go "+line[1]) {
			t.Errorf("the README does not say that %s needs Go %s", file, line[1])
		}
	}
}

// TestClientsTable compares the versions in the table of docs/CLIENTS.md with those
// that a measurement would use.
func TestClientsTable(t *testing.T) {
	versions := readText(t, "interop/rows/go.mod")
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` (v[^ ,]+)").FindAllStringSubmatch(readText(t, "docs/CLIENTS.md"), -1)
	if len(rows) < 5 {
		t.Errorf("only %d rows", len(rows))
	}
	for _, row := range rows {
		if !strings.Contains(versions, row[1]+" "+row[2]) {
			t.Errorf("the table has %s %s, which is not required; make clients measures it again", row[1], row[2])
		}
	}
}

// TestDocsLinksLeadSomewhere follows the links of the pages to files and to
// headings.
func TestDocsLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, page := range pages(t) {
		for _, match := range link.FindAllStringSubmatch(readText(t, page), -1) {
			target, heading, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := page
			if target != "" {
				file = filepath.Join(filepath.Dir(page), filepath.FromSlash(target))
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: the link %s: %v", page, match[1], err)
			} else if heading != "" && !slices.Contains(headings(t, file), heading) {
				t.Errorf("%s: the link %s: there is no such heading", page, match[1])
			}
		}
	}
}

// TestPicturesAreDrawnAndShown compares the files in docs/pictures with those
// that make pictures and make screenshot draw, and with those that the pages show.
func TestPicturesAreDrawnAndShown(t *testing.T) {
	drawn, shown := make(map[string]bool), make(map[string]bool)
	for _, match := range regexp.MustCompile(`\$\(PICTURES\)/([\w.-]+)`).FindAllStringSubmatch(readText(t, "Makefile"), -1) {
		drawn[match[1]] = true
	}
	image := regexp.MustCompile(`!\[[^\]]+\]\(([^)\s]+)\)`)
	for _, page := range pages(t) {
		for _, match := range image.FindAllStringSubmatch(readText(t, page), -1) {
			file := filepath.ToSlash(filepath.Join(filepath.Dir(page), match[1]))
			name, ok := strings.CutPrefix(file, "docs/pictures/")
			if !ok {
				t.Errorf("%s shows %s, which is not in docs/pictures", page, match[1])
			}
			shown[name] = true
		}
	}
	files, err := os.ReadDir("docs/pictures")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d pictures, %v", len(files), err)
	}
	for _, file := range files {
		name := file.Name()
		// A PNG of a browser differs from machine to machine, so make pictures-check ignores it.
		if !drawn[name] || !shown[name] || filepath.Ext(name) != ".svg" && name != "statuspage.png" {
			t.Errorf("%s: drawn by make pictures: %v, on a page: %v; want both, and an SVG", name, drawn[name], shown[name])
		}
		delete(drawn, name)
	}
	if len(drawn) > 0 {
		t.Errorf("make pictures also draws %v", drawn)
	}
}

// pages returns the README, that of awssdk, and everything in docs.
func pages(t *testing.T) []string {
	t.Helper()
	pages := []string{"README.md", "awssdk/README.md"}
	err := filepath.WalkDir("docs", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil || len(pages) < 5 {
		t.Fatalf("found %d pages, %v", len(pages), err)
	}
	return pages
}

// headings returns a page's headings as they are in the address of a link.
func headings(t *testing.T, page string) []string {
	t.Helper()
	var anchors []string
	for _, match := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(readText(t, page), -1) {
		words := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(match[1]), "")
		anchors = append(anchors, strings.ReplaceAll(words, " ", "-"))
	}
	return anchors
}

// testFuncs returns the names of all tests, fuzz targets and examples of the
// repository.
func testFuncs(t *testing.T) map[string]bool {
	t.Helper()
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
	names := make(map[string]bool)
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") {
			for _, match := range function.FindAllStringSubmatch(readText(t, file), -1) {
				names[match[1]] = true
			}
		}
	}
	return names
}

// goFiles returns the paths of the Go files of all modules.
func goFiles(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == "node_modules" || entry.Name() == ".git"):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go"):
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// exportedSymbols returns the names in docs/API.txt: types, functions, variables,
// constants, and the methods and fields of types, as in Quota.Acquire. Those of
// other packages than the root have the package's name in front.
func exportedSymbols(t *testing.T) map[string]bool {
	t.Helper()
	symbols := make(map[string]bool)
	listed := regexp.MustCompile(`(?m)^pkg example\.com/awsretry(\S*), ` +
		`(?:(?:const|func|var|type) (\w+)(?: (?:struct|interface), (\w+))?|method \(\*?(\w+)\) (\w+))`)
	for _, match := range listed.FindAllStringSubmatch(readText(t, "docs/API.txt"), -1) {
		symbol, member := match[2]+match[4], match[3]+match[5]
		if match[1] != "" {
			symbol = path.Base(match[1]) + "." + symbol
		}
		symbols[symbol] = true
		if member != "" {
			symbols[symbol+"."+member] = true
		}
	}
	return symbols
}
