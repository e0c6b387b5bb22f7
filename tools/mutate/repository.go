package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	sources      = "docs/SOURCES.md"
	architecture = "docs/ARCHITECTURE.md"
)

// A repository is what the list of mutations refers to.
type repository struct {
	root  string
	rows  map[string][]string // the rules of docs/SOURCES.md, with the tests that they name
	tests map[string][]string // the packages of each test, as folders
}

func openRepository(root string) (*repository, error) {
	r := &repository{root: root, rows: make(map[string][]string), tests: make(map[string][]string)}
	if err := r.readRows(); err != nil {
		return nil, err
	}
	return r, r.findTests()
}

// readRows reads the tables of docs/SOURCES.md.
func (r *repository) readRows() error {
	text, err := os.ReadFile(filepath.Join(r.root, sources))
	if err != nil {
		return err
	}
	section := ""
	named := regexp.MustCompile("`((?:Test|Fuzz|Example)[A-Z_]\\w*)`")
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			section = heading
		}
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| rule |") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		if len(cells) != 4 {
			return fmt.Errorf("%s: a row with %d cells: %s", sources, len(cells), line)
		}
		rule := section + ": " + strings.TrimSpace(cells[0])
		if r.rows[rule] != nil {
			return fmt.Errorf("%s: two rows are %q", sources, rule)
		}
		r.rows[rule] = []string{}
		for _, match := range named.FindAllStringSubmatch(cells[2], -1) {
			r.rows[rule] = append(r.rows[rule], match[1])
		}
	}
	return nil
}

// findTests finds the tests of all modules.
func (r *repository) findTests() error {
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
	return filepath.WalkDir(r.root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{"testdata", "node_modules", ".git"}, entry.Name()):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, match := range function.FindAllStringSubmatch(string(text), -1) {
			if folder := filepath.Dir(path); !slices.Contains(r.tests[match[1]], folder) {
				r.tests[match[1]] = append(r.tests[match[1]], folder)
			}
		}
		return nil
	})
}

// check returns what is wrong with the list.
func (r *repository) check(list []*mutation) (faults []string) {
	text, err := os.ReadFile(filepath.Join(r.root, architecture))
	if err != nil {
		return []string{err.Error()}
	}
	mutated := make(map[string]bool)
	for _, m := range list {
		fault := func(format string, args ...any) {
			faults = append(faults, fmt.Sprintf("line %d: ", m.line)+fmt.Sprintf(format, args...))
		}
		for _, rule := range m.rules {
			mutated[rule] = true
			if number, ok := invariant(rule); ok {
				if !strings.Contains(string(text), "\n"+number+". **") {
					fault("%s has no rule %s", architecture, number)
				}
			} else if r.rows[rule] == nil && !strings.HasPrefix(rule, "also: ") {
				fault("%s has no row %q", sources, rule)
			}
		}
		if m.reason != "" {
			continue
		}
		module := r.moduleOf(filepath.Join(r.root, m.file))
		names := r.testsOf(m)
		for _, name := range names {
			if r.tests[name] == nil {
				fault("there is no %s", name)
			}
		}
		if len(r.packagesOf(module, names)) == 0 {
			fault("no test is named that is in the module of %s", m.file)
		}
		if code, err := os.ReadFile(filepath.Join(r.root, m.file)); err != nil {
			fault("%v", err)
		} else if n := strings.Count(string(code), m.old); n != 1 {
			fault("%s has the fragment %d times, it must have it once:\n%s", m.file, n, m.old)
		}
	}
	for rule := range r.rows {
		if !mutated[rule] {
			faults = append(faults, fmt.Sprintf("no mutation of %q", rule))
		}
	}
	slices.Sort(faults)
	return faults
}

// invariant returns the number of a rule of docs/ARCHITECTURE.md.
func invariant(rule string) (number string, ok bool) {
	rest, ok := strings.CutPrefix(rule, "invariant ")
	number, _, _ = strings.Cut(rest, ":")
	return number, ok
}

// testsOf returns the tests that are to notice a mutation.
func (r *repository) testsOf(m *mutation) []string {
	names := slices.Clone(m.tests)
	if len(names) == 0 {
		for _, rule := range m.rules {
			names = append(names, r.rows[rule]...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// moduleOf returns the folder of the go.mod that a file or folder belongs to.
func (r *repository) moduleOf(path string) string {
	for {
		if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil || path == r.root {
			return path
		}
		path = filepath.Dir(path)
	}
}
