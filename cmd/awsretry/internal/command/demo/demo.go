// Package demo implements the command awsretry demo, which shows the library with a
// server that fails on purpose.
package demo

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.com/awsretry"
	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/printer"
	"example.com/awsretry/cmd/internal/term"
)

// New returns the command.
func New(s term.Streams) *cobra.Command {
	c := serveCommand{Streams: s, port: cli.Number{Least: 1, Most: 65535}, duration: cli.Period(10 * time.Minute)}
	serve := false
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See it work against a server of its own that fails on purpose",
		Long: `Starts a server on loopback that fails, throttles, resets connections and recovers, sends real requests
to it, and prints what happens. It sends nothing anywhere else, takes about ten seconds, and ends with status 1 if
anything did not go as it should.

With --serve it sends nothing: it prints the URLs of the server, for awsretry get and for clients of your own, and
serves them until Ctrl-C, but not longer than --duration. Other machines cannot reach them.`,
		Example: `  awsretry demo
  awsretry demo --serve --port 8080               and in another terminal:
  awsretry get http://127.0.0.1:8080/flaky
  awsretry get --resume -o copy http://127.0.0.1:8080/broken`,
		Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if serve {
				return cli.Failed(c.run(cmd.Context()))
			}
			for _, name := range []string{"port", "duration"} {
				if cmd.Flags().Changed(name) {
					return fmt.Errorf("--%s is for --serve, which is missing", name)
				}
			}
			return cli.Failed(run(cmd.Context(), s))
		},
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.BoolVar(&serve, "serve", false, "serve the failing server instead, and print its URLs")
	set.Var(&c.port, "port", "port of 127.0.0.1 to serve on (default one that is free)")
	set.Var(&c.duration, "duration", "stop serving after this time")
	return cmd
}

// run shows the demo on loopback.
func run(ctx context.Context, s term.Streams) error {
	listener, err := listen(ctx, 0)
	if err != nil {
		return fmt.Errorf("the server cannot be started: %w", err)
	}
	server := startServer(listener)
	defer server.stop()
	base := http.DefaultTransport.(*http.Transport).Clone()
	defer base.CloseIdleConnections()
	return show(ctx, s, server, base)
}

// A demo is one run of the demo.
type demo struct {
	*printer.Printer
	ctx     context.Context
	server  *server
	base    http.RoundTripper
	backoff awsretry.Backoff // short, so that the demo ends soon
	scenes  int
	checks  int
	failed  int // checks
}

// show shows every scene with requests that base sends to the server.
func show(ctx context.Context, s term.Streams, server *server, base http.RoundTripper) error {
	interrupted := ctx
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // far more than it takes
	defer cancel()
	d := &demo{
		Printer: printer.New(s, s.Out, false, nil),
		ctx:     ctx,
		server:  server,
		base:    base,
		backoff: awsretry.Exponential{Initial: 200 * time.Millisecond, Max: 4 * time.Second},
	}
	start := time.Now()
	d.Say("A server on %s fails on purpose. Delays are shorter than the defaults, so that this ends soon.",
		server.address)
	for _, scene := range []func(*demo) error{
		(*demo).savedRequest, (*demo).badRequest, (*demo).replayedBody, (*demo).outage, (*demo).throttledService,
	} {
		if err := scene(d); err != nil {
			if interrupted.Err() != nil {
				return cli.ErrInterrupted
			}
			return err
		}
		if d.Out.Err != nil {
			return d.Out.Err
		}
	}
	d.Say("")
	if d.failed > 0 {
		return fmt.Errorf("%d of %d checks did not hold", d.failed, d.checks)
	}
	verdict := fmt.Sprintf("All %d checks hold, after %s.", d.checks, term.Duration(time.Since(start)))
	d.Say("%s", d.Palette.Bold(verdict))
	return nil
}

// row prints a line of a table, which ends at the terminal's edge.
func (d *demo) row(format string, args ...any) { d.Table.Line(fmt.Sprintf(format, args...)) }

// scene begins a scene. The text after its title describes what will happen, not
// its outcome.
func (d *demo) scene(title, about string) {
	d.scenes++
	d.Say("\n%s", d.Palette.Bold(fmt.Sprintf("%d. %s", d.scenes, title)))
	for line := range strings.SplitSeq(about, "\n") {
		d.Say("   %s", d.Palette.Faint(line))
	}
	d.Say("")
}

// check prints what happened, and whether it is what the scene should show.
func (d *demo) check(holds bool, happened string) {
	d.checks++
	mark := d.Palette.Good("✓")
	if !holds {
		d.failed++
		mark = d.Palette.Bad("✗")
		happened += d.Palette.Bad(" (not as it should be)")
	}
	d.Say("   %s %s", mark, happened)
}

func (d *demo) transport() *awsretry.Transport {
	return &awsretry.Transport{Base: d.base, Backoff: d.backoff}
}
