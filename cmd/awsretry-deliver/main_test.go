package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"

	"example.com/awsretry/cmd/internal/clitest"
)

func TestHelp(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"", []string{"enqueue ", "work ", "list ", "stats ", "redrive ", "cancel ", "letters ", "schedule ", "version "}},
		{"enqueue --help", []string{"Exit status: 0 ", "--db STORE", "--policy FILE"}},
		{"work --help", []string{"Exit status: 0 ", "--db STORE", "--until-empty"}},
		{"list --help", []string{"Exit status: 0 ", "--db STORE", "--state STATE"}},
		{"stats --help", []string{"Exit status: 0 ", "--db STORE"}},
		{"redrive --help", []string{"Exit status: 0 ", "--db STORE", "--dry-run"}},
		{"cancel --help", []string{"Exit status: 0 ", "--db STORE"}},
		{"schedule --help",
			[]string{"Exit status: 0 success; 1 ", "\nPolicy:\n", "\nOutput:\n", "--svg FILE", "\nExamples:\n"}},
		{"letters list --help", []string{"Exit status: 0 success; 1 ", "--json"}},
		{"letters redrive --help",
			[]string{"Exit status: 0 all letters were delivered; 22 ", "--policy FILE", "--attempt-timeout TIME"}},
		{"version", []string{"awsretry-deliver (devel) go1."}},
		{"--version", []string{"awsretry-deliver (devel)\n"}},
	} {
		t.Run(c.args, func(t *testing.T) {
			got := clitest.Shell{}.RunProgram(t.Context(), t, program, strings.Fields(c.args)...)
			if got.Status != 0 || got.Err != "" {
				t.Errorf("%+v, want status 0", got)
			}
			for _, want := range c.want {
				if !strings.Contains(got.Out, want) {
					t.Errorf("%q is not in %q", want, got.Out)
				}
			}
		})
	}
}

// Tables fit the terminal.
func TestTablesFit(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "policy.json")
	document := `{"healthyRetryPolicy": {"numRetries": 10, "minDelayTarget": 5, "maxDelayTarget": 260}}`
	if err := os.WriteFile(policy, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{30, 34, 40, 60, 80, 120, 200} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			got := clitest.Shell{Terminals: []string{"stdout"}, Width: width}.RunProgram(t.Context(), t, program, "schedule", "--compare", policy)
			lines := 0
			for line := range strings.Lines(got.Out) {
				line = strings.TrimSuffix(line, "\n")
				if strings.HasPrefix(line, "10 retries") || strings.Contains(line, "policy.json") {
					continue
				}
				lines++
				if n := text.StringWidthWithoutEscSequences(line); n > width {
					t.Errorf("a line of %d characters: %q", n, line)
				}
			}
			if lines < 3 {
				t.Errorf("%d lines of tables in\n%s%s", lines, got.Out, got.Err)
			}
		})
	}
}
