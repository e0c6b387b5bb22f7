package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"example.com/awsretry"
	"github.com/spf13/cobra"
)

func newGet(p process) *cobra.Command {
	g := getCommand{process: p}
	cmd := &cobra.Command{
		Use:   "get [flags] URL",
		Short: "Send a request, retry it, and print each attempt as it happens",
		Long: `Sends one request, retries it by the rules of the AWS SDKs, and prints each attempt on standard error as it happens:
its status or error, what that means for a retry, the time it took, the tokens left in the retry token bucket, the pause
before the next attempt or why there is none, and the AWS error code. The body goes to standard output.

The settings come from the flags, else from the environment and the shared AWS config file (see awsretry config).

Exit status: 0 success; 22 an HTTP error that is left after the retries; 2 wrong usage, and nothing was sent; 1 anything else.`,
		Example: `  awsretry get https://api.example.com/orders
  awsretry get --mode adaptive --max-attempts 8 --attempt-timeout 2s --timeout 1m https://api.example.com/orders
  awsretry get -X PUT -H 'Content-Type: application/json' -d @order.json https://api.example.com/orders/17
  awsretry get --base-delay 200ms --max-delay 5s -o orders.json https://api.example.com/orders
  awsretry get --json https://api.example.com/orders 2>attempts.jsonl`,
		Args: exactly("URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("data") {
				g.data = nil
			}
			return g.run(cmd.Context(), args[0])
		},
	}
	g.data = new(string)
	request, retries := flagSet(), flagSet()
	request.StringVarP(&g.method, "method", "X", "", "`METHOD` of the request (default GET, with --data POST)")
	request.StringArrayVarP(&g.headers, "header", "H", nil, "a header, `\"NAME: VALUE\"`; may be repeated")
	request.StringVarP(g.data, "data", "d", "", "`BODY` of the request; @FILE reads a file, @- standard input")
	request.StringVarP(&g.output, "output", "o", "", "write the answer's body to `FILE`, which is replaced when the body is whole")
	request.BoolVar(&g.json, "json", false, "print a JSON object for each attempt, on a line of its own")
	request.Var(&g.timeout, "timeout", "give up after this time, pauses and body included (default none)")
	g.settings.register(retries)
	groupFlags(cmd, flagGroup{"Request", request}, flagGroup{"Retries", retries})
	return cmd
}

// A getCommand sends one request.
type getCommand struct {
	process
	method, output string
	headers        []string
	data           *string // nil: no body
	json           bool
	timeout        period
	settings       settingsFlags
}

// An endedError is why we ended a request, in place of what the transport made of it.
type endedError struct{ reason, err error }

func (e *endedError) Error() string   { return e.reason.Error() }
func (e *endedError) Unwrap() []error { return []error{e.reason, e.err} }

var errInterrupted = errors.New("interrupted")

// run's errors are of usage until something is sent.
func (g *getCommand) run(ctx context.Context, address string) error {
	u, err := parseURL(address)
	if err != nil {
		return err
	}
	transport, settings, err := g.settings.transport(g.process)
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	parent := ctx
	var timedOut error
	if limit := time.Duration(g.timeout); limit > 0 {
		timedOut = fmt.Errorf("the time of --timeout, %v, is over", limit)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, timedOut)
		defer cancel()
	}
	req, err := newRequest(ctx, g.method, u, g.headers, g.data, g.stdin)
	if err != nil {
		return err
	}
	out, err := openOutput(g.output, g.stdout)
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return fmt.Errorf("--output: %w", err)
	}

	report := newReport(g.process, transport, settings, req, g.json)
	start := time.Now()
	resp, err := transport.RoundTrip(req.WithContext(awsretry.WithObserver(ctx, report.observe)))
	explain := func(err error) error {
		switch {
		case parent.Err() != nil:
			return &endedError{errInterrupted, err}
		case ctx.Err() != nil:
			return &endedError{timedOut, err}
		}
		return err
	}
	if err != nil {
		out.abandon()
		return report.noAnswer(explain(err), time.Since(start))
	}
	defer resp.Body.Close()
	report.answer(resp, time.Since(start))
	return g.writeBody(resp, out, report, explain)
}

// writeBody writes the body of the last answer, and gives the request's exit status.
func (g *getCommand) writeBody(resp *http.Response, out *output, report *report, explain func(error) error) error {
	screen := &lastByte{Writer: out, last: '\n'}
	onScreen := out.file == nil && g.isTerminal(g.stdout) && g.isTerminal(g.stderr)
	if onScreen && resp.ContentLength != 0 {
		fmt.Fprintln(g.stderr)
	}
	size, err := io.Copy(screen, bodyReader{resp.Body})
	if onScreen && screen.last != '\n' {
		fmt.Fprintln(g.stderr)
	}
	if err != nil {
		out.abandon()
	} else {
		err = out.keep()
	}
	without := ""
	if out.path != "" {
		without = ", and nothing was written to " + g.output
	}
	var cut *bodyError
	switch {
	case errors.As(err, &cut):
		return report.bodyFault("the body was cut off after %s%s: %v", count(int(size), "byte"), without, explain(cut.error))
	case err != nil:
		return report.bodyFault("the body could not be written%s: %v", without, err)
	}
	report.saved(g.output, size)
	if report.last.Class != awsretry.Success {
		return &failure{status: exitHTTPError}
	}
	return nil
}
