package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"example.com/awsretry/cmd/awsretry/internal/exit"
	"example.com/awsretry/cmd/awsretry/internal/iostreams"
)

func TestExitStatus(t *testing.T) {
	for _, c := range []struct {
		name   string
		err    error
		status int
		stderr string
	}{
		{"success", nil, 0, ""},
		{"usage", errors.New("awsretry: no"), exit.Usage, "awsretry test: no\nSee awsretry test --help\n"},
		{"failure", exit.Failed(errors.New("delivery: no\x1b[2J")), exit.Failure, "awsretry test: no\uFFFD[2J\n"},
		{"failure with context", fmt.Errorf("file: %w", exit.Failed(io.EOF)),
			exit.Failure, "awsretry test: file: EOF\n"},
		{"reported", exit.Reported(exit.HTTPError), exit.HTTPError, ""},
		{"interrupted", nil, exit.Failure, "awsretry test: interrupted\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			command := func(iostreams.Streams) *cobra.Command {
				return &cobra.Command{Use: "test", RunE: func(*cobra.Command, []string) error {
					if c.name == "interrupted" {
						cancel(errors.New("interrupt signal received"))
						return fmt.Errorf("sending: %w", context.Cause(ctx))
					}
					return c.err
				}}
			}
			var stdout, stderr bytes.Buffer
			streams := iostreams.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}
			status := Run(ctx, streams, []string{"test"}, command)
			if status != c.status || stderr.String() != c.stderr || stdout.Len() > 0 {
				t.Errorf("status %d, %q; want %d, %q", status, stderr.String(), c.status, c.stderr)
			}
		})
	}
}
