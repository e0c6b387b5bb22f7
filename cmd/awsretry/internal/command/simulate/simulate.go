// Package simulate implements the command awsretry simulate. The simulation itself
// is in package example.com/awsretry/simulate.
package simulate

import (
	"context"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"example.com/awsretry/cmd/awsretry/internal/settings"
	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/term"
	engine "example.com/awsretry/simulate"
	"example.com/awsretry/simulate/scenario"
)

// New returns the command.
func New(s term.Streams) *cobra.Command {
	c := command{
		Streams: s,
		clients: cli.Number{Least: 1, Most: scenario.MaxClients},
		picture: cli.Word{Kind: "FILE"},
		report:  cli.Word{Kind: "FILE"},
	}
	cmd := &cobra.Command{
		Use:   "simulate SCENARIO|FILE",
		Short: "See what settings do to a service and its callers before they are deployed",
		Long: `Lets a fleet of clients call a modeled service through the real library, in
virtual time, once for each setting, and compares the outcomes in a table, in a
picture and in a report to look into. It sends nothing anywhere. The same seed
gives the same result.

Scenarios are ready by name: ` + strings.Join(scenario.Names(), ", ") + `.
--print prints one as a file, which explains every field and is a start for a
file of your own, in YAML or JSON.

Settings are none, naive (a loop with a fixed delay), standard, adaptive,
adaptive=scaled (scaled pacing in place of the AWS SDKs'), fleet and
fleet=scaled (adaptive, shared by all clients through a store), revision2026,
legacy, delivery=FILE (an Amazon SNS delivery policy; also aws-managed and
customer-managed) and profile=NAME (of ~/.aws/config). After standard, adaptive,
fleet and revision2026, +limits (in adaptive mode, reads what the service
announces), +share (a Quota.Share of 0.2), +resume, +share_retry_after,
+no_spread, +long_poll and +quota=NAME (documents, sdk, 2026 or none) switch
these on, and +attempt_timeout=TIME, as in +attempt_timeout=2s, limits an attempt.`,
		Example: `  awsretry simulate outage --picture outage.svg --report outage.html
  awsretry simulate throttle --settings adaptive,adaptive=scaled,profile=prod
  awsretry simulate outage --clients 10000 --duration 10m
  awsretry simulate --print brownout > mine.yaml
  awsretry simulate mine.yaml`,
		ValidArgsFunction: cobra.FixedCompletions(scenario.Names(), cobra.ShellCompDirectiveDefault),
		Args:              cli.Exactly("SCENARIO|FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.print {
				return c.printScenario(args[0])
			}
			s, err := c.scenario(args[0], cmd.Flags().Changed)
			if err != nil {
				return err
			}
			return c.run(cmd.Context(), s, typed(cmd, args))
		},
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.Var(&c.settings, "settings", "settings to compare, in place of the scenario's")
	set.Var(&c.clients, "clients",
		"number of clients, in place of the scenario's; the calls of all together stay the same")
	set.Var(&c.duration, "duration", "virtual time to simulate, in place of the scenario's")
	set.Uint64Var(&c.seed, "seed", 0, "`NUMBER` that every random number is made from, in place of the scenario's")
	set.Var(&c.picture, "picture", "draw a picture into this file, SVG or PNG by its ending")
	set.Var(&c.report, "report",
		"write a report into this HTML file, with curves to zoom into; a browser shows it without a network")
	set.Var(&c.changesOf, "set", "change a line of the scenario's file, as in service.capacity=200 or events[0].from=30s; "+
		"may be given again")
	set.BoolVar(&c.json, "json", false, "print a JSON object with every figure and every second in place of the table")
	set.BoolVar(&c.print, "print", false, "print a ready scenario as a file, and simulate nothing")
	return cmd
}

type command struct {
	term.Streams
	settings list
	clients  cli.Number
	duration cli.Period
	seed     uint64
	picture  cli.Word
	report   cli.Word

	changesOf assignments
	json      bool
	print     bool
}

func (c *command) printScenario(name string) error {
	text, err := scenario.Source(name)
	if err != nil {
		return err
	}
	_, err = c.Out.Write(text)
	return cli.Failed(err)
}

// run simulates and writes the requested output. typed is the command as it was
// typed.
func (c *command) run(ctx context.Context, of scenario.Scenario, typed string) error {
	if slices.ContainsFunc(of.Settings, func(s scenario.Setting) bool { return s.Use == scenario.UseProfile }) {
		for _, warning := range settings.MissingFiles(c.Getenv) {
			c.Warn("awsretry simulate", warning, false)
		}
	}
	views := c.views(typed)
	if err := views.open(ctx, c.Out); err != nil { // before the simulation takes its time
		return cli.Failed(err)
	}
	result, err := c.simulate(ctx, of)
	if err == nil {
		err = views.write(result)
	}
	if err != nil {
		views.abandon()
		return cli.Failed(err)
	}
	if err := views.keep(); err != nil {
		return cli.Failed(err)
	}
	return cli.Failed(c.show(result))
}

// show prints the result.
func (c *command) show(result *engine.Result) error {
	if c.json {
		return term.NewEncoder(c.Out).Encode(result)
	}
	return result.WriteTable(c.Out, c.TableWidth(c.Out))
}

func (c *command) simulate(ctx context.Context, of scenario.Scenario) (*engine.Result, error) {
	if os.Getenv("GOGC") == "" { // it is expensive to scan many small stacks
		defer debug.SetGCPercent(debug.SetGCPercent(200))
	}
	progress, done := c.progress()
	defer done()
	result, err := engine.Run(ctx, of, engine.Options{Getenv: c.Getenv, Progress: progress})
	if ctx.Err() != nil {
		return nil, cli.ErrInterrupted
	}
	return result, err
}
