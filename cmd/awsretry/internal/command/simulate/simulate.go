package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"example.com/awsretry/cmd/awsretry/simulate"
)

// simulateFlags are the flags of simulate.
type simulateFlags struct {
	settings list
	clients  number
	rate     rate
	duration period
	seed     seed
	picture  word
	asJSON   bool
	print    bool
}

func newSimulate(p process) *cobra.Command {
	f := simulateFlags{
		clients: number{least: 1, most: simulate.MaxClients},
		rate:    rate{most: simulate.MaxRate},
		picture: word{kind: "FILE"},
	}
	cmd := &cobra.Command{
		Use:   "simulate SCENARIO|FILE",
		Short: "See what settings do to a service and its callers before they are deployed",
		Long: `Lets a fleet of clients call a modelled service through the real library, in virtual time, once for each setting, and
compares what they lived through, in a table and in a picture. It sends nothing anywhere. The same seed gives the
same result.

Scenarios are ready by name: ` + strings.Join(simulate.Names(), ", ") + `. --print prints one as a file, which
explains every field and is a beginning for a file of your own, in YAML or JSON.

Settings are none, naive (a loop with a fixed pause), standard, adaptive, revision2026, legacy, delivery=FILE (an
Amazon SNS delivery policy; also aws-managed and customer-managed) and profile=NAME (of ~/.aws/config).`,
		Example: `  awsretry simulate outage --picture outage.svg
  awsretry simulate throttle --settings standard,adaptive,profile=production
  awsretry simulate outage --clients 10000 --duration 10m
  awsretry simulate --print brownout > mine.yaml && awsretry simulate mine.yaml`,
		Args: exactly("SCENARIO|FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.print {
				text, err := simulate.Source(args[0])
				if err != nil {
					return plain(err)
				}
				_, err = p.stdout.Write(text)
				return failed(err)
			}
			s, err := f.scenario(args[0], cmd.Flags().Changed)
			if err != nil {
				return plain(err)
			}
			if slices.ContainsFunc(s.Settings, func(s simulate.Setting) bool { return s.Use == simulate.UseProfile }) {
				for _, warning := range missingFiles(p.getenv) {
					p.warn("simulate", warning)
				}
			}
			return runSimulate(cmd.Context(), p, s, f)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Var(&f.settings, "settings", "settings to compare, in place of the scenario's")
	flags.Var(&f.clients, "clients", "number of clients, in place of the scenario's; together they call as often as those would")
	flags.Var(&f.rate, "rate", "calls a second of all clients together, in place of the scenario's")
	flags.Var(&f.duration, "duration", "virtual time that is simulated, in place of the scenario's")
	flags.Var(&f.seed, "seed", "what every random number comes from, in place of the scenario's")
	flags.Var(&f.picture, "picture", "draw a picture into this file, SVG or PNG by its ending")
	flags.BoolVar(&f.asJSON, "json", false, "print a JSON object with every figure and every second in place of the table")
	flags.BoolVar(&f.print, "print", false, "print the ready scenario as a file, and simulate nothing")
	return cmd
}

// scenario is what the argument names, with what the flags change in it.
func (f *simulateFlags) scenario(name string, given func(flag string) bool) (simulate.Scenario, error) {
	read := simulate.Read
	if slices.Contains(simulate.Names(), name) {
		read = simulate.Ready
	}
	s, err := read(name)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w; it must be a file, or one of the ready scenarios %s", err, strings.Join(simulate.Names(), ", "))
	}
	if err != nil {
		return s, err
	}
	if given("settings") {
		s.Settings = nil
		for _, text := range f.settings {
			setting, err := simulate.ParseSetting(text)
			if err != nil {
				return s, fmt.Errorf("--settings: %w", err)
			}
			s.Settings = append(s.Settings, setting)
		}
	}
	if given("clients") {
		more := float64(f.clients.value) / float64(s.Clients.Count)
		s.Clients.Count = f.clients.value
		s.Clients.Think = simulate.Duration(min(float64(s.Clients.Think)*more, float64(time.Hour)))
		for i := range s.Events {
			if calls := &s.Events[i].Calls; *calls > 0 {
				*calls = max(int(min(float64(*calls)/more, math.MaxInt32)), 1)
			}
		}
	}
	if given("rate") {
		s.Clients.Rate = f.rate.value
	}
	if given("duration") {
		s.Duration = simulate.Duration(f.duration)
	}
	if given("seed") {
		s.Seed = uint64(f.seed)
	}
	if _, err := f.pictureFormat(); err != nil {
		return s, err
	}
	err = s.Validate()
	if changes := f.changes(given); err != nil && changes != "" { // the scenario was valid before
		err = fmt.Errorf("with %s: %w", changes, err)
	}
	return s, err
}

