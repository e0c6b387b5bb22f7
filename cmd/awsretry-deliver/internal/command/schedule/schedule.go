// Package schedule is the command awsretry-deliver schedule, which prints and draws
// when a delivery policy retries.
package schedule

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"example.com/awsretry/cmd/awsretry-deliver/internal/policyfile"
	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/files"
	"example.com/awsretry/cmd/internal/term"
	"example.com/awsretry/delivery"
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
		Args: func(cmd *cobra.Command, args []string) error {
			if c.awsManaged || c.customerManaged {
				return cli.Exactly()(cmd, args)
			}
			return cli.Exactly("POLICY.json")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.check(); err != nil {
				return err
			}
			return cli.Failed(c.run(cmd.Context(), args))
		},
	}
	policy, out := cli.NewFlags(), cli.NewFlags()
	policy.BoolVar(&c.topic, "topic", false, "the policy is a topic's (default: if it has an attribute http)")
	policy.BoolVar(&c.awsManaged, "aws-managed", false,
		"the fixed policy for Amazon Data Firehose, AWS Lambda and Amazon SQS")
	policy.BoolVar(&c.customerManaged, "customer-managed", false, "the fixed policy for SMTP, SMS and mobile push")
	policy.BoolVar(&c.compare, "compare", false, "all four backoff functions side by side")
	out.BoolVar(&c.all, "all", false, "a line for every retry, even if many pauses in a row are equal")
	out.BoolVar(&c.json, "json", false, "print a JSON object")
	c.svg.Kind, c.png.Kind = "FILE", "FILE"
	out.Var(&c.svg, "svg", "draw the pauses into this SVG file (-: standard output, in place of the table)")
	out.Var(&c.png, "png", "draw the pauses into this PNG file (-: standard output, in place of the table)")
	cli.AddGroups(cmd, cli.Group{Title: "Policy", Flags: policy}, cli.Group{Title: "Output", Flags: out})
	return cmd
}

type command struct {
	term.Streams
	topic, awsManaged, customerManaged, compare bool
	all, json                                   bool
	svg, png                                    cli.Word
}

// check returns an error for flags that contradict each other.
func (c *command) check() error {
	switch {
	case c.awsManaged && c.customerManaged:
		return errors.New("--aws-managed and --customer-managed are two policies; one is shown at a time")
	case c.topic && (c.awsManaged || c.customerManaged):
		return errors.New("--topic says what POLICY.json is; a fixed policy has no file")
	case c.svg.Value == "-" && c.png.Value == "-":
		return errors.New("--svg and --png cannot both go to standard output")
	case c.json && (c.svg.Value == "-" || c.png.Value == "-"):
		return errors.New("--json and a picture cannot both go to standard output")
	}
	return nil
}

func (c *command) run(ctx context.Context, args []string) error {
	file, err := c.read(args)
	if err != nil {
		return err
	}
	p := newPlan(file, c.compare)
	if err := c.draw(ctx, c.svg.Value, p, writeSVG); err != nil {
		return err
	}
	if err := c.draw(ctx, c.png.Value, p, writePNG); err != nil {
		return err
	}
	if c.svg.Value == "-" || c.png.Value == "-" {
		return nil
	}
	w := bufio.NewWriter(c.Out)
	if c.json {
		if err := writeJSON(w, p, c.all); err != nil {
			return err
		}
	} else {
		(&printer{w, term.NewPalette(c.Streams, c.Out), c.TableWidth(c.Out), p, c.all}).print()
	}
	return w.Flush()
}

func (c *command) read(args []string) (policyfile.File, error) {
	file := policyfile.File{}
	switch {
	case c.awsManaged:
		file.Name, file.Policy = "AWS-managed endpoints", delivery.AWSManaged()
	case c.customerManaged:
		file.Name, file.Policy = "Customer-managed endpoints", delivery.CustomerManaged()
	default:
		return policyfile.Read(args[0], c.topic, c.In)
	}
	file.Policy = delivery.Effective(nil, file.Policy)
	return file, nil
}

// draw draws a picture into the file at path, unless path is "".
func (c *command) draw(ctx context.Context, path string, p *plan, write func(io.Writer, *plan) error) error {
	if path == "" {
		return nil
	}
	out, err := files.Create(ctx, path, c.Out)
	if err != nil {
		return err
	}
	if err := write(out, p); err != nil {
		out.Abandon()
		return fmt.Errorf("%s: %w", path, err)
	}
	return out.Keep()
}
