package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/delivery"
	"github.com/spf13/cobra"
)

func newRedrive(p process) *cobra.Command {
	r := redriveCommand{process: p}
	cmd := &cobra.Command{
		Use:   "redrive [flags] DIR",
		Short: "Send the dead letters in a folder again, the oldest first",
		Long: `Sends the dead letters in DIR again, one after the other, the oldest first, and deletes each that is answered with a 2xx.
A letter is sent once, or as often as the delivery policy of --policy says.

Ctrl-C lets the attempt under way come to its end, so that no letter is delivered and kept, and then stops; a second one
stops at once.

Exit status: 0 all letters were delivered; 22 some are left; 1 an error, an interruption, or something in DIR that is no dead
letter; 2 wrong usage, and nothing was sent.`,
		Example: `  awsretry deadletter redrive /var/lib/hooks
  awsretry deadletter redrive --policy policy.json --json /var/lib/hooks >>redrive.jsonl`,
		Args: exactly("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringVar(&r.policy, "policy", "", "deliver by the policy in `FILE`, of a subscription or a topic (-: standard input)")
	cmd.Flags().Var(&r.attemptTimeout, "attempt-timeout", "give up an attempt after this time (default 15s)")
	cmd.Flags().BoolVar(&r.json, "json", false, "print a JSON object for each letter, on a line of its own, and one for them all")
	return cmd
}

// A redriveCommand sends the letters of one folder.
type redriveCommand struct {
	process
	policy         string
	attemptTimeout period
	json           bool
}

// attemptLimit is the time of an attempt by Amazon SNS, for a plain attempt as well.
const attemptLimit = 15 * time.Second

func (r *redriveCommand) run(ctx context.Context, dir string) error {
	stop := newGentleStop()
	base := http.DefaultTransport.(*http.Transport).Clone()
	defer base.CloseIdleConnections()
	rt, how, err := r.transport(stop.base(base))
	if err != nil {
		return failed(err)
	}
	letters := 0
	for letter, err := range delivery.List(dir) {
		if err == nil {
			letters++
		} else if letter.Name == "" {
			return failed(plainError(err))
		}
	}
	report := newRedriveReport(r.process, r.json, letters)
	report.begin(dir, how)
	defer stop.follow(ctx, report.interrupted)()
	done, err := delivery.Redrive(ctx, dir, &courier{rt, stop, report})
	return report.end(ctx, done, err)
}

// transport is what sends the letters, and how it does in words.
func (r *redriveCommand) transport(base http.RoundTripper) (http.RoundTripper, string, error) {
	limit := time.Duration(r.attemptTimeout)
	if limit == 0 {
		limit = attemptLimit
	}
	if r.policy == "" {
		return &awsretry.Transport{
			Base:           base,
			MaxAttempts:    1,
			AttemptTimeout: limit,
			MaxRetryAfter:  -1,
			Quota:          awsretry.QuotaConfig{Capacity: noQuota},
		}, fmt.Sprintf("one attempt each, of %v at most", limit), nil
	}
	file, err := readPolicy(r.policy, false, r.stdin)
	if err != nil {
		return nil, "", err
	}
	retries := *file.policy.HealthyRetryPolicy.NumRetries
	return &delivery.Transport{Base: base, Policy: file.policy, AttemptTimeout: limit},
		fmt.Sprintf("by %s: up to %s each, of %v at most", oneLine(file.name), count(retries+1, "attempt"), limit), nil
}

// A courier sends one letter after the other, for Redrive, and reports on each.
type courier struct {
	rt     http.RoundTripper
	stop   *gentleStop
	report *redriveReport
}

// A reportedError is why a letter was not delivered; it has been reported.
type reportedError struct{ error }

func (e reportedError) Unwrap() error { return e.error }

// RoundTrip implements http.RoundTripper. Every answer but a 2xx is an error.
func (c *courier) RoundTrip(req *http.Request) (*http.Response, error) {
	letter := req.Context()
	ctx, cancel := c.stop.context(letter)
	var last awsretry.Attempt
	observed := awsretry.WithObserver(ctx, func(a awsretry.Attempt) {
		last = a
		c.stop.attempted(a)
		c.report.attempt(a)
	})
	start := time.Now()
	resp, err := c.rt.RoundTrip(req.WithContext(observed))
	if err == nil && resp.StatusCode/100 != 2 {
		resp.Body.Close()
		err = fmt.Errorf("answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	c.report.letter(req, last, err, time.Since(start))
	if err != nil {
		cancel(nil)
		return nil, reportedError{err}
	}
	context.AfterFunc(letter, func() { cancel(nil) }) // which Redrive ends when it has read what it wants of the answer
	return resp, nil
}
