package letters

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"example.com/awsretry"
	"example.com/awsretry/cmd/awsretry-deliver/internal/policyfile"
	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/term"
	"example.com/awsretry/delivery"
	"example.com/awsretry/delivery/letters"
	"example.com/awsretry/deliveryqueue/webhook"
)

func newRedrive(s term.Streams) *cobra.Command {
	r := redrive{Streams: s, limit: cli.Number{Least: 1}, maxFailures: cli.Number{Least: 1}}
	cmd := &cobra.Command{
		Use:   "redrive [flags] DIR",
		Short: "Send the dead letters in a folder again, the oldest first",
		Long: `Sends the dead letters in DIR again, and deletes each whose response is a 2xx.
After Ctrl-C, the attempt in progress ends on its own; a second stops at once.`,
		Example: `  awsretry-deliver letters redrive --policy policy.json /var/lib/hooks`,
		Args:    cli.Exactly("DIR"),
		RunE:    func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args[0]) },
	}
	r.policy.Kind = "FILE"
	set := cmd.Flags()
	set.Var(&r.policy, "policy", "deliver by this policy, of a subscription or a topic (-: standard input)")
	set.Var(&r.attemptTimeout, "attempt-timeout", "give up an attempt after this time (default 15s)")
	set.BoolVar(&r.private, "allow-private", false,
		"also connect to addresses that are not public, and use the proxy of the environment")
	set.BoolVar(&r.dryRun, "dry-run", false, "say which letters would be sent, and send none")
	set.Var(&r.limit, "limit", "send this many letters at most (default all)")
	set.Var(&r.maxFailures, "max-failures", "stop when this many letters in a row were not delivered (default never)")
	set.BoolVar(&r.json, "json", false,
		"print a JSON object for each letter, on a line of its own, and one for them all")
	cli.DescribeExit(cmd, 0, "all letters were delivered")
	cli.DescribeExit(cmd, cli.Failure, "an error, or something in DIR that is not a dead letter")
	cli.DescribeExit(cmd, cli.HTTPError, "some letters are left, apart from those beyond --limit")
	return cmd
}

// A redrive sends the letters of one folder.
type redrive struct {
	term.Streams
	policy         cli.Word
	attemptTimeout cli.Period
	dryRun         bool
	limit          cli.Number
	maxFailures    cli.Number
	private        bool // private addresses are allowed
	json           bool
}

// snsAttemptTimeout is how long Amazon SNS waits for the response to
// an attempt.
const snsAttemptTimeout = 15 * time.Second

func (r *redrive) run(ctx context.Context, dir string) error {
	// SIGPIPE or SIGHUP would end the process between a delivery and the deletion
	// of its letter. SIGPIPE cannot end ctx, because connections raise it, too.
	defer cli.IgnorePipe()()
	ctx, stopHangup := cli.NotifyHangup(ctx)
	defer stopHangup()
	ctx, stopRun := context.WithCancelCause(ctx)
	defer stopRun(nil)

	stop := newGentleStop()
	base := webhook.PublicOnly()
	if r.private {
		base = http.DefaultTransport.(*http.Transport).Clone()
	}
	defer base.CloseIdleConnections()
	rt, how, err := r.transport(stop.base(base))
	if err != nil {
		return cli.Failed(err)
	}
	if r.dryRun {
		how = "dry run: none is sent"
	}
	folder := &letters.Dir{Path: dir}
	number, err := r.count(ctx, folder)
	if err != nil {
		return cli.Failed(err)
	}
	report := newReport(r.Streams, r.json, dir, number, stopRun)
	report.begin(how)
	defer stop.follow(ctx, report.stopping)()
	courier := &courier{rt: rt, stop: stop, report: report}
	done, err := folder.Redrive(ctx, courier, letters.RedriveOptions{
		Limit:       r.limit.Value,
		MaxFailures: r.maxFailures.Value,
		DryRun:      r.dryRun,
		Observe: func(result letters.Record) {
			report.letter(result, courier.sent)
			courier.sent = nil
		},
	})
	return report.end(ctx, done, err)
}

// count returns the number of letters to send.
func (r *redrive) count(ctx context.Context, folder *letters.Dir) (number int, err error) {
	for letter, err := range folder.List() {
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case err == nil:
			number++
		case letter.Name == "":
			return 0, err
		}
	}
	if r.limit.Value > 0 {
		number = min(number, r.limit.Value)
	}
	return number, nil
}

// transport returns the RoundTripper for the letters, and a description of it.
func (r *redrive) transport(base http.RoundTripper) (rt http.RoundTripper, how string, err error) {
	timeout := time.Duration(r.attemptTimeout)
	if timeout == 0 {
		timeout = snsAttemptTimeout
	}
	if r.policy.Value == "" {
		return &awsretry.Transport{
			Base:           base,
			MaxAttempts:    1,
			AttemptTimeout: timeout,
			MaxRetryAfter:  -1,
			Quota:          awsretry.QuotaConfig{Capacity: -1},
		}, fmt.Sprintf("one attempt each, of %v at most", timeout), nil
	}
	file, err := policyfile.Read(r.policy.Value, r.In)
	if err != nil {
		return nil, "", err
	}
	attempts := *file.Policy.HealthyRetryPolicy.NumRetries + 1
	how = fmt.Sprintf("by %s: up to %s each, of %v at most",
		term.OneLine(file.Name), english.Plural(attempts, "attempt", ""), timeout)
	return &delivery.Transport{Base: base, Policy: file.Policy, AttemptTimeout: timeout}, how, nil
}
