// Package clitest runs a command in the process of its test.
package clitest

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/term"
)

// A Shell runs command lines. Its zero value has an empty standard input, no
// terminal, and an environment without settings.
type Shell struct {
	Env       map[string]string
	In        io.Reader
	Terminals []string  // of "stdout" and "stderr"
	Width     int       // of the terminals; 0: not known
	Out, Err  io.Writer // in place of those that Result has; nil: none

	Mask func(printed string) string // of a Transcript: replaces what differs each time; nil: nothing does
}

// A Result is the outcome of a command line.
type Result struct {
	Status   int
	Out, Err string
}

// Run runs a command line of one command. The program has the name of the
// module that is tested.
func (s Shell) Run(t *testing.T, command cli.Command, args ...string) Result {
	t.Helper()
	return s.RunContext(t.Context(), t, command, args...)
}

// RunContext is Run with a context that ends when the user interrupts the
// command.
func (s Shell) RunContext(ctx context.Context, t *testing.T, command cli.Command, args ...string) Result {
	t.Helper()
	return s.RunProgram(ctx, t, program(t, command), args...)
}

// program returns a program of these commands with the name of the module that is
// tested.
func program(t *testing.T, commands ...cli.Command) cli.Program {
	t.Helper()
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("the test has no module")
	}
	return cli.Program{Name: path.Base(info.Main.Path), Commands: commands}
}

// RunProgram runs a command line of a program.
func (s Shell) RunProgram(ctx context.Context, t *testing.T, program cli.Program, args ...string) Result {
	t.Helper()
	home := t.TempDir() // the command reads no file of this machine
	var stdout, stderr bytes.Buffer
	if s.In == nil {
		s.In = strings.NewReader("")
	}
	if s.Out == nil {
		s.Out = &stdout
	}
	if s.Err == nil {
		s.Err = &stderr
	}
	status := program.Run(ctx, term.Streams{
		In:  s.In,
		Out: s.Out,
		Err: s.Err,
		Getenv: func(name string) string {
			if value, ok := s.Env[name]; ok {
				return value
			}
			return map[string]string{"HOME": home, "TERM": "xterm"}[name]
		},
		IsTerminal: func(w io.Writer) bool {
			return slices.Contains(s.Terminals, "stdout") && w == s.Out ||
				slices.Contains(s.Terminals, "stderr") && w == s.Err
		},
		Width: func(io.Writer) (int, bool) { return s.Width, s.Width > 0 },
	}, args)
	return Result{status, stdout.String(), stderr.String()}
}

// Check checks the exit status, the whole standard output, and texts that
// standard error has.
func (r Result) Check(t *testing.T, status int, out string, stderr ...string) {
	t.Helper()
	if r.Status != status || r.Out != out {
		t.Errorf("got %+v, want status %d and %q", r, status, out)
	}
	for _, want := range stderr {
		if !strings.Contains(r.Err, want) {
			t.Errorf("standard error lacks %q:\n%s", want, r.Err)
		}
	}
}

// File writes a file into its own folder, and returns its path.
func File(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// Golden compares what a command printed with a file in testdata.
func Golden(t *testing.T, name, printed string) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(name, []byte(printed), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), printed); diff != "" {
		t.Errorf("%s to printed:\n%s", name, diff)
	}
}

// Must returns the value of a call that has no error: Must[T](t)(call()).
func Must[T any](t testing.TB) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// FullDisk is a writer that always fails.
type FullDisk struct{}

func (FullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }
