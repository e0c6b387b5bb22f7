// Package cli has what the commands share, except their output: it runs a command
// line and turns its outcome into an exit status, and it has the flags and
// arguments that several commands use.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"example.com/awsretry/cmd/internal/files"
	"example.com/awsretry/cmd/internal/term"
)

// A Program is a command line of several commands.
type Program struct {
	Name     string
	Short    string // one line
	Long     string
	Example  string
	Commands []Command // in the order of the README
}

// A Command makes one of the commands.
type Command func(term.Streams) *cobra.Command

// Main runs a command line with the streams of this process, and
// ends the process. Ctrl-C and SIGTERM end the context of the command; a second
// one ends the process at once.
func (p Program) Main(args ...string) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(p.Run(ctx, term.System(), args))
}

// Run runs the command that args begins with, reports its error on standard
// error, and returns the exit status. Reads of standard input end with ctx.
func (p Program) Run(ctx context.Context, s term.Streams, args []string) int {
	s.In = files.NewReader(ctx, s.In)
	root := p.Root(s)
	root.SetArgs(append([]string{}, args...)) // nil would mean os.Args
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	status, reported := Usage, false
	if e := (*Error)(nil); errors.As(err, &e) {
		status, reported = e.Status, e.Err == nil
	}
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		err, status = ErrInterrupted, Failure
	}
	if ctx.Err() != nil && status == Failure {
		status = Interrupted
	}
	if reported {
		return status
	}
	fmt.Fprintf(s.Err, "%s: %s\n", cmd.CommandPath(), term.Printable(term.WithoutPackages(err.Error())))
	if status == Usage {
		fmt.Fprintf(s.Err, "See %s --help\n", cmd.CommandPath())
	}
	return status
}

// Root makes the root command, which has all others.
func (p Program) Root(s term.Streams) *cobra.Command {
	root := Parent(&cobra.Command{
		Use:           p.Name,
		Short:         p.Short,
		Long:          p.Long,
		Example:       p.Example,
		Version:       Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	})
	root.SetVersionTemplate(p.Name + " {{.Version}}\n")
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { printHelp(cmd, s) })
	for _, newCommand := range p.Commands {
		root.AddCommand(newCommand(s))
	}
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		Parent(completion)
	}
	return root
}
