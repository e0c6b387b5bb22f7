package letters

import (
	"context"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/printer"
	"example.com/awsretry/cmd/internal/term"
	"example.com/awsretry/delivery/letters"
)

func newList(s term.Streams) *cobra.Command {
	l := list{Streams: s}
	cmd := &cobra.Command{
		Use:     "list [flags] DIR",
		Short:   "List the dead letters in a folder, the oldest first",
		Long:    `Lists the dead letters in DIR: when and why each was given up. A DIR that does not exist has no dead letters.`,
		Example: `  awsretry-deliver letters list --json /var/lib/hooks | jq .name`,
		Args:    cli.Exactly("DIR"),
		RunE:    func(cmd *cobra.Command, args []string) error { return l.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().BoolVar(&l.json, "json", false, "print a JSON object for each dead letter, on a line of its own")
	cli.DescribeExit(cmd, cli.Failure, "an error, or something in DIR that is not a dead letter")
	return cmd
}

// A list prints the letters of a folder, without their bodies.
type list struct {
	term.Streams
	json    bool
	printer *printer.Printer
	letters int
	bytes   int64
	broken  int
}

// listColumns are wide enough for any letter: a folder may have any number of
// them.
var listColumns = []term.Column{
	{Title: "FAILED AT (UTC)", Width: len(time.DateTime), Spare: 1},
	{Title: "AGE", Width: len("59 minutes"), Right: true, Spare: 3},
	{Title: "METHOD", Width: 6},
	{Title: "STATUS", Width: 6},
	{Title: "ATTEMPTS", Width: 8, Right: true, Spare: 4},
	{Title: "REASON", Width: 12, Spare: 2},
	{Title: "SIZE", Width: len("1000 kB"), Right: true, Spare: 5},
	{Title: "NAME", Width: nameWidth},
	{Title: "URL"},
}

func (l *list) run(ctx context.Context, dir string) error {
	l.printer = printer.NewListing(ctx, l.Streams, l.json, listColumns)
	now := time.Now()
	for letter, err := range (&letters.Dir{Path: dir}).List() {
		if ctx.Err() != nil {
			return cli.Failed(context.Cause(ctx))
		}
		if err != nil && letter.Name == "" {
			return cli.Failed(err)
		}
		if err := l.print(letter, err, now); err != nil {
			return cli.Failed(err)
		}
	}
	if err := l.printSum(dir); err != nil {
		return cli.Failed(err)
	}
	if l.broken > 0 {
		return cli.Reported(cli.Failure)
	}
	return nil
}

// print prints a letter, or an error if the file is not a letter.
func (l *list) print(letter letters.Letter, broken error, now time.Time) error {
	if broken != nil {
		l.broken++
	} else {
		l.letters++
		l.bytes += letter.Size
	}
	switch {
	case l.json:
		return l.printJSON(letter, broken)
	case broken != nil:
		l.printer.Fault(errorText(broken))
		return nil
	case l.letters == 1:
		l.printer.Header()
	}
	address := withoutSecrets(letter.URL)
	if letter.Err != "" {
		address += "  " + term.OneLine(letter.Err)
	}
	l.printer.Table.Row(
		letter.Time.UTC().Format(time.DateTime),
		humanize.RelTime(letter.Time, now, "", ""),
		term.OneLine(letter.Method),
		printer.Status(letter.Status),
		printer.Grouped(letter.Attempts),
		term.OneLine(letter.Reason),
		humanize.Bytes(uint64(letter.Size)),
		term.OneLine(letter.Name),
		address,
	)
	return l.printer.Out.Err
}

func (l *list) printJSON(letter letters.Letter, broken error) error {
	encoder := l.printer.JSON
	if broken != nil {
		return encoder.Encode(struct {
			Name   string `json:"name"`
			Broken string `json:"broken"`
		}{letter.Name, term.WithoutPackages(broken.Error())})
	}
	letter.URL = withoutSecrets(letter.URL)
	return encoder.Encode(struct {
		Name string `json:"name"`
		Size int64  `json:"size_bytes"`
		letters.Letter
	}{letter.Name, letter.Size, letter})
}

func (l *list) printSum(dir string) error {
	if l.json {
		return nil
	}
	var text string
	switch {
	case l.letters > 0:
		text = fmt.Sprintf("\n%s, %s", printer.Plural(l.letters, "dead letter", ""), humanize.Bytes(uint64(l.bytes)))
	case l.broken == 0:
		text = noLetters(dir)
	default:
		text = "No dead letters, but " + printer.Plural(l.broken, "other file", "") + " in " + term.OneLine(dir)
	}
	_, err := fmt.Fprintln(l.printer.Out, text)
	return err
}
