package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A Completer is the value of a flag that shells complete.
type Completer interface{ Complete(typed string) []string }

// completeFlags makes shells complete the flags of cmd and of its commands: the
// values of Completers, and file names for flags that take one.
func completeFlags(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		switch f.Value.Type() {
		case "FILE", "LOG", "STORE", "BODY":
			return
		}
		complete := func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			if c, ok := f.Value.(Completer); ok {
				return c.Complete(typed), cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if _, has := cmd.GetFlagCompletionFunc(f.Name); !has {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, complete) // the flag is there, and has none yet
		}
	})
	for _, c := range cmd.Commands() {
		completeFlags(c)
	}
}
