// Package version is the command awsretry version.
package version

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"example.com/awsretry/cmd/awsretry/internal/buildinfo"
	"example.com/awsretry/cmd/awsretry/internal/exit"
	"example.com/awsretry/cmd/awsretry/internal/flags"
	"example.com/awsretry/cmd/awsretry/internal/iostreams"
)

// New returns the command.
func New(iostreams.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  flags.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "awsretry %s %s %s/%s\n",
				buildinfo.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return exit.Failed(err)
		},
	}
}
