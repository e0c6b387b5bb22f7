package simulate

import (
	"strings"

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

// completeSettings completes the last setting of a list: its name, and then the
// options that may follow it.
func completeSettings(_ *cobra.Command, _ []string, list string) ([]string, cobra.ShellCompDirective) {
	before, last := "", list
	if i := strings.LastIndexByte(list, ','); i >= 0 {
		before, last = list[:i+1], list[i+1:]
	}
	var all []string
	for _, name := range scenario.SettingNames() {
		all = append(all, before+name)
	}
	short := last[:max(strings.LastIndexByte(last, '+'), 0)]
	if short == "" {
		short = last
	}
	for _, option := range scenario.SettingOptions() {
		if _, err := scenario.ParseSetting(short + option); err == nil {
			all = append(all, before+short+option)
		}
	}
	return all, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}
