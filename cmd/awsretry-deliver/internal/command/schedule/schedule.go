// Package schedule implements the command awsretry-deliver schedule, which prints
// when a delivery policy retries.
package schedule

import (
	"slices"
	"time"

	"github.com/spf13/cobra"

	"example.com/awsretry/cmd/awsretry-deliver/internal/policyfile"
	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/printer"
	"example.com/awsretry/cmd/internal/term"
	"example.com/awsretry/delivery"
)

// New returns the command.
func New(s term.Streams) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "schedule [flags] POLICY.json",
		Short: "Print when a delivery policy retries",
		Long: `Prints every pause of an Amazon SNS delivery policy, without its jitter of up to a tenth.
POLICY.json is of a subscription or of a topic; - is standard input.`,
		Example: `  awsretry-deliver schedule policy.json`,
		Args:    cli.Exactly("POLICY.json"),
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := policyfile.Read(args[0], s.In)
			if err != nil {
				return cli.Failed(err)
			}
			p := newPlan(file)
			if asJSON {
				encoder := term.NewEncoder(s.Out)
				encoder.SetIndent("", "  ")
				return cli.Failed(encoder.Encode(p))
			}
			out := printer.New(s, s.Out, false, nil)
			p.print(out, file.Name)
			return cli.Failed(out.Out.Err)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

// A plan is when a policy retries.
type plan struct {
	Policy   *delivery.Policy `json:"policy"`
	Raw      bool             `json:"raw_delivery_only"`
	Retries  int              `json:"retries"`
	Attempts int              `json:"attempts"`
	Total    float64          `json:"total_seconds"`
	Pauses   []pause          `json:"pauses"`
}

// A pause is that before a retry, or those before more than ten retries if they
// are equal.
type pause struct {
	First   int     `json:"first_retry"` // from 1
	Last    int     `json:"last_retry"`
	Phase   string  `json:"phase"` // in the words of "Message delivery retries"
	Seconds float64 `json:"pause_seconds"`
	Total   float64 `json:"total_seconds"` // up to the last of them
}

func newPlan(file policyfile.File) *plan {
	retry := file.Policy.HealthyRetryPolicy
	p := &plan{
		Policy: file.Policy, Raw: file.Raw, Retries: *retry.NumRetries, Attempts: *retry.NumRetries + 1, Pauses: []pause{},
	}
	immediate, pre, post := *retry.NumNoDelayRetries, *retry.NumMinDelayRetries, *retry.NumMaxDelayRetries
	phases := slices.Concat(slices.Repeat([]string{"immediate"}, immediate), slices.Repeat([]string{"pre-backoff"}, pre),
		slices.Repeat([]string{"backoff"}, p.Retries-immediate-pre-post), slices.Repeat([]string{"post-backoff"}, post))
	delays := slices.Collect(file.Policy.Delays())
	total := time.Duration(0)
	for n := 0; n < p.Retries; {
		last := n + 1
		for last < p.Retries && phases[last] == phases[n] && delays[last] == delays[n] {
			last++
		}
		if last-n <= 10 {
			last = n + 1
		}
		total += time.Duration(last-n) * delays[n]
		p.Pauses = append(p.Pauses, pause{n + 1, last, phases[n], delays[n].Seconds(), total.Seconds()})
		n = last
	}
	p.Total = total.Seconds()
	return p
}
