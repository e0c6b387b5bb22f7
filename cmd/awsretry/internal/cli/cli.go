// Package cli runs a command line of awsretry and turns its outcome into an
// exit status.
package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"example.com/awsretry/cmd/awsretry/internal/buildinfo"
	"example.com/awsretry/cmd/awsretry/internal/exit"
	"example.com/awsretry/cmd/awsretry/internal/flags"
	"example.com/awsretry/cmd/awsretry/internal/interrupt"
	"example.com/awsretry/cmd/awsretry/internal/iostreams"
	"example.com/awsretry/cmd/awsretry/internal/screen"
)

// A Command makes one of the commands.
type Command func(iostreams.Streams) *cobra.Command

// Run runs the command of commands that args begins with, reports its error on
// standard error, and returns the exit status. Reads of standard input end with
// ctx.
func Run(ctx context.Context, s iostreams.Streams, args []string, commands ...Command) int {
	s.In = interrupt.NewReader(ctx, s.In)
	root := newRoot(s)
	for _, newCommand := range commands {
		root.AddCommand(newCommand(s))
	}
	root.SetArgs(append([]string{}, args...)) // nil would mean os.Args
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	status := exit.Usage
	if e := (*exit.Error)(nil); errors.As(err, &e) {
		if e.Err == nil {
			return e.Status
		}
		status = e.Status
	}
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		err, status = exit.ErrInterrupted, exit.Failure
	}
	fmt.Fprintf(s.Err, "%s: %s\n", cmd.CommandPath(), screen.Printable(screen.WithoutPackages(err.Error())))
	if status == exit.Usage {
		fmt.Fprintf(s.Err, "See %s --help\n", cmd.CommandPath())
	}
	return status
}

func newRoot(s iostreams.Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "awsretry",
		Short: "Send requests with the AWS SDKs' retry rules, and see every attempt",
		Long: `awsretry sends requests to services that fail and throttle, retries them by the rules of the AWS SDKs,
and shows what happened to each attempt and why it was, or was not, retried.`,
		Example: `  awsretry demo                                   see it work, against a server of its own
  awsretry get https://api.example.com/orders     send a request, with retries
  awsretry config                                 the settings in force, and where each comes from
  awsretry simulate outage                        what settings do to a service and its callers`,
		Version:       buildinfo.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("awsretry {{.Version}}\n")
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetFlagErrorFunc(flags.Error)
	root.CompletionOptions.HiddenDefaultCmd = true
	return root
}
