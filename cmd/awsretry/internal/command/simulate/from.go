package simulate

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"example.com/awsretry/cmd/awsretry/internal/exit"
	"example.com/awsretry/cmd/awsretry/internal/flags"
	"example.com/awsretry/cmd/awsretry/internal/interrupt"
	"example.com/awsretry/cmd/awsretry/internal/outfile"
	"example.com/awsretry/simulate/traffic"
)

// arguments requires a scenario, unless there is a log.
func (c *command) arguments(cmd *cobra.Command, args []string) error {
	if c.from.Value == "" {
		for _, flag := range []string{"write", "host"} {
			if cmd.Flags().Changed(flag) {
				return fmt.Errorf("--%s is for --from only", flag)
			}
		}
		return flags.Exactly("SCENARIO|FILE")(cmd, args)
	}
	if len(args) > 0 {
		return fmt.Errorf("argument %q is one too many: --from makes the scenario", args[0])
	}
	return nil
}

// runFrom simulates what a log shows. typed is the command as it was typed.
func (c *command) runFrom(ctx context.Context, given func(flag string) bool, typed string) error {
	file := outfile.Stdout(io.Discard)
	if c.writeTo.Value != "" {
		var err error
		if file, err = outfile.Open(ctx, c.writeTo.Value, c.Out); err != nil { // before the log takes its time
			return fmt.Errorf("--write: %w", err)
		}
	}
	fitted, err := c.fit(ctx)
	if err != nil {
		file.Abandon()
		if ctx.Err() != nil {
			return exit.Failed(exit.ErrInterrupted)
		}
		return err
	}
	if err := c.write(fitted, file); err != nil {
		return exit.Failed(err)
	}
	if c.print {
		return nil
	}
	of, err := c.changed(fitted.Scenario, 1, func(flag string) bool {
		return flag != "duration" && given(flag) // the log may be shorter
	})
	if err != nil {
		return err
	}
	if !given("clients") && !given("rate") { // else what is simulated was not recorded
		c.fitted = fitted
	}
	return c.run(ctx, of, typed)
}

// fit reads the log.
func (c *command) fit(ctx context.Context) (*traffic.Fitted, error) {
	in, size := c.In, int64(-1)
	if c.from.Value != "-" {
		file, err := interrupt.Open(ctx, c.from.Value, os.O_RDONLY)
		if err != nil {
			return nil, fmt.Errorf("--from: %w", err)
		}
		defer file.Close()
		info, err := file.Stat()
		switch {
		case err != nil:
			return nil, fmt.Errorf("--from: %w", err)
		case info.IsDir():
			return nil, fmt.Errorf("--from: %s is a directory", c.from.Value)
		case info.Mode().IsRegular():
			size = info.Size()
		}
		in = file
	}
	progress, done := c.bar("reading", size)
	defer done()
	log, err := traffic.Read(ctx, interrupt.NewReader(ctx, in), traffic.Options{Host: c.host.Value, Progress: progress})
	if err != nil {
		return nil, fmt.Errorf("--from %s: %w", c.from.Value, err)
	}
	return log.Fit(time.Duration(c.duration))
}

// write writes the scenario into a file, and with --print to standard output.
func (c *command) write(fitted *traffic.Fitted, file *outfile.File) error {
	text, err := fitted.File()
	if err == nil && c.print {
		_, err = c.Out.Write(text)
	}
	if err == nil {
		_, err = file.Write(text)
	}
	if err != nil {
		file.Abandon()
		return err
	}
	return file.Keep()
}
