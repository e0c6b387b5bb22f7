package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/delivery"
	"example.com/awsretry/internal/redact"
	"github.com/spf13/cobra"
)

func newRedrive(p process) *cobra.Command {
	r := redriveCommand{process: p}
	cmd := &cobra.Command{
		Use:   "redrive [flags] DIR",
		Short: "Send the dead letters in a folder again, the oldest first",
		Long: `Sends the dead letters in DIR again, one after the other, the oldest first, and deletes each that is answered with a 2xx.
A letter is sent once, or as often as the delivery policy of --policy says. It is reported when it is deleted, or stays. A
DIR that does not exist, as before its first letter, has none.

Ctrl-C lets the attempt under way come to its end, so that no letter is delivered and kept, and then stops; a second one
stops at once. The end of the terminal, or of what reads standard output, stops it in the same way.

Exit status: 0 all letters were delivered; 22 some are left, other than those beyond --limit; 1 an error, an interruption,
or something in DIR that is no dead letter; 2 wrong usage, and nothing was sent.`,
		Example: `  awsretry deadletter redrive /var/lib/hooks
  awsretry deadletter redrive --dry-run /var/lib/hooks
  awsretry deadletter redrive --limit 1 --max-failures 3 /var/lib/hooks
  awsretry deadletter redrive --policy policy.json --json /var/lib/hooks >>redrive.jsonl`,
		Args: exactly("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args[0]) },
	}
	r.policy.kind = "FILE"
	cmd.Flags().Var(&r.policy, "policy", "deliver by this policy, of a subscription or a topic (-: standard input)")
	cmd.Flags().Var(&r.attemptTimeout, "attempt-timeout", "give up an attempt after this time (default 15s)")
	r.limit.least, r.maxFailures.least = 1, 1
	cmd.Flags().BoolVar(&r.dryRun, "dry-run", false, "say which letters would be sent, and send none")
	cmd.Flags().Var(&r.limit, "limit", "send this many letters at most (default all)")
	cmd.Flags().Var(&r.maxFailures, "max-failures", "stop when this many letters in a row were not delivered (default never)")
	cmd.Flags().BoolVar(&r.json, "json", false, "print a JSON object for each letter, on a line of its own, and one for them all")
	return cmd
}

// A redriveCommand sends the letters of one folder.
type redriveCommand struct {
	process
	policy         word
	attemptTimeout period
	dryRun         bool
	limit          number
	maxFailures    number
	json           bool
}

// attemptLimit is the time of an attempt by Amazon SNS, for a plain attempt as well.
const attemptLimit = 15 * time.Second

func (r *redriveCommand) run(ctx context.Context, dir string) error {
	ctx, end := gentleSignals(ctx)
	defer end()
	ctx, stopRun := context.WithCancelCause(ctx)
	defer stopRun(nil)

	stop := newGentleStop()
	base := http.DefaultTransport.(*http.Transport).Clone()
	defer base.CloseIdleConnections()
	rt, how, err := r.transport(stop.base(base))
	if err != nil {
		return failed(err)
	}
	if r.dryRun {
		how = "dry run: none is sent"
	}
	letters, err := r.count(ctx, dir)
	if err != nil {
		return failed(plainError(err))
	}
	report := newRedriveReport(r.process, r.json, dir, letters, stopRun)
	report.begin(how)
	defer stop.follow(ctx, report.interrupted)()
	courier := &courier{rt: rt, stop: stop, report: report}
	redriver := &delivery.Redriver{
		Base:        courier,
		Limit:       r.limit.value,
		MaxFailures: r.maxFailures.value,
		DryRun:      r.dryRun,
		Observe: func(result delivery.LetterResult) {
			report.letter(result, courier.sent)
			courier.sent = nil
		},
	}
	done, err := redriver.Redrive(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) && done == (delivery.Redriven{}) {
		err = nil // the folder is made with the first letter
	}
	return report.end(ctx, done, err)
}

// count is how many letters there are to send. A folder that does not exist has
// none: it is made with the first letter.
func (r *redriveCommand) count(ctx context.Context, dir string) (letters int, err error) {
	for letter, err := range delivery.List(dir) {
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case err == nil:
			letters++
		case letter.Name == "" && errors.Is(err, fs.ErrNotExist):
			return 0, nil
		case letter.Name == "":
			return 0, err
		}
	}
	if r.limit.value > 0 {
		letters = min(letters, r.limit.value)
	}
	return letters, nil
}

// transport is what sends the letters, and how it does in words.
func (r *redriveCommand) transport(base http.RoundTripper) (http.RoundTripper, string, error) {
	limit := time.Duration(r.attemptTimeout)
	if limit == 0 {
		limit = attemptLimit
	}
	if r.policy.value == "" {
		return &awsretry.Transport{
			Base:           base,
			MaxAttempts:    1,
			AttemptTimeout: limit,
			MaxRetryAfter:  -1,
			Quota:          awsretry.QuotaConfig{Capacity: noQuota},
		}, fmt.Sprintf("one attempt each, of %v at most", limit), nil
	}
	file, err := readPolicy(r.policy.value, false, r.stdin)
	if err != nil {
		return nil, "", err
	}
	retries := *file.policy.HealthyRetryPolicy.NumRetries
	return &delivery.Transport{Base: base, Policy: file.policy, AttemptTimeout: limit},
		fmt.Sprintf("by %s: up to %s each, of %v at most", oneLine(file.name), count(retries+1, "attempt"), limit), nil
}

// A courier sends one letter after the other, for a Redriver.
type courier struct {
	rt     http.RoundTripper
	stop   *gentleStop
	report *redriveReport
	sent   *sending // the last letter's; nil where it was not sent
}

// A sending is what came of sending a letter.
type sending struct {
	last    awsretry.Attempt
	stop    awsretry.Stop
	err     string // where no answer came
	elapsed time.Duration
}

// RoundTrip implements http.RoundTripper.
func (c *courier) RoundTrip(req *http.Request) (*http.Response, error) {
	letter := req.Context()
	ctx, cancel := c.stop.context(letter)
	s := &sending{}
	c.sent = s
	observed := awsretry.WithObserver(ctx, func(a awsretry.Attempt) {
		s.last = a
		c.stop.attempted(a)
		c.report.attempt(a)
	})
	start := time.Now()
	resp, err := c.rt.RoundTrip(req.WithContext(observed))
	s.elapsed, s.stop = time.Since(start), s.last.Stop
	if err != nil {
		cancel(nil)
		why := err
		if gaveUp := (*awsretry.Error)(nil); errors.As(err, &gaveUp) {
			s.stop, why = gaveUp.Stop, gaveUp.Err
		}
		s.err = redact.Error(why)
		return nil, err
	}
	context.AfterFunc(letter, func() { cancel(nil) }) // which the Redriver ends when it has read what it wants of the answer
	return resp, nil
}
