package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A result is the outcome of the tests for a mutation.
type result struct {
	*mutation
	test  string // the first that failed
	named bool   // the rule's row, or the list, names it
	err   error  // the tests could not run
	took  time.Duration
}

func (r result) ok() bool { return r.reason != "" || r.err == nil && r.test != "" && r.named }

func (r result) String() string {
	text := r.mutation.String()
	switch took := r.took.Round(100 * time.Millisecond); {
	case r.reason != "":
	case r.err != nil:
		text += fmt.Sprintf("  FAULT: %v\n", r.err)
	case r.test == "":
		text += fmt.Sprintf("  SURVIVED all tests (%v)\n", took)
	case !r.named:
		text += fmt.Sprintf("  SURVIVED the tests that the rule names; %s notices (%v)\n", r.test, took)
	default:
		text += fmt.Sprintf("  %s (%v)\n", r.test, took)
	}
	return text
}

// runAll yields the results in the order of the list.
func (r *repository) runAll(list []*mutation, jobs int) iter.Seq[result] {
	return func(yield func(result) bool) {
		free := make(chan struct{}, max(jobs, 1))
		results := make([]chan result, len(list))
		for i := range list {
			results[i] = make(chan result, 1)
		}
		go func() {
			for i, m := range list {
				free <- struct{}{}
				go func() {
					defer func() { <-free }()
					results[i] <- r.run(m)
				}()
			}
		}()
		for _, c := range results {
			if !yield(<-c) {
				return
			}
		}
	}
}

// run runs the tests that are to notice the mutation, and the others if they
// do not.
func (r *repository) run(m *mutation) (res result) {
	res.mutation = m
	if m.reason != "" {
		return res
	}
	start := time.Now()
	defer func() { res.took = time.Since(start) }()
	overlay, remove, err := r.overlay(m)
	if err != nil {
		res.err = err
		return res
	}
	defer remove()

	module, names := r.moduleOf(filepath.Join(r.root, m.file)), r.testsOf(m)
	args := append([]string{"-run", "^(" + strings.Join(names, "|") + ")$"}, r.packagesOf(module, names)...)
	if res.test, res.err = goTest(module, overlay, args); res.test == "" && res.err == nil {
		res.test, res.err = goTest(module, overlay, suite(module == r.root, m.file))
		return res
	}
	res.named = true
	return res
}

// packagesOf returns the packages of the module that have the tests.
func (r *repository) packagesOf(module string, tests []string) (packages []string) {
	for _, name := range tests {
		for _, folder := range r.tests[name] {
			if path, err := filepath.Rel(module, folder); err == nil && r.moduleOf(folder) == module {
				packages = append(packages, "./"+filepath.ToSlash(path))
			}
		}
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}

// suite returns the packages whose tests might notice a mutation of the file.
func suite(library bool, file string) []string {
	switch folder := filepath.ToSlash(filepath.Dir(file)); {
	case !library:
		return []string{"./..."}
	case folder == "delivery" || folder == "poll":
		return []string{"./" + folder}
	}
	return []string{".", "./internal/..."}
}

// overlay writes the mutated file, and the file for go test -overlay.
func (r *repository) overlay(m *mutation) (name string, remove func(), err error) {
	path := filepath.Join(r.root, m.file)
	code, err := os.ReadFile(path)
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	mutated := filepath.Join(dir, filepath.Base(m.file))
	name = filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: mutated}})
	if err == nil {
		err = errors.Join(
			os.WriteFile(mutated, []byte(strings.Replace(string(code), m.old, m.new, 1)), 0o600),
			os.WriteFile(name, replace, 0o600))
	}
	if err != nil {
		remove()
		return "", nil, err
	}
	return name, remove, nil
}

// goTest returns the first test that fails, "" if all pass. The error is for a
// mutation that does not compile.
func goTest(module, overlay string, args []string) (failed string, err error) {
	cmd := exec.Command("go", append([]string{
		"test", "-json", "-vet=off", "-failfast", "-timeout=3m", "-overlay", overlay,
	}, args...)...)
	cmd.Dir = module
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		return "", nil
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
