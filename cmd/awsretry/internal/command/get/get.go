// Package get implements the command awsretry get, which sends one request.
package get

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.com/awsretry"
	"example.com/awsretry/cmd/awsretry/internal/settings"
	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/files"
	"example.com/awsretry/cmd/internal/term"
)

// New returns the command.
func New(s term.Streams) *cobra.Command {
	c := command{Streams: s}
	cmd := &cobra.Command{
		Use:   "get [flags] URL",
		Short: "Send a request, retry it, and print each attempt as it happens",
		Long: `Sends one request, retries it by the rules of the AWS SDKs, and prints each attempt on standard error as
it happens: its status or error, what that means for a retry, the time it took, the tokens left in the retry token
bucket, the delay before the next attempt or why there is none, and the AWS error code.

The response body goes to standard output. On a terminal, control characters in it are replaced, so that a server
cannot send escape sequences; piped or with --output, the body is written unchanged.

With --output, the file is replaced when the body of a 2xx is complete, in one step if the system allows that. Nothing
but a 2xx replaces it: after a redirect, a 304, a failure that the retries did not mend, or a 2xx whose body is an AWS
error, the file is as before, and the body goes to standard output. A device, a pipe or an open file, such as
/dev/stdout, gets every body.

With --resume, a body that breaks off is continued at the byte where it broke: the rest is requested with Range and
If-Range, as a retry. That needs a response with a strong ETag and a service that knows ranges. If the object has
changed, the download fails.

The settings come from the flags, else from the environment and the shared AWS config file (see awsretry config).`,
		Example: `  awsretry get https://api.example.com/orders
  awsretry get --mode adaptive --max-attempts 8 https://api.example.com/orders
  awsretry get -H 'X-Token: 1' -d @order.json https://api.example.com/orders
  awsretry get --base-delay 200ms -o orders.json https://api.example.com/orders
  awsretry get --resume -o backup.tar https://files.example.com/backup.tar
  awsretry get --json https://api.example.com/orders 2>attempts.jsonl`,
		Args: cli.Exactly("URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.request.Parsed(cmd.Flags())
			defer c.warnOfLog()()
			return c.asJSON(c.run(cmd.Context(), args[0]))
		},
	}
	set, retries := cli.NewFlags(), cli.NewFlags()
	c.output.Kind = "FILE"
	c.request.Register(set, "default GET, with --data POST")
	set.VarP(&c.output, "output", "o",
		"write the body to this file, which only a 2xx replaces, when it is complete")
	set.BoolVar(&c.request.resume, "resume", false, "continue a body that breaks off, for a GET")
	set.BoolVar(&c.json, "json", false, "print a JSON object for each attempt, on a line of its own")
	set.Var(&c.timeout, "timeout", "give up after this time, delays and body included (default none)")
	c.settings.Register(retries)
	cli.AddGroups(cmd, cli.Group{Title: "Request", Flags: set}, cli.Group{Title: "Retries", Flags: retries})
	cli.DescribeExit(cmd, cli.HTTPError, "the response is an HTTP error, after the last retry")
	return cmd
}

type command struct {
	term.Streams
	request  requestFlags
	output   cli.Word
	json     bool
	timeout  cli.Period
	settings settings.Flags
}

// run's errors are usage errors until something is sent.
func (c *command) run(ctx context.Context, address string) error {
	u, err := cli.ParseURL(address)
	if err != nil {
		return err
	}
	transport, settings, err := c.settings.Transport(c.Getenv)
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	ctx, stopHangup := cli.NotifyHangup(ctx) // which would leave a part of the file
	defer stopHangup()
	ctx, ended, cancel := c.withTimeout(ctx)
	defer cancel()
	req, err := c.request.make(ctx, u, c.In)
	if err != nil {
		return unsent(ctx, ended.explain(err))
	}
	if c.output.Value != "" {
		// SIGPIPE from a closed standard error would leave a part of the file.
		defer cli.IgnorePipe()()
	}
	out, err := files.Create(ctx, c.output.Value, c.Out)
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return cli.Failed(ended.explain(fmt.Errorf("--output: %w", err)))
	}
	c.warnMissingFiles()

	report := newReport(c.Streams, transport, settings, req, c.json)
	observe, d := report.observe, (*download)(nil)
	if c.request.resume {
		d = follow(transport, report)
		observe = d.observe
	}
	resp, err := transport.RoundTrip(req.WithContext(awsretry.WithObserver(ctx, observe)))
	if err != nil {
		out.Abandon()
		return report.noResponse(ended.explain(err))
	}
	defer resp.Body.Close()
	return c.writeBody(ctx, resp, out, report, d, ended)
}

func (c *command) warnMissingFiles() {
	for _, warning := range settings.MissingFiles(c.Getenv) {
		c.warn(warning)
	}
}

func (c *command) warn(warning string) { c.Warn("awsretry get", warning, c.json) }

// warnOfLog makes warnings of what net/http logs, until the function that it
// returns is called.
func (c *command) warnOfLog() (stop func()) {
	w, flags := log.Writer(), log.Flags()
	log.SetFlags(0)
	log.SetOutput(warner(c.warn))
	return func() {
		log.SetOutput(w)
		log.SetFlags(flags)
	}
}

type warner func(string)

func (w warner) Write(line []byte) (int, error) {
	w(strings.TrimSpace(string(line)))
	return len(line), nil
}

// asJSON prints a failure that is not reported yet as JSON, with --json, and returns
// it as reported. Wrong usage stays as it is: it is for a person.
func (c *command) asJSON(err error) error {
	var failed *cli.Error
	if !c.json || !errors.As(err, &failed) || failed.Err == nil {
		return err
	}
	text := term.WithoutPackages(failed.Error())
	term.NewEncoder(c.Err).Encode(map[string]string{"error": text})
	return cli.Reported(failed.Status)
}

// unsent returns err as a usage error, since nothing was sent, unless ctx has
// ended.
func unsent(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return cli.Failed(err)
	}
	return err
}

// An ending has the contexts that end a request early.
type ending struct {
	interrupted context.Context // ends with Ctrl-C
	timeout     context.Context // ends also with --timeout
}

// withTimeout returns ctx with the time limit of --timeout.
func (c *command) withTimeout(ctx context.Context) (context.Context, ending, context.CancelFunc) {
	limit := time.Duration(c.timeout)
	if limit == 0 {
		return ctx, ending{ctx, ctx}, func() {}
	}
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the time of --timeout, %v, is over", limit))
	return limited, ending{ctx, limited}, cancel
}

// explain returns err. If the request was ended early, it returns an error that
// says so instead of the consequence.
func (e ending) explain(err error) error {
	switch {
	case e.interrupted.Err() != nil:
		return &endedError{cli.ErrInterrupted, err}
	case e.timeout.Err() != nil:
		return &endedError{context.Cause(e.timeout), err}
	}
	return err
}

// An endedError is why a request was ended early.
type endedError struct{ reason, err error }

func (e *endedError) Error() string   { return e.reason.Error() }
func (e *endedError) Unwrap() []error { return []error{e.reason, e.err} }

// asEnded returns the endedError in err.
func asEnded(err error) (*endedError, bool) {
	var ended *endedError
	return ended, errors.As(err, &ended)
}
