package simulate

import (
	"github.com/spf13/cobra"

	"example.com/awsretry/simulate/scenario"
)

// completeScenario completes the name of a ready scenario, or else of a file.
func completeScenario(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return scenario.Names(), cobra.ShellCompDirectiveDefault
}
