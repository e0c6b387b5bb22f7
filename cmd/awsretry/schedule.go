package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"example.com/awsretry/delivery"
	"github.com/spf13/cobra"
)

func newSchedule(p process) *cobra.Command {
	s := scheduleCommand{process: p}
	cmd := &cobra.Command{
		Use:   "schedule [flags] POLICY.json",
		Short: "Print, and draw, when a delivery policy retries",
		Long: `Prints the phases of an Amazon SNS delivery policy, every pause between its attempts, and the time that has passed by then;
and draws the pauses, where a file is named for that. The pauses are printed without jitter, which moves each by up to a
tenth. POLICY.json is the policy of a subscription or of a topic, also as Amazon SNS returns it; - is standard input.

Exit status: 0 success; 1 the policy is not valid, or a file cannot be read or written; 2 wrong usage.`,
		Example: `  awsretry schedule policy.json
  awsretry schedule --compare --svg schedule.svg policy.json
  awsretry schedule --aws-managed
  awsretry schedule --json - <policy.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if s.awsManaged || s.customerManaged {
				return exactly()(cmd, args)
			}
			return exactly("POLICY.json")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.check(); err != nil {
				return err
			}
			return failed(s.run(cmd.Context(), args))
		},
	}
	policy, out := flagSet(), flagSet()
	policy.BoolVar(&s.topic, "topic", false, "the policy is a topic's (default: it is where it has an attribute http)")
	policy.BoolVar(&s.awsManaged, "aws-managed", false, "the fixed policy for Amazon Data Firehose, AWS Lambda and Amazon SQS")
	policy.BoolVar(&s.customerManaged, "customer-managed", false, "the fixed policy for SMTP, SMS and mobile push")
	policy.BoolVar(&s.compare, "compare", false, "all four backoff functions side by side")
	out.BoolVar(&s.all, "all", false, "a line for every retry, also where many pauses in a row are equal")
	out.BoolVar(&s.json, "json", false, "print a JSON object")
	s.svg.kind, s.png.kind = "FILE", "FILE"
	out.Var(&s.svg, "svg", "draw the pauses into this SVG file (-: standard output, in place of the table)")
	out.Var(&s.png, "png", "draw the pauses into this PNG file (-: standard output, in place of the table)")
	groupFlags(cmd, flagGroup{"Policy", policy}, flagGroup{"Output", out})
	return cmd
}

// A scheduleCommand shows one policy.
type scheduleCommand struct {
	process
	topic, awsManaged, customerManaged, compare bool
	all, json                                   bool
	svg, png                                    word
}

// check's errors are of usage.
func (s *scheduleCommand) check() error {
	switch {
	case s.awsManaged && s.customerManaged:
		return errors.New("--aws-managed and --customer-managed are two policies; one is shown at a time")
	case s.topic && (s.awsManaged || s.customerManaged):
		return errors.New("--topic says what POLICY.json is; the fixed policies are no file")
	case s.svg.value == "-" && s.png.value == "-":
		return errors.New("--svg and --png cannot both go to standard output")
	case s.json && (s.svg.value == "-" || s.png.value == "-"):
		return errors.New("--json cannot go where the picture goes, to standard output")
	}
	return nil
}

func (s *scheduleCommand) run(ctx context.Context, args []string) error {
	file, err := s.read(args)
	if err != nil {
		return err
	}
	pauses := newPlan(file, s.compare)
	for _, picture := range []struct {
		path   string
		format func(io.Writer, *plan) error
	}{{s.svg.value, writeSVG}, {s.png.value, writePNG}} {
		if picture.path == "" {
			continue
		}
		if err := s.draw(ctx, picture.path, pauses, picture.format); err != nil {
			return err
		}
	}
	if s.svg.value == "-" || s.png.value == "-" {
		return nil
	}
	w := bufio.NewWriter(s.stdout)
	if s.json {
		if err := writePlanJSON(w, pauses, s.all); err != nil {
			return err
		}
	} else {
		(&planPrinter{w, newPalette(s.process, s.stdout), s.tableWidth(s.stdout), pauses, s.all}).print()
	}
	return w.Flush()
}

func (s *scheduleCommand) read(args []string) (policyFile, error) {
	switch {
	case s.awsManaged:
		return policyFile{name: "AWS-managed endpoints", policy: delivery.Effective(nil, delivery.AWSManaged())}, nil
	case s.customerManaged:
		return policyFile{name: "Customer-managed endpoints", policy: delivery.Effective(nil, delivery.CustomerManaged())}, nil
	}
	return readPolicy(args[0], s.topic, s.stdin)
}

func (s *scheduleCommand) draw(ctx context.Context, path string, p *plan, format func(io.Writer, *plan) error) error {
	out, err := openOutput(ctx, path, s.stdout)
	if err != nil {
		return err
	}
	if err := format(out, p); err != nil {
		out.abandon()
		return fmt.Errorf("%s: %w", path, err)
	}
	return out.keep()
}

// functions are the backoff functions, in the order in which they are shown.
var functions = [...]delivery.BackoffFunction{delivery.Linear, delivery.Arithmetic, delivery.Geometric, delivery.Exponential}

// The phases, as Amazon SNS, "Message delivery retries", calls them.
const (
	immediate   = "immediate"
	preBackoff  = "pre-backoff"
	backoff     = "backoff"
	postBackoff = "post-backoff"
)

// A phase is a part of a plan.
type phase struct {
	name    string
	retries int
}

func phasesOf(r *delivery.RetryPolicy) []phase {
	phases := []phase{
		{immediate, *r.NumNoDelayRetries},
		{preBackoff, *r.NumMinDelayRetries},
		{backoff, *r.NumRetries - *r.NumNoDelayRetries - *r.NumMinDelayRetries - *r.NumMaxDelayRetries},
		{postBackoff, *r.NumMaxDelayRetries},
	}
	return slices.DeleteFunc(phases, func(p phase) bool { return p.retries == 0 })
}

// withFunction is p with another backoff function.
func withFunction(p *delivery.Policy, f delivery.BackoffFunction) *delivery.Policy {
	q, r := *p, *p.HealthyRetryPolicy
	r.BackoffFunction = f
	q.HealthyRetryPolicy = &r
	return &q
}
