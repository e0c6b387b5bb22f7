package simulate

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/files"
	"example.com/awsretry/simulate/scenario"
	"example.com/awsretry/simulate/traffic"
)

// arguments requires a scenario, unless there is a log.
func (c *command) arguments(cmd *cobra.Command, args []string) error {
	if c.from.Value == "" {
		for _, flag := range []string{"write", "host", "callers", "timeout", "present"} {
			if cmd.Flags().Changed(flag) {
				return fmt.Errorf("--%s is for --from only", flag)
			}
		}
		return cli.Exactly("SCENARIO|FILE")(cmd, args)
	}
	if len(args) > 0 {
		return fmt.Errorf("argument %q is one too many: --from makes the scenario", args[0])
	}
	return nil
}

// runFrom simulates what a log shows. typed is the command as it was typed.
func (c *command) runFrom(ctx context.Context, given func(flag string) bool, typed string) error {
	file := files.Stdout(io.Discard)
	if c.writeTo.Value != "" {
		if same(c.from.Value, c.writeTo.Value) {
			return fmt.Errorf("--write is %s, which --from reads; it must be another file", c.writeTo.Value)
		}
		var err error
		if file, err = files.Create(ctx, c.writeTo.Value, c.Out); err != nil { // before the log takes its time
			return cli.Failed(fmt.Errorf("--write: %w", err))
		}
	}
	fitted, err := c.fit(ctx)
	if err != nil {
		file.Abandon()
		if ctx.Err() != nil {
			err = cli.ErrInterrupted
		}
		return cli.Failed(err)
	}
	if err := c.write(fitted, file); err != nil {
		return cli.Failed(err)
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

// same reports whether two names refer to one file.
func same(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// known returns what the flags define about the log.
func (c *command) known() (traffic.Known, error) {
	known := traffic.Known{Callers: c.callers.Value, Timeout: time.Duration(c.timeout)}
	if c.present.Value != "" {
		present, err := scenario.ParseSetting(c.present.Value)
		if err != nil {
			return known, fmt.Errorf("--present: %w", err)
		}
		known.Present = &present
	}
	return known, nil
}

// fit reads the log.
func (c *command) fit(ctx context.Context) (*traffic.Fitted, error) {
	known, err := c.known()
	if err != nil {
		return nil, err
	}
	in, size := c.In, int64(-1)
	if c.from.Value != "-" {
		file, err := files.OpenContext(ctx, c.from.Value, os.O_RDONLY)
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
	defer func() { done() }()
	log, err := traffic.Read(ctx, files.NewReader(ctx, in), traffic.Options{
		Host: c.host.Value, Progress: progress, Known: known,
	})
	if err != nil {
		return nil, fmt.Errorf("--from %s: %w", c.from.Value, err)
	}
	if size >= 0 {
		done()
		progress, done = c.bar("reading again", size)
		if _, err = in.(io.Seeker).Seek(0, io.SeekStart); err == nil {
			err = log.Refine(ctx, in, time.Duration(c.duration), progress)
		}
		if err != nil {
			return nil, fmt.Errorf("--from %s: %w", c.from.Value, err)
		}
	}
	return log.Fit(time.Duration(c.duration))
}

// write writes the scenario into a file, and with --print to standard output.
func (c *command) write(fitted *traffic.Fitted, file *files.Output) error {
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
