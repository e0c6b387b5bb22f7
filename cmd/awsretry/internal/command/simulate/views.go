package simulate

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/files"
	engine "example.com/awsretry/simulate"
	"example.com/awsretry/simulate/chart"
	"example.com/awsretry/simulate/report"
)

// A view is a file that shows the result.
type view struct {
	flag, path string
	draw       func(io.Writer, *engine.Result) error
	file       *files.Output // nil until it is open
}

type views []*view

// views returns the files that the flags ask for.
func (c *command) views(typed string) views {
	var all views
	if format, _ := c.pictureFormat(); format != "" {
		all = append(all, &view{flag: "--picture", path: c.picture.Value,
			draw: func(w io.Writer, r *engine.Result) error { return chart.Draw(w, r, format) }})
	}
	if c.report.Value != "" {
		origin := report.Origin{Command: typed, Version: cli.Version()}
		all = append(all, &view{flag: "--report", path: c.report.Value,
			draw: func(w io.Writer, r *engine.Result) error {
				return report.Write(w, r, origin)
			}})
	}
	return all
}

// checkReport returns an error if the report's name is not the name of a page.
func (c *command) checkReport() error {
	switch strings.ToLower(filepath.Ext(c.report.Value)) {
	case ".html", ".htm":
		return nil
	}
	if c.report.Value == "" {
		return nil
	}
	return fmt.Errorf("--report is %q; it must end with .html", c.report.Value)
}

func (all views) open(ctx context.Context, stdout io.Writer) error {
	for _, v := range all {
		var err error
		if v.file, err = files.Create(ctx, v.path, stdout); err != nil {
			all.abandon()
			return fmt.Errorf("%s: %w", v.flag, err)
		}
	}
	return nil
}

func (all views) write(r *engine.Result) error {
	for _, v := range all {
		if err := v.draw(v.file, r); err != nil {
			return fmt.Errorf("%s: %w", v.flag, err)
		}
	}
	return nil
}

// keep moves the files into place. If one fails, the others are kept.
func (all views) keep() error {
	var first error
	for _, v := range all {
		if err := v.file.Keep(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (all views) abandon() {
	for _, v := range all {
		if v.file != nil {
			v.file.Abandon()
		}
	}
}

// typed returns the command as it can be typed in a shell, without the flags that
// only determine where the result is written.
func typed(cmd *cobra.Command, args []string) string {
	words := []string{"awsretry", cmd.Name()}
	for _, arg := range args {
		words = append(words, quoted(arg))
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "json", "picture", "report":
		default:
			words = append(words, "--"+f.Name, quoted(f.Value.String()))
		}
	})
	return strings.Join(words, " ")
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quoted returns the argument quoted for a POSIX shell.
func quoted(arg string) string {
	if plain.MatchString(arg) {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}
