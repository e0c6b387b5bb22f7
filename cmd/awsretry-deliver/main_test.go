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

func TestHelp(t *testing.T) { clitest.CheckHelp(t, program) }

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