// changes are the flags that change the scenario.
func (f *simulateFlags) changes(given func(flag string) bool) string {
	var changes []string
	for _, flag := range []struct {
		name  string
		value any
	}{
		{"settings", f.settings.String()}, {"clients", f.clients.value}, {"rate", f.rate.value}, {"duration", time.Duration(f.duration)},
	} {
		if given(flag.name) {
			changes = append(changes, fmt.Sprintf("--%s %v", flag.name, flag.value))
		}
	}
	return strings.Join(changes, " ")
}

// pictureFormat is "" where no picture is asked for.
func (f *simulateFlags) pictureFormat() (string, error) {
	if f.picture.value == "" {
		return "", nil
	}
	switch ending := strings.ToLower(filepath.Ext(f.picture.value)); ending {
	case ".svg":
		return simulate.SVG, nil
	case ".png":
		return simulate.PNG, nil
	}
	return "", fmt.Errorf("--picture is %q; it must end with .svg or .png", f.picture.value)
}

func runSimulate(ctx context.Context, p process, s simulate.Scenario, f simulateFlags) error {
	picture := &output{Writer: io.Discard}
	if f.picture.value != "" {
		var err error
		if picture, err = openOutput(ctx, f.picture.value, p.stdout); err != nil { // before the time is spent
			return fmt.Errorf("--picture: %w", err)
		}
	}
	kept := false
	defer func() {
		if !kept {
			picture.abandon()
		}
	}()
	defer collectLess()()
	progress, done := progressOn(p)
	result, err := simulate.Run(ctx, s, simulate.Options{Getenv: p.getenv, Progress: progress})
	done()
	switch {
	case ctx.Err() != nil:
		return failed(errInterrupted)
	case err != nil:
		return failed(plain(err))
	}
	if format, _ := f.pictureFormat(); format != "" {
		if err := result.Draw(picture, format); err != nil {
			return failed(err)
		}
	}
	kept = true
	if err := picture.keep(); err != nil {
		return failed(err)
	}
	if f.asJSON {
		return failed(newJSON(p.stdout).Encode(result))
	}
	return failed(result.WriteTable(p.stdout, p.tableWidth(p.stdout)))
}

// progressOn draws a bar on standard error, where that is a terminal.
func progressOn(p process) (progress func(float64), done func()) {
	if !p.isTerminal(p.stderr) {
		return nil, func() {}
	}
	const steps = 1000
	bar := progressbar.NewOptions(steps,
		progressbar.OptionSetWriter(p.stderr),
		progressbar.OptionSetDescription("simulating"),
		progressbar.OptionSetWidth(40),
		progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionThrottle(50*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
	bar.RenderBlank()
	return func(part float64) { bar.Set(int(part * steps)) }, func() { bar.Clear() }
}

// collectLess lets the garbage collector come by a third as often, and more often only where memory grows beyond a gibibyte: many small
// stacks are expensive to look through. Where the user has set either, nothing is changed.
func collectLess() (undo func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	const percent, limit = 300, 1 << 30
	percentBefore, limitBefore := debug.SetGCPercent(percent), debug.SetMemoryLimit(limit)
	return func() {
		debug.SetGCPercent(percentBefore)
		debug.SetMemoryLimit(limitBefore)
	}
}

// plain is err without the package's name, which the command's stands in place of.
func plain(err error) error {
	return &simulateError{err}
}

type simulateError struct{ error }

func (e *simulateError) Error() string {
	return strings.NewReplacer("simulate: ", "", "awsretry: ", "", "Source.Profile is", "profile is").Replace(e.error.Error())
}

func (e *simulateError) Unwrap() error { return e.error }
