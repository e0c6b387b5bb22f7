package demo

import (
	"context"
	"fmt"
	"time"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/printer"
	"example.com/awsretry/cmd/internal/term"
)

// A serveCommand serves the failing server without the demo.
type serveCommand struct {
	term.Streams
	port     cli.Number
	duration cli.Period
}

// run serves until ctx or the time ends.
func (c *serveCommand) run(ctx context.Context) error {
	listener, err := listen(ctx, c.port.Value)
	if err != nil {
		return fmt.Errorf("--port: %w", err)
	}
	server := startServer(listener)
	defer server.stop()
	p := printer.New(c.Streams, c.Out, false, []term.Column{{Width: len("http://127.0.0.1:65535/invalid")}, {}})
	p.Say("Serving for %v, or until Ctrl-C:\n", time.Duration(c.duration))
	for _, path := range paths {
		p.Table.Row("http://"+server.address+path.path, path.about)
	}
	if p.Out.Err != nil {
		return p.Out.Err
	}
	select {
	case <-ctx.Done(): // the user's way to end it, and no error
	case <-time.After(time.Duration(c.duration)):
	}
	return nil
}
