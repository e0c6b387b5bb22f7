package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"example.com/awsretry"
	"github.com/spf13/cobra"
)

func newDemo(p process) *cobra.Command {
	s := demoServe{process: p, port: number{least: 1, most: 65535}, lasts: period(10 * time.Minute)}
	serve := false
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See it working against a server of its own that fails on purpose",
		Long: `Starts a server on loopback that fails, throttles, resets connections and recovers, sends real requests to it, and prints
what happens. It sends nothing anywhere else, takes about ten seconds, and ends with status 1 if anything
did not go as it should.

With --serve it sends nothing: it prints the URLs of the server, for awsretry get and for clients of your own, and
serves them until Ctrl-C, but not longer than --for. Other machines cannot reach them.`,
		Example: `  awsretry demo
  awsretry demo --serve --port 8080               and in another terminal:
  awsretry get http://127.0.0.1:8080/flaky`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if serve {
				return failed(s.run(cmd.Context()))
			}
			for _, name := range []string{"port", "for"} {
				if cmd.Flags().Changed(name) {
					return fmt.Errorf("--%s is for --serve, which is missing", name)
				}
			}
			return failed(runDemo(cmd.Context(), p, demoTimes{standard: time.Second, adaptive: 8 * time.Second}))
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&serve, "serve", false, "serve the failing server instead, and print its URLs")
	flags.Var(&s.port, "port", "port of 127.0.0.1 to serve on (default one that is free)")
	flags.Var(&s.lasts, "for", "stop serving after this time")
	return cmd
}

// A demoServe is the demo's server without the demo.
type demoServe struct {
	process
	port  number
	lasts period
}

// run serves until ctx or the time ends.
func (s *demoServe) run(ctx context.Context) error {
	server, err := startDemoServer(ctx, s.port.value)
	if err != nil {
		return fmt.Errorf("--port: %w", err)
	}
	defer server.stop()
	out := &keptError{Writer: s.stdout}
	fmt.Fprintf(out, "Serving for %v, or until Ctrl-C:\n\n", time.Duration(s.lasts))
	t := table{w: out, width: s.tableWidth(s.stdout), columns: []column{{width: len("http://127.0.0.1:65535/invalid")}, {}}}
	for _, path := range demoPaths {
		t.row([]string{"http://" + server.address + path.path, path.about}, nil)
	}
	if out.err != nil {
		return out.err
	}
	select {
	case <-ctx.Done(): // the way to end it
	case <-time.After(time.Duration(s.lasts)):
	}
	return nil
}

// demoTimes say how long the scene about adaptive mode sends with each mode.
type demoTimes struct{ standard, adaptive time.Duration }

// A demo is one showing.
type demo struct {
	ctx     context.Context
	w       io.Writer
	width   int // see table
	palette palette
	server  *demoServer
	times   demoTimes
	scenes  int
	checks  int
	failed  int // of the checks
}

func runDemo(ctx context.Context, p process, times demoTimes) error {
	parent := ctx
	ctx, cancel := context.WithTimeout(parent, time.Minute) // it should be over long before
	defer cancel()
	server, err := startDemoServer(ctx, 0)
	if err != nil {
		return fmt.Errorf("the server cannot be started: %w", err)
	}
	defer server.stop()
	out := &keptError{Writer: p.stdout}
	d := &demo{ctx: ctx, w: out, width: p.tableWidth(p.stdout), palette: newPalette(p, p.stdout), server: server, times: times}
	start := time.Now()
	d.say("A server on %s fails on purpose. Pauses are shorter than the defaults, so that this ends soon.", server.address)
	for _, scene := range []func(*demo) error{
		(*demo).savedRequest, (*demo).badRequest, (*demo).replayedBody, (*demo).outage, (*demo).throttledService,
	} {
		if err := scene(d); err != nil {
			if parent.Err() != nil {
				return errInterrupted
			}
			return err
		}
		if out.err != nil {
			return out.err
		}
	}
	d.say("")
	if d.failed > 0 {
		return fmt.Errorf("%d of %d checks did not hold", d.failed, d.checks)
	}
	d.say("%s", d.palette.bold(fmt.Sprintf("All %d checks hold, after %s.", d.checks, brief(time.Since(start)))))
	return nil
}

