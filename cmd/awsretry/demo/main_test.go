package main

import (
	"os/exec"
	"regexp"
	"testing"
)

// A newcomer waits for what make demo compiles.
func TestCompilesNoMoreThanTheDemo(t *testing.T) {
	deps, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	heavy := regexp.MustCompile(`(?m)^(modernc\.org|gonum\.org|github\.com/(riverqueue|jackc|yuin))/.*$`)
	for _, dep := range heavy.FindAllString(string(deps), -1) {
		t.Errorf("it imports %s", dep)
	}
}
