package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A Group is flags that --help prints under a title.
type Group struct {
	Title string
	Flags *pflag.FlagSet
}

// NewFlags returns an empty set of flags for a [Group].
func NewFlags() *pflag.FlagSet { return pflag.NewFlagSet("", pflag.ContinueOnError) }

// AddGroups adds the flags of the groups to cmd, and groups them in its usage.
func AddGroups(cmd *cobra.Command, groups ...Group) {
	for _, g := range groups {
		g.Flags.SortFlags = false
		cmd.Flags().AddFlagSet(g.Flags)
	}
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		var b strings.Builder
		fmt.Fprintf(&b, "Usage:\n  %s\n\nExamples:\n%s\n", cmd.UseLine(), cmd.Example)
		for _, g := range groups {
			fmt.Fprintf(&b, "\n%s:\n%s", g.Title, g.Flags.FlagUsages())
		}
		_, err := fmt.Fprint(cmd.OutOrStderr(), b.String())
		return err
	})
}