func (d *demo) say(format string, args ...any) {
	fmt.Fprintln(d.w, strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

// A keptError keeps the first error of writing.
type keptError struct {
	io.Writer
	err error
}

func (w *keptError) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if w.err == nil {
		w.err = err
	}
	return n, err
}

// scene begins a scene. What follows its title says what is going to be done, not what comes of it.
func (d *demo) scene(title, about string) {
	d.scenes++
	d.say("\n%s", d.palette.bold(fmt.Sprintf("%d. %s", d.scenes, title)))
	for line := range strings.SplitSeq(about, "\n") {
		d.say("   %s", d.palette.faint(line))
	}
	d.say("")
}

// check prints what happened, and whether that is what the scene is to show.
func (d *demo) check(holds bool, happened string) {
	d.checks++
	mark := d.palette.good("✓")
	if !holds {
		d.failed++
		mark = d.palette.bad("✗")
		happened += d.palette.bad(" (not as it should be)")
	}
	d.say("   %s %s", mark, happened)
}

// transport is one whose pauses suit a demo.
func (d *demo) transport() *awsretry.Transport {
	return &awsretry.Transport{Backoff: awsretry.Exponential{Initial: 200 * time.Millisecond, Max: 4 * time.Second}}
}

// A result is what came of a request.
type result struct {
	status   int // 0: no answer
	attempts int
	elapsed  time.Duration
}

func (r result) String() string {
	status := "no answer"
	if r.status != 0 {
		status = fmt.Sprintf("%d %s", r.status, http.StatusText(r.status))
	}
	return fmt.Sprintf("%s after %s, %s", status, count(r.attempts, "attempt"), brief(r.elapsed))
}

// send sends a request. Where it is shown, its attempts are printed.
func (d *demo) send(t *awsretry.Transport, method, path string, body io.Reader, length int64, shown bool) (result, error) {
	var r result
	table := d.table(t)
	ctx := awsretry.WithObserver(d.ctx, func(a awsretry.Attempt) {
		r.attempts = a.Number
		if shown {
			table.attempt(a)
		}
	})
	req, err := http.NewRequestWithContext(ctx, method, "http://"+d.server.address+path, body)
	if err != nil {
		return r, err
	}
	if length != 0 {
		req.ContentLength = length
	}
	start := time.Now()
	client := http.Client{Transport: t}
	resp, err := client.Do(req)
	r.elapsed = time.Since(start)
	if d.ctx.Err() != nil {
		if err == nil {
			resp.Body.Close()
		}
		return r, d.ctx.Err()
	}
	if shown {
		d.say("")
	}
	var noAnswer *awsretry.Error
	if errors.As(err, &noAnswer) {
		return r, nil
	} else if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	r.status = resp.StatusCode
	_, err = io.Copy(io.Discard, resp.Body)
	return r, err
}

func (d *demo) table(t *awsretry.Transport) *printer {
	return &printer{
		w:       d.w,
		palette: d.palette,
		width:   d.width,
		indent:  "   ",
		state:   func() (awsretry.State, bool) { return t.State(d.server.address) },
	}
}

// A bar is this long where it is full.
const barWidth = 25

// bar draws so many times the whole, with an ellipsis where that is more than the line has room for.
func bar(fill string, times, room float64) string {
	if times > room {
		return strings.Repeat(fill, int(room*barWidth)) + "…"
	}
	return strings.Repeat(fill, int(max(times, 0)*barWidth+0.5))
}

// row prints a line of a table, which ends at the terminal's edge.
func (d *demo) row(format string, args ...any) {
	(&table{w: d.w, width: d.width}).line(fmt.Sprintf(format, args...))
}
