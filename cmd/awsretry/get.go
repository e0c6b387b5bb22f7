package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
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
before the next attempt or why there is none, and the AWS error code.

The body goes to standard output. On a terminal, control characters in it are replaced, so that a server cannot send
escape sequences; piped or with --output, the body is written as it is.

The file of --output is replaced when the body of a 2xx is complete, in one step if the system allows that. Only a 2xx
replaces it: a redirect, a 304, a failure that is left after the retries, or a 2xx whose body is an AWS error never
changes it, and the body goes to standard output, as without --output. A device or a pipe is given every body.

The settings come from the flags, else from the environment and the shared AWS config file (see awsretry config).

Exit status: 0 success; 22 an HTTP error that is left after the retries; 2 wrong usage, and nothing was sent; 1 anything else.`,
		Example: `  awsretry get http://127.0.0.1:8080/flaky                   with awsretry demo --serve --port 8080
  awsretry get https://api.example.com/orders
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
	g.method.kind, g.output.kind = "METHOD", "FILE"
	request.VarP(&g.method, "method", "X", "method of the request (default GET, with --data POST)")
	request.StringArrayVarP(&g.headers, "header", "H", nil, "a header, `\"NAME: VALUE\"`; may be repeated")
	request.StringVarP(g.data, "data", "d", "", "`BODY` of the request; @FILE reads a file, @- standard input")
	request.VarP(&g.output, "output", "o", "write the body to this file, which only a 2xx replaces, when it is complete")
	request.BoolVar(&g.json, "json", false, "print a JSON object for each attempt, on a line of its own")
	request.Var(&g.timeout, "timeout", "give up after this time, pauses and body included (default none)")
	g.settings.register(retries)
	groupFlags(cmd, flagGroup{"Request", request}, flagGroup{"Retries", retries})
	return cmd
}

// A getCommand sends one request.
type getCommand struct {
	process
	method, output word
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
	explain := func(err error) error {
		switch {
		case parent.Err() != nil:
			return &endedError{errInterrupted, err}
		case ctx.Err() != nil:
			return &endedError{timedOut, err}
		}
		return err
	}
	req, err := newRequest(ctx, g.method.value, u, g.headers, g.data, g.stdin)
	if err != nil {
		return unsent(ctx, explain(err))
	}
	if g.output.value != "" {
		// Without this, a closed standard error ends the process, and what is
		// written of the file is left behind.
		pipe := make(chan os.Signal, 1)
		signal.Notify(pipe, syscall.SIGPIPE)
		defer signal.Stop(pipe)
	}
	out, err := openOutput(ctx, g.output.value, g.stdout)
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return unsent(ctx, explain(fmt.Errorf("--output: %w", err)))
	}

	for _, warning := range missingFiles(g.getenv) {
		if g.json {
			newJSON(g.stderr).Encode(struct {
				Warning string `json:"warning"`
			}{warning})
		} else {
			g.warn("get", warning)
		}
	}
	report := newReport(g.process, transport, settings, req, g.json)
	start := time.Now()
	resp, err := transport.RoundTrip(req.WithContext(awsretry.WithObserver(ctx, report.observe)))
	if err != nil {
		out.abandon()
		return report.noAnswer(explain(err), time.Since(start))
	}
	defer resp.Body.Close()
	report.answer(resp, time.Since(start))
	return g.writeBody(ctx, resp, out, report, explain)
}

// unsent returns err as a usage error, since nothing was sent, unless ctx has
// ended.
func unsent(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return failed(err)
	}
	return err
}

// writeBody writes the body of the last answer, and gives the request's exit
// status.
func (g *getCommand) writeBody(ctx context.Context, resp *http.Response, out *output, report *report,
	explain func(error) error) error {
	success := report.last.Class == awsretry.Success
	if replaces := success && resp.StatusCode/100 == 2; !replaces && out.path != "" {
		out.abandon()
		out = &output{Writer: g.stdout}
		report.notSaved(g.output.value)
	}
	size, err := g.copyBody(ctx, resp, out)
	if err != nil {
		out.abandon()
	} else {
		err = out.keep()
	}
	without := ""
	if out.path != "" {
		without = ", and nothing was written to " + g.output.value
	}
	var cut *bodyError
	var left *leftError
	switch {
	case errors.As(err, &cut):
		return report.bodyFault("the body was cut off after %s%s: %v", count(int(size), "byte"), without, explain(cut.error))
	case errors.As(err, &left):
		return report.bodyFault("%s could not be replaced: %v", g.output.value, left)
	case err != nil:
		return report.bodyFault("the body could not be written%s: %v", without, explain(err))
	}
	if !success {
		return &failure{status: exitHTTPError}
	}
	if out.file != nil {
		report.saved(g.output.value, size)
	}
	return nil
}

// copyBody copies the body and returns its length. On a terminal, empty lines
// separate it from the report.
func (g *getCommand) copyBody(ctx context.Context, resp *http.Response, out *output) (int64, error) {
	var w io.Writer = out
	if out.path == "" { // writing to a pipe may wait for whoever reads it
		w = interruptibleWriter{ctx, w}
	}
	if !g.isTerminal(out.Writer) {
		return io.Copy(w, bodyReader{resp.Body})
	}
	apart := out.file == nil && g.isTerminal(g.stderr)
	if apart && resp.ContentLength != 0 {
		fmt.Fprintln(g.stderr)
	}
	last := &lastByte{Writer: w, last: '\n'}
	screen := newScreen(last)
	size, err := io.Copy(screen, bodyReader{resp.Body})
	err = errors.Join(err, screen.Close())
	if apart && last.last != '\n' {
		fmt.Fprintln(g.stderr)
	}
	return size, err
}
