package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Version returns the version that the Go command recorded in the binary, or
// (devel).
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// version returns the command that prints the version, with that of Go.
func (p Program) version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long:  "Prints the version of the program, and of Go.",
		Args:  Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s %s %s/%s\n",
				p.Name, Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return Failed(err)
		},
	}
}
