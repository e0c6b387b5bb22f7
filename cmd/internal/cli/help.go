package cli

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"example.com/awsretry/cmd/internal/term"
)

// A Group is flags that --help prints under a title.
type Group struct {
	Title string
	Flags *pflag.FlagSet
}

// NewFlags returns an empty set of flags for a [Group].
func NewFlags() *pflag.FlagSet { return pflag.NewFlagSet("", pflag.ContinueOnError) }

// AddGroups adds the flags of the groups to cmd, and groups them in its help.
func AddGroups(cmd *cobra.Command, groups ...Group) {
	cmd.Flags().SortFlags = false
	for _, g := range groups {
		g.Flags.SortFlags = false
		g.Flags.VisitAll(func(f *pflag.Flag) { f.Annotations = map[string][]string{groupKey: {g.Title}} })
		cmd.Flags().AddFlagSet(g.Flags)
	}
}

const (
	groupKey = "group" // of a flag's annotations: the title of its group
	exitKey  = "exit " // with a status, of a command's annotations: when it ends with that
)

// DescribeExit describes in the help of cmd when it ends with an exit status,
// instead of the words that all commands have for that.
func DescribeExit(cmd *cobra.Command, status int, when string) {
	if cmd.Annotations == nil {
		cmd.Annotations = make(map[string]string)
	}
	cmd.Annotations[exitKey+fmt.Sprint(status)] = when
}

// helpWidth is the width of --help if the terminal's is unknown.
const helpWidth = 80

// printHelp prints the help of a command, within the width of the terminal.
func printHelp(cmd *cobra.Command, s term.Streams) {
	h := helpPage{width: s.TableWidth(s.Out)}
	if h.width == math.MaxInt {
		h.width = helpWidth
	}
	h.wrapped("", cmd.Long)
	h.section("Usage")
	usage := cmd.UseLine()
	if cmd.HasSubCommands() {
		usage = cmd.CommandPath() + " COMMAND"
	}
	h.wrapped("  ", usage)
	if cmd.Example != "" {
		h.section("Examples")
		h.WriteString(strings.TrimRight(cmd.Example, "\n") + "\n")
	}
	h.commands(cmd)
	h.flags(cmd)
	if !cmd.HasSubCommands() {
		h.statuses(cmd)
	}
	fmt.Fprint(s.Out, h.String())
}

// A helpPage is the text of a help.
type helpPage struct {
	strings.Builder
	width int
}

func (h *helpPage) section(title string) {
	if h.Len() > 0 {
		h.WriteString("\n")
	}
	h.WriteString(title + ":\n")
}

// wrapped writes paragraphs. All lines except the first are indented by the width
// of the first line's head.
func (h *helpPage) wrapped(head, paragraphs string) {
	if paragraphs == "" {
		return
	}
	indent := strings.Repeat(" ", len(head))
	for line := range strings.SplitSeq(text.WrapSoft(paragraphs, max(h.width-len(head), 1)), "\n") {
		h.WriteString(strings.TrimRight(head+line, " ") + "\n")
		head = indent
	}
}

func (h *helpPage) commands(cmd *cobra.Command) {
	if !cmd.HasAvailableSubCommands() {
		return
	}
	h.section("Commands")
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			h.wrapped(fmt.Sprintf("  %-*s  ", cmd.NamePadding(), c.Name()), c.Short)
		}
	}
	h.WriteString("\n")
	h.wrapped("", "Each command has a help of its own: "+cmd.CommandPath()+" COMMAND --help")
}

// flags writes the flags by their groups. Those without a group are first.
func (h *helpPage) flags(cmd *cobra.Command) {
	groups := []Group{{"Flags", NewFlags()}}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		title := groups[0].Title
		if of := f.Annotations[groupKey]; of != nil {
			title = of[0]
		}
		i := slices.IndexFunc(groups, func(g Group) bool { return g.Title == title })
		if i < 0 {
			i = len(groups)
			groups = append(groups, Group{title, NewFlags()})
		}
		if f.Name != "help" {
			groups[i].Flags.SortFlags = false
			groups[i].Flags.AddFlag(f)
		}
	})
	for _, g := range groups {
		if g.Flags.HasAvailableFlags() {
			h.section(g.Title)
			h.WriteString(g.Flags.FlagUsagesWrapped(h.width))
		}
	}
}

func (h *helpPage) statuses(cmd *cobra.Command) {
	h.section("Exit status")
	for _, s := range statuses {
		when, described := cmd.Annotations[exitKey+fmt.Sprint(s.status)]
		if !described {
			when = s.when
		}
		if when != "" {
			h.wrapped(fmt.Sprintf("  %-3d  ", s.status), when)
		}
	}
}

// Parent makes cmd a command that only has others, and prints its help if none
// of them is given.
func Parent(cmd *cobra.Command) *cobra.Command {
	cmd.Args = noSuchCommand
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2 // letters that differ
	err := fmt.Errorf("unknown command %q", args[0])
	if names := cmd.SuggestionsFor(args[0]); len(names) > 0 {
		err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(names, " or "))
	}
	return err
}
