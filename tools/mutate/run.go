package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// run runs the tests with the mutation, and returns the first that fails.
func (m *mutation) run(root string, tests []string, folders map[string][]string) (failed string, err error) {
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
	defer os.RemoveAll(dir)
	mutated, overlay := filepath.Join(dir, filepath.Base(m.file)), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: mutated}})
	if err := errors.Join(err,
		os.WriteFile(mutated, bytes.Replace(code, []byte(m.old), []byte(m.new), 1), 0o600),
		os.WriteFile(overlay, replace, 0o600)); err != nil {
		return "", err
	}

	module := moduleOf(root, path)
	var packages []string
	for _, name := range tests {
		for _, folder := range folders[name] {
			if moduleOf(root, folder) == module {
				packages = append(packages, folder)
			}
		}
	}
	slices.Sort(packages)
	if packages = slices.Compact(packages); len(packages) == 0 {
		return "", fmt.Errorf("none of the tests is in the module of %s", m.file)
	}
	cmd := exec.Command("go", append([]string{
		"test", "-json", "-vet=off", "-failfast", "-timeout=3m", "-overlay", overlay,
		"-run", "^(" + strings.Join(tests, "|") + ")$",
	}, packages...)...)
	cmd.Dir = module
	return firstFailure(cmd)
}

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

// firstFailure runs go test -json, and returns the first test that fails. It is
// an error if none does, or the mutation does not compile.
func firstFailure(cmd *exec.Cmd) (failed string, err error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		return "", errors.New("not noticed: all tests of the rule pass")
	}
	var text strings.Builder
	var begun string // the test that began last, which has crashed if none has failed
	for line := range bytes.Lines(out) {
		var event struct{ Action, Package, Test, Output string }
		if json.Unmarshal(line, &event) != nil {
			continue
		}
		switch text.WriteString(event.Output); event.Action {
		case "build-fail":
			return "", fmt.Errorf("the mutation does not compile:\n%s", text.String())
		case "run":
			begun = event.Test
		case "fail":
			if event.Test != "" {
				return event.Test, nil
			}
			failed = cmp.Or(begun, event.Package)
		}
	}
	if failed != "" {
		return failed, nil
	}
	return "", fmt.Errorf("%w: %s%s", err, text.String(), stderr.String())
}
