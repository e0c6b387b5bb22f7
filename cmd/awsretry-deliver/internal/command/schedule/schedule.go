// Package schedule implements the command awsretry-deliver schedule, which prints
// and draws when a delivery policy retries.
package schedule

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"example.com/awsretry/cmd/awsretry-deliver/internal/policyfile"
	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/files"
	"example.com/awsretry/cmd/internal/printer"
	"example.com/awsretry/cmd/internal/term"
)

// New returns the command.
func New(s term.Streams) *cobra.Command {
	c := command{Streams: s}
	cmd := &cobra.Command{
		Use:   "schedule [flags] POLICY.json",
		Short: "Print, and draw, when a delivery policy retries",
		Long: `Prints every pause of an Amazon SNS delivery policy, without its jitter of up to a tenth.
POLICY.json is of a subscription or of a topic; - is standard input.`,
		Example: `  awsretry-deliver schedule --compare --svg schedule.svg policy.json`,
		Args:    cli.Exactly("POLICY.json"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.json && c.svg.Value == "-" {
				return errors.New("--json and a picture cannot both go to standard output")
			}
			return cli.Failed(c.run(cmd.Context(), args[0]))
		},
	}
	c.svg.Kind = "FILE"
	set := cmd.Flags()
	set.BoolVar(&c.compare, "compare", false, "all four backoff functions side by side")
	set.BoolVar(&c.json, "json", false, "print a JSON object")
	set.Var(&c.svg, "svg", "draw the pauses into this SVG file (-: standard output, in place of the table)")
	return cmd
}

type command struct {
	term.Streams
	compare, json bool
	svg           cli.Word
}

func (c *command) run(ctx context.Context, path string) error {
	file, err := policyfile.Read(path, c.In)
	if err != nil {
		return err
	}
	p := newPlan(file, c.compare)
	if err := c.draw(ctx, p); err != nil || c.svg.Value == "-" {
		return err
	}
	w := bufio.NewWriter(c.Out)
	if c.json {
		if err := writeJSON(w, p); err != nil {
			return err
		}
	} else {
		r := report{printer.New(c.Streams, c.Out, false, nil), p}
		r.Out.Writer = w
		r.print()
	}
	return w.Flush()
}

// draw draws the picture, if one is requested.
func (c *command) draw(ctx context.Context, p *plan) error {
	if c.svg.Value == "" {
		return nil
	}
	out, err := files.Create(ctx, c.svg.Value, c.Out)
	if err != nil {
		return err
	}
	if err := writeSVG(out, p); err != nil {
		out.Abandon()
		return fmt.Errorf("%s: %w", c.svg.Value, err)
	}
	return out.Keep()
}
