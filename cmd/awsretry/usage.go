package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A flagGroup is what --help prints under a title.
type flagGroup struct {
	title string
	flags *pflag.FlagSet
}

// groupFlags adds the groups' flags to the command, whose usage then shows them by group.
func groupFlags(cmd *cobra.Command, groups ...flagGroup) {
	for _, g := range groups {
		g.flags.SortFlags = false
		cmd.Flags().AddFlagSet(g.flags)
	}
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		var b strings.Builder
		fmt.Fprintf(&b, "Usage:\n  %s\n\nExamples:\n%s\n", cmd.UseLine(), cmd.Example)
		for _, g := range groups {
			fmt.Fprintf(&b, "\n%s:\n%s", g.title, g.flags.FlagUsages())
		}
		_, err := fmt.Fprint(cmd.OutOrStderr(), b.String())
		return err
	})
}

// flagSet is an empty group's flags.
func flagSet() *pflag.FlagSet { return pflag.NewFlagSet("", pflag.ContinueOnError) }
