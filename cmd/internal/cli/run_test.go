package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"example.com/awsretry/cmd/internal/term"
)

func TestExitStatus(t *testing.T) {
	for _, c := range []struct {
		name   string
		err    error
		status int
		stderr string
	}{
		{"success", nil, 0, ""},
		{"usage", errors.New("awsretry: no"), Usage, "awsretry test: no\nSee awsretry test --help\n"},
		{"failure", Failed(errors.New("delivery: no\x1b[2J")), Failure, "awsretry test: no\uFFFD[2J\n"},
		{"failure with context", fmt.Errorf("file: %w", Failed(io.EOF)), Failure, "awsretry test: file: EOF\n"},
		{"reported", Reported(HTTPError), HTTPError, ""},
		{"interrupted", nil, Interrupted, "awsretry test: interrupted\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			command := func(term.Streams) *cobra.Command {
				return &cobra.Command{Use: "test", RunE: func(*cobra.Command, []string) error {
					if c.name == "interrupted" {
						cancel(errors.New("interrupt signal received"))
						return fmt.Errorf("sending: %w", context.Cause(ctx))
					}
					return c.err
				}}
			}
			var stdout, stderr bytes.Buffer
			streams := term.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}
			status := Program{Name: "awsretry", Commands: []Command{command}}.Run(ctx, streams, []string{"test"})
			if status != c.status || stderr.String() != c.stderr || stdout.Len() > 0 {
				t.Errorf("status %d, %q; want %d, %q", status, stderr.String(), c.status, c.stderr)
			}
		})
	}
}

// The page for scripts has the exit statuses of the help.
func TestStatusesAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "SCRIPTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statuses {
		when, _, _ := strings.Cut(s.when, ", ")
		if row := fmt.Sprintf("\n| %d | %s", s.status, when); !strings.Contains(string(page), row) {
			t.Errorf("docs/SCRIPTS.md lacks %q", row)
		}
	}
}
