package clitest

import (
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/term"
)

// CheckHelp checks the help of every command of the program: it fits 80 columns
// and, except for what is to be typed, a narrow terminal, and says when the
// command ends with which exit status.
func CheckHelp(t *testing.T, program cli.Program) {
	t.Helper()
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		args := append(strings.Fields(cmd.CommandPath())[1:], "--help")
		wide := Shell{}.RunProgram(t.Context(), t, program, args...)
		narrow := Shell{Terminals: []string{"stdout"}, Width: 60}.RunProgram(t.Context(), t, program, args...)
		for width, got := range map[int]Result{80: wide, 60: narrow} {
			if got.Status != 0 || got.Err != "" {
				t.Errorf("%q: %+v, want status 0", args, got)
			}
			for line := range strings.Lines(got.Out) {
				typed := width < 80 && strings.Contains(line, program.Name)
				if n := text.StringWidth(strings.TrimSuffix(line, "\n")); n > width && !typed {
					t.Errorf("%q prints a line of %d columns, want %d: %s", args, n, width, line)
				}
			}
		}
		if !cmd.HasSubCommands() && !strings.Contains(wide.Out, "\nExit status:\n  0    ") {
			t.Errorf("%q has no exit status:\n%s", args, wide.Out)
		}
		for _, c := range cmd.Commands() {
			check(c)
		}
	}
	check(program.Root(term.Streams{}))
}
