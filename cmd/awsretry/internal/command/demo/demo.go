// Package demo implements the command awsretry demo, which shows the library with a
// server that fails on purpose.
package demo

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"example.com/awsretry"
	"example.com/awsretry/cmd/internal/attempts"
	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/term"
)

// New returns the command.
func New(s term.Streams) *cobra.Command {
	serve, port, duration := false, cli.Number{Least: 1, Most: 65535}, cli.Period(10*time.Minute)
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
			for _, name := range []string{"port", "duration"} {
				if cmd.Flags().Changed(name) && !serve {
					return fmt.Errorf("--%s is for --serve, which is missing", name)
				}
			}
			listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port.Value))
			if err != nil {
				return cli.Failed(fmt.Errorf("--port: %w", err))
			}
			server := startServer(listener)
			defer server.Close()
			if serve {
				return cli.Failed(server.wait(cmd.Context(), s, time.Duration(duration)))
			}
			base := http.DefaultTransport.(*http.Transport).Clone()
			defer base.CloseIdleConnections()
			return cli.Failed(show(cmd.Context(), s, server, base))
		},
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.BoolVar(&serve, "serve", false, "serve the failing server instead, and print its URLs")
	set.Var(&port, "port", "port of 127.0.0.1 to serve on (default one that is free)")
	set.Var(&duration, "duration", "stop serving after this time")
	return cmd
}

// A demo is one run of the demo, and the writer of what it prints. After an error
// it neither sends nor prints.
type demo struct {
	term.Streams
	ctx                    context.Context
	end                    context.CancelCauseFunc // ends ctx
	palette                term.Palette
	server                 *server
	base                   http.RoundTripper
	scenes, checks, failed int
}

// show shows every scene with requests that base sends to the server.
func show(ctx context.Context, s term.Streams, server *server, base http.RoundTripper) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // far more than it takes
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	d := &demo{Streams: s, ctx: ctx, end: end, palette: term.NewPalette(s, s.Out), server: server, base: base}
	start := time.Now()
	d.say("A server on %s fails on purpose. Delays are shorter than the defaults, so that this ends soon.", server.address)
	for _, scene := range []func(){d.savedRequest, d.badRequest, d.replayedBody, d.outage, d.throttledService} {
		scene()
	}
	d.say("")
	if d.failed > 0 && ctx.Err() == nil {
		return fmt.Errorf("%d of %d checks did not hold", d.failed, d.checks)
	}
	d.say("%s", d.palette.Bold(fmt.Sprintf("All %d checks hold, after %s.", d.checks, term.Duration(time.Since(start)))))
	return context.Cause(ctx)
}

// Write prints p, unless the demo has ended.
func (d *demo) Write(p []byte) (int, error) {
	select {
	case <-d.ctx.Done():
		return len(p), nil
	default:
	}
	n, err := d.Out.Write(p)
	if err != nil {
		d.end(err)
	}
	return n, err
}

// say prints a line.
func (d *demo) say(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

// row prints a line of a table, which ends at the terminal's edge.
func (d *demo) row(format string, args ...any) {
	table := term.Table{W: d, Width: d.TableWidth(d.Out)}
	table.Line("   " + fmt.Sprintf(format, args...))
}

// scene begins a scene. The text after its title describes what will happen, not
// its outcome.
func (d *demo) scene(title, about string) {
	d.scenes++
	d.say("\n%s", d.palette.Bold(fmt.Sprintf("%d. %s", d.scenes, title)))
	for line := range strings.SplitSeq(about, "\n") {
		d.say("   %s", d.palette.Faint(line))
	}
	d.say("")
}

// check prints what happened, and whether it is what the scene should show.
func (d *demo) check(holds bool, format string, args ...any) {
	d.checks++
	mark, note := d.palette.Good("✓"), ""
	if !holds {
		d.failed++
		mark, note = d.palette.Bad("✗"), d.palette.Bad(" (not as it should be)")
	}
	d.say("   %s %s%s", mark, fmt.Sprintf(format, args...), note)
}

// transport returns a Transport with short delays, so that the demo ends soon.
func (d *demo) transport() *awsretry.Transport {
	return &awsretry.Transport{Base: d.base, Mode: awsretry.Standard,
		Backoff: awsretry.Exponential{Initial: 200 * time.Millisecond, Max: 4 * time.Second}}
}

// request returns a request to the server. The body is nil, or has a length.
func (d *demo) request(method, path string, body io.Reader, length int) *http.Request {
	req, err := http.NewRequest(method, "http://"+d.server.address+path, body)
	if err != nil {
		panic(err) // the methods and paths are constants
	}
	req.ContentLength = int64(length)
	return req
}

// An outcome is the outcome of a request.
type outcome struct {
	status, attempts int
	elapsed          time.Duration
}

func (o outcome) String() string {
	return fmt.Sprintf("%d %s after %s, %s", o.status, http.StatusText(o.status),
		english.Plural(o.attempts, "attempt", ""), term.Duration(o.elapsed))
}

// show sends a request, and prints a table of its attempts.
func (d *demo) show(t *awsretry.Transport, req *http.Request) outcome {
	table := &attempts.Table{W: d, Palette: d.palette, Width: d.TableWidth(d.Out), Indent: "   ",
		State: func() (awsretry.State, bool) { return t.State(d.server.address) }}
	o := d.send(awsretry.WithObserver(d.ctx, table.Row), t, req)
	d.say("")
	return o
}

// send sends a request. An error ends the demo, unless ctx has ended.
func (d *demo) send(ctx context.Context, t *awsretry.Transport, req *http.Request) (o outcome) {
	start := time.Now()
	resp, err := (&http.Client{Transport: t}).Do(req.WithContext(ctx))
	if err == nil {
		defer resp.Body.Close()
		o = outcome{resp.StatusCode, 1, time.Since(start)}
		if a, retried := awsretry.Outcome(resp); retried {
			o.attempts = a.Number
		}
		_, err = io.Copy(io.Discard, resp.Body)
	}
	if err != nil && ctx.Err() == nil {
		d.end(err)
	}
	return o
}
