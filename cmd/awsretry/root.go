package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// A process is what a command may touch of the process that it runs in, so that tests can run it in theirs.
type process struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	isTerminal     func(io.Writer) bool
	width          func(io.Writer) int // of a terminal in characters; 0, and where the function is nil: not known
}

// tableWidth is how long the lines of a table may be; 0: of any length.
func (p process) tableWidth(w io.Writer) int {
	if p.width == nil || !p.isTerminal(w) {
		return 0
	}
	return p.width(w)
}

func (p process) warn(command, warning string) {
	fmt.Fprintf(p.stderr, "awsretry %s: warning: %s\n", command, printable(warning))
}

// The exit statuses.
const (
	exitFailure   = 1
	exitUsage     = 2
	exitHTTPError = 22 // as curl --fail has it
)

// A failure is an error with an exit status. Errors of other types, cobra's among them, are of usage.
type failure struct {
	status int
	err    error // nil: the user has been told already
}

func (f *failure) Error() string {
	if f.err == nil {
		return ""
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// failed makes err a failure that is not of usage.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return &failure{exitFailure, err}
}

// run runs one command line and returns its exit status.
func run(ctx context.Context, args []string, p process) int {
	if !isRegular(p.stdin) {
		p.stdin = newInterruptibleReader(ctx, p.stdin)
	}
	root := newRoot(p)
	root.SetArgs(append([]string{}, args...)) // nil would mean os.Args
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	var f *failure
	usage := !errors.As(err, &f)
	if !usage && f.err == nil {
		return f.status
	}
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		err, usage, f = errInterrupted, false, &failure{status: exitFailure}
	}
	fmt.Fprintf(p.stderr, "%s: %s\n", cmd.CommandPath(), strings.TrimPrefix(printable(err.Error()), "awsretry: "))
	if usage {
		fmt.Fprintf(p.stderr, "See %s --help\n", cmd.CommandPath())
		return exitUsage
	}
	return f.status
}

func newRoot(p process) *cobra.Command {
	root := &cobra.Command{
		Use:   "awsretry",
		Short: "Send requests with the AWS SDKs' rules for retries, and see every attempt",
		Long: `awsretry sends requests to services that fail and throttle, retries them by the rules of the AWS SDKs,
and shows what happened to each attempt and why it was, or was not, retried.`,
		Example: `  awsretry demo                                   see it working, against a server of its own
  awsretry get https://api.example.com/orders     send a request, with retries
  awsretry config                                 the settings in force, and where each comes from
  awsretry simulate outage                        what settings do to a service and its callers`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("awsretry {{.Version}}\n")
	root.SetIn(p.stdin)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newGet(p), newConfig(p), newDemo(p), newSimulate(p), newSchedule(p), newDeadLetter(p), newVersion())
	return root
}

// exactly is cobra.ExactArgs with messages that name what is missing. An empty
// argument counts as missing: it is a variable of the shell that is not set.
func exactly(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return fmt.Errorf("%s is missing", names[len(args)])
		}
		if len(args) > len(names) {
			return fmt.Errorf("argument %q is one too many", args[len(names)])
		}
		if i := slices.Index(args, ""); i >= 0 {
			return fmt.Errorf("%s is empty", names[i])
		}
		return nil
	}
}
