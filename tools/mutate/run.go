package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// run runs the tests with the mutation, and returns the one that fails.
func (m *mutation) run(root string, tests []string) (failed string, err error) {
	path := filepath.Join(root, m.file)
	code, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := bytes.Count(code, []byte(m.old)); n != 1 {
		return "", fmt.Errorf("%s has the fragment %d times, it must have it once: write the mutation again", m.file, n)
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	mutated, overlay := filepath.Join(dir, filepath.Base(m.file)), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: mutated}})
	if err := errors.Join(err,
		os.WriteFile(mutated, bytes.Replace(code, []byte(m.old), []byte(m.new), 1), 0o600),
		os.WriteFile(overlay, replace, 0o600)); err != nil {
		return "", err
	}
	module, names := moduleOf(root, path), "("+strings.Join(tests, "|")+")"
	packages := packagesWith(root, module, names)
	if len(packages) == 0 {
		return "", fmt.Errorf("none of the tests is in the module of %s: %s", m.file, names)
	}
	cmd := exec.Command("go", append([]string{
		"test", "-vet=off", "-count=1", "-failfast", "-timeout=3m", "-overlay", overlay, "-run", "^" + names + "$",
	}, packages...)...)
	cmd.Dir = module
	out, err := cmd.CombinedOutput()
	switch failure := failurePattern.FindSubmatch(out); {
	case err == nil:
		return "", errors.New("not noticed: all tests of the rule pass")
	case failure == nil || bytes.Contains(out, []byte(" failed]\n")):
		return "", fmt.Errorf("the tests do not run: %w\n%s", err, out)
	default:
		return string(failure[1]), nil
	}
}

// failurePattern matches a test that fails, or a package whose tests crash.
var failurePattern = regexp.MustCompile(`(?m)^(?:--- FAIL: |FAIL\t)(\S+)`)

// moduleOf returns the folder of the go.mod that a file or folder belongs to.
func moduleOf(root, path string) string {
	for path != root {
		if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
			break
		}
		path = filepath.Dir(path)
	}
	return path
}

// packagesWith returns the folders of the module that have tests of the names.
func packagesWith(root, module, names string) (folders []string) {
	grep := exec.Command("git", "grep", "--untracked", "-lE", "^func "+names+`\(`, "--", "*_test.go")
	grep.Dir = module
	out, _ := grep.Output() // fails if there is none
	for name := range strings.FieldsSeq(string(out)) {
		if folder := filepath.Dir(filepath.Join(module, name)); moduleOf(root, folder) == module {
			folders = append(folders, folder)
		}
	}
	slices.Sort(folders)
	return slices.Compact(folders)
}
