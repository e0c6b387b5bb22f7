package clitest

import (
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/term"
)

// CheckHelp checks the help of every command of the program. It must fit 80 columns
// and, except for text to be typed, a narrow terminal. It must describe the exit
// statuses of the command.
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

// CheckWidths checks that the tables that a command prints fit terminals of many
// widths. isTable reports whether a line belongs to a table.
func CheckWidths(
	t *testing.T, program cli.Program, env map[string]string, isTable func(line string) bool, args ...string,
) {
	t.Helper()
	for _, width := range []int{30, 34, 40, 60, 80, 120, 200} {
		terminal := Shell{Env: env, Terminals: []string{"stdout", "stderr"}, Width: width}
		got := terminal.RunProgram(t.Context(), t, program, args...)
		lines := 0
		for line := range strings.Lines(got.Out + got.Err) {
			line = strings.TrimSuffix(line, "\n")
			if !isTable(line) {
				continue
			}
			lines++
			if n := text.StringWidthWithoutEscSequences(line); n > width {
				t.Errorf("%q, width %d: a line of %d columns: %q", args, width, n, line)
			}
		}
		if lines < 3 {
			t.Errorf("%q, width %d: %d lines of tables in\n%s%s", args, width, lines, got.Out, got.Err)
		}
	}
}
