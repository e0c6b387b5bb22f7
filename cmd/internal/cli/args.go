package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
)

// Exactly requires one argument for each name. Unlike cobra.ExactArgs, it names
// the argument that is missing. An empty argument is an error too: it usually
// is an unset variable of the shell.
func Exactly(names ...string) cobra.PositionalArgs {
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
