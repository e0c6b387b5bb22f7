package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"example.com/awsretry/delivery"
	"github.com/spf13/cobra"
)

func newDeadLetter(p process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "deadletter",
		Short: "List the deliveries that failed for good, or send them again",
		Long: `A dead letter is a request that a delivery policy gave up. The package delivery keeps each as a file of a folder (see its
DirQueue), as it is to be sent again: with its body and all its headers, credentials among them.`,
		Example: `  awsretry deadletter list /var/lib/hooks
  awsretry deadletter redrive --policy policy.json /var/lib/hooks`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q; it must be list or redrive", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return failed(cmd.Help()) },
	}
	cmd.AddCommand(newDeadLetterList(p), newRedrive(p))
	return cmd
}

func newDeadLetterList(p process) *cobra.Command {
	l := letterList{process: p}
	cmd := &cobra.Command{
		Use:   "list [flags] DIR",
		Short: "List the dead letters in a folder, the oldest first",
		Long: `Lists the dead letters in DIR, the oldest first: when the delivery failed for good, what was to be sent, and why it was
given up. URLs are listed without their queries, which may be secret. A DIR that does not exist, as before its first letter,
has none.

Exit status: 0 success; 1 DIR cannot be read, or holds something else than dead letters, or an interruption; 2 wrong usage.`,
		Example: `  awsretry deadletter list /var/lib/hooks
  awsretry deadletter list --json /var/lib/hooks | jq -r 'select(.status == 403) | .name'`,
		Args: exactly("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error { return l.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().BoolVar(&l.json, "json", false, "print a JSON object for each dead letter, on a line of its own")
	return cmd
}

// A letterList prints the heads of dead letters.
type letterList struct {
	process
	json    bool
	palette palette
	out     *keptError
	table   table
	letters int
	bytes   int64
	broken  int
}

func (l *letterList) run(ctx context.Context, dir string) error {
	l.palette = newPalette(l.process, l.stdout)
	l.out = &keptError{Writer: interruptibleWriter{ctx, l.stdout}}
	l.table = table{w: l.out, width: l.tableWidth(l.stdout), columns: letterColumns}
	now := time.Now()
	for letter, err := range delivery.List(dir) {
		if ctx.Err() != nil {
			return failed(context.Cause(ctx))
		}
		if errors.Is(err, fs.ErrNotExist) && letter.Name == "" {
			break // the folder is made with the first letter
		}
		if err != nil && letter.Name == "" {
			return failed(plainError(err))
		}
		if err := l.print(letter, err, now); err != nil {
			return failed(err)
		}
	}
	if err := l.sum(dir); err != nil {
		return failed(err)
	}
	if l.broken > 0 {
		return &failure{status: exitFailure}
	}
	return nil
}

func (l *letterList) print(letter delivery.Letter, broken error, now time.Time) error {
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
		_, err := fmt.Fprintf(l.stderr, "%s %s\n", newPalette(l.process, l.stderr).bad("✗"), oneLine(plainError(broken).Error()))
		return err
	case l.letters == 1:
		l.table.header(l.palette)
	}
	status := "-"
	if letter.Status != 0 {
		status = strconv.Itoa(letter.Status)
	}
	address := oneLine(bareAddress(letter.URL))
	if letter.Err != "" {
		address += "  " + oneLine(letter.Err)
	}
	l.table.row([]string{letter.Time.UTC().Format(time.DateTime), age(now.Sub(letter.Time)), oneLine(letter.Method), status,
		grouped(letter.Attempts), oneLine(letter.Reason), size(letter.Size), oneLine(letter.Name), address}, nil)
	return l.out.err
}

// letterColumns are wide enough for any letter: a folder may hold any number of
// them. The name begins with the time.
var letterColumns = []column{
	{title: "FAILED AT (UTC)", width: len(time.DateTime), spare: 1},
	{title: "AGE", width: 6, right: true, spare: 3},
	{title: "METHOD", width: 6},
	{title: "STATUS", width: 6},
	{title: "ATTEMPTS", width: 8, right: true, spare: 4},
	{title: "REASON", width: 12, spare: 2},
	{title: "SIZE", width: 8, right: true, spare: 5},
	{title: "NAME", width: nameWidth},
	{title: "URL"},
}

func (l *letterList) printJSON(letter delivery.Letter, broken error) error {
	encoder := newJSON(l.out)
	if broken != nil {
		return encoder.Encode(struct {
			Name   string `json:"name"`
			Broken string `json:"broken"`
		}{letter.Name, plainError(broken).Error()})
	}
	letter.URL = bareAddress(letter.URL)
	return encoder.Encode(struct {
		Name string `json:"name"`
		Size int64  `json:"size"`
		delivery.Letter
	}{letter.Name, letter.Size, letter})
}

func (l *letterList) sum(dir string) error {
	if l.json {
		return nil
	}
	var text string
	switch {
	case l.letters > 0:
		text = fmt.Sprintf("\n%s, %s", count(l.letters, "dead letter"), size(l.bytes))
	case l.broken == 0:
		text = noLetters(dir)
	default:
		text = "No dead letters, but " + count(l.broken, "other file") + " in " + oneLine(dir)
	}
	_, err := fmt.Fprintln(l.out, text)
	return err
}

// noLetters says that dir has none, and whether that is because it does not
// exist: its name may be misspelled.
func noLetters(dir string) string {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "No dead letters: " + oneLine(dir) + " does not exist"
	}
	return "No dead letters in " + oneLine(dir)
}

// plainError is err without the name of the package that it is from.
func plainError(err error) error {
	text := err.Error()
	for _, prefix := range []string{"delivery: ", "Redrive: ", "List: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return &endedError{reason: plainText(text), err: err}
}

type plainText string

func (t plainText) Error() string { return string(t) }

// bareAddress is an URL that came out of a file without what may be secret.
func bareAddress(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		s, _, _ = strings.Cut(s, "?")
		return s
	}
	return bareURL(u)
}

// age is a time in its largest unit.
func age(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", max(d, 0)/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d d", d/day)
}

// size is a number of bytes to three figures.
func size(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n), 0
	for v >= 999.5 && unit < 4 {
		v, unit = v/1000, unit+1
	}
	format := "%.0f %cB"
	if v < 9.95 {
		format = "%.1f %cB"
	}
	return fmt.Sprintf(format, v, " kMGT"[unit])
}
