// Package queue implements the commands of awsretry-deliver that keep deliveries in
// a store and make their attempts.
package queue

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/term"
	"example.com/awsretry/deliveryqueue"
)

// Commands are in the order in which they are used for a delivery.
var Commands = []cli.Command{
	newEnqueue, newWork, newList, newBody, newStats, newEndpoints, newPause, newResume, newThrottle, newRedrive, newCancel,
}

// A command has the flags of all commands. Each command uses a part of them.
type command struct {
	term.Streams
	name    string // with that of the program
	db      cli.Word
	json    bool
	policy  cli.Word
	key     cli.Word
	request cli.RequestFlags
	work    workFlags
	filter  filterFlags
	dryRun  bool
	until   cli.Period // a new deadline of what is redriven, from now on
	private bool       // private addresses are allowed
	once    bool

	endpoint  cli.Word
	perSecond cli.Number
}

// define completes cmd with its flags, those of flags in a group with the
// title, and what it runs. Every command has --db.
func define(
	s term.Streams, cmd *cobra.Command, title string, flags func(*command, *pflag.FlagSet),
	run func(*command, context.Context, []string) error,
) *cobra.Command {
	c := &command{Streams: s, name: "awsretry-deliver " + cmd.Name(), db: cli.Word{Kind: "STORE", Required: true}}
	store := cli.NewFlags()
	store.Var(&c.db, "db", "the store: an SQLite file, or the URL of a PostgreSQL database; its password is better in PGPASSWORD")
	groups := []cli.Group{{Title: "Store", Flags: store}}
	if flags != nil {
		set := cli.NewFlags()
		flags(c, set)
		groups = append(groups, cli.Group{Title: title, Flags: set})
	}
	cli.AddGroups(cmd, groups...)
	args := cmd.Args
	cmd.Args = func(cmd *cobra.Command, a []string) error {
		if !cmd.Flags().Changed("db") {
			return errors.New("--db is missing; it must be an SQLite file, or the URL of a PostgreSQL database")
		}
		return args(cmd, a)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.request.Parsed(cmd.Flags())
		return run(c, cmd.Context(), args)
	}
	return cmd
}

func (c *command) jsonFlag(set *pflag.FlagSet) {
	set.BoolVar(&c.json, "json", false, "print JSON objects, each on a line of its own")
}

func newEnqueue(s term.Streams) *cobra.Command {
	return define(s, &cobra.Command{
		Use:   "enqueue --db STORE [flags] URL",
		Short: "Store a request that is to be delivered, and print its number",
		Long: `Stores a request with all its headers, credentials among them, and prints its number when
that is durable. All its attempts have the same Idempotency-Key.`,
		Example: `  awsretry-deliver enqueue --db deliveries.db -d @body.json https://example.com/`,
		Args:    cli.Exactly("URL"),
	}, "Request", func(c *command, set *pflag.FlagSet) {
		c.policy.Kind, c.key.Kind = "FILE", "KEY"
		set.Var(&c.policy, "policy",
			"deliver by this policy, of a subscription or a topic (-: standard input; default: 3 retries, 20s apart)")
		set.Var(&c.key, "key", "the Idempotency-Key of all attempts (default that of --header, or a random one)")
		set.BoolVar(&c.once, "once", false,
			"with a key: if a delivery with that key to that URL was stored with --once, print its number and store nothing")
		tagFlag(set, &c.filter.tags, "list finds the delivery by this tag, which is not secret; repeat it for several")
		c.endpoint.Kind = "NAME"
		set.Var(&c.endpoint, "endpoint", "throttle, pause and disable it with all deliveries of this name (default its scheme and host)")
		set.BoolVar(&c.private, "allow-private", false, "accept a URL with an address that is not public; work needs the flag too")
		c.request.Register(set, "default POST")
	}, (*command).enqueue)
}

func newWork(s term.Streams) *cobra.Command {
	cmd := define(s, &cobra.Command{
		Use:   "work --db STORE [flags]",
		Short: "Make the attempts of the deliveries, until Ctrl-C",
		Long: `Makes the attempts, and prints each. Any number of processes may work a store. After
Ctrl-C, attempts in progress end on their own; a second stops at once.

A delivery to a private, loopback or other address that is not public becomes a dead letter.`,
		Example: `  awsretry-deliver work --db postgres://queue@db.example.com/hooks --until-empty`,
		Args:    cli.Exactly(),
	}, "Work", func(c *command, set *pflag.FlagSet) {
		c.work.workers = cli.Number{Least: 1, Most: 10_000}
		c.work.perEndpoint = c.work.workers
		set.Var(&c.work.workers, "workers", "make this many attempts at the same time (default 200)")
		set.Var(&c.work.perEndpoint, "per-endpoint", "of these, at most this many for one endpoint (default an equal part)")
		set.Var(&c.work.attemptTimeout, "attempt-timeout", "give up an attempt after this time (default 15s)")
		set.Var(&c.work.disableAfter, "disable-after",
			"when every attempt at an endpoint has failed for this long, try it only every 5m (default never)")
		set.BoolVar(&c.work.retryTimeouts, "retry-timeouts", false,
			"retry the statuses 408 and 425 too; Amazon SNS retries 429 and 5xx")
		set.Var(&c.work.stopTimeout, "stop-timeout",
			"when stopping, wait this long for attempts in progress (default --attempt-timeout and 5s)")
		set.BoolVar(&c.private, "allow-private", false,
			"also connect to addresses that are not public, and use the proxy of the environment")
		set.BoolVar(&c.work.untilEmpty, "until-empty", false, "stop when no delivery waits, not even for a retry")
		c.jsonFlag(set)
	}, (*command).runWork)
	cli.DescribeExit(cmd, 0, "success, also after a signal, unless attempts were cut off")
	cli.DescribeExit(cmd, cli.Failure, "an error")
	cli.DescribeExit(cmd, cli.HTTPError, "with --until-empty: there are new dead letters")
	return cmd
}

func newList(s term.Streams) *cobra.Command {
	cmd := define(s, &cobra.Command{
		Use:   "list --db STORE [flags] [ID...]",
		Short: "List deliveries",
		Long: `Lists the deliveries with the given numbers or, without numbers, all that the flags select. URLs are shown
without their queries, which may be secret.`,
		Example: `  awsretry-deliver list --db deliveries.db --state dead`,
		Args:    cobra.ArbitraryArgs,
	}, "Which, and how", func(c *command, set *pflag.FlagSet) {
		c.filter.stateFlag(set, states...)
		c.filter.register(set)
		c.filter.orderFlags(set)
		c.jsonFlag(set)
	}, (*command).list)
	cli.DescribeExit(cmd, cli.Failure, "an error, or a number that no delivery has")
	return cmd
}

func newBody(s term.Streams) *cobra.Command {
	return define(s, &cobra.Command{
		Use:     "body --db STORE ID",
		Short:   "Print the body of a delivery",
		Long:    `Prints the body of the delivery with the given number, as it is sent. It may be secret.`,
		Example: `  awsretry-deliver body --db deliveries.db 17 > body.json`,
		Args:    cli.Exactly("ID"),
	}, "", nil, (*command).body)
}

func newStats(s term.Streams) *cobra.Command {
	return define(s, &cobra.Command{
		Use:     "stats --db STORE [flags]",
		Short:   "Count the deliveries in each state",
		Long:    `Counts the deliveries in each state.`,
		Example: `  awsretry-deliver stats --db deliveries.db`,
		Args:    cli.Exactly(),
	}, "Output", (*command).jsonFlag, (*command).stats)
}

func newRedrive(s term.Streams) *cobra.Command {
	cmd := define(s, &cobra.Command{
		Use:   "redrive --db STORE [flags] [ID...]",
		Short: "Have dead letters delivered again, or other deliveries",
		Long: `Has the dead letters with the given numbers delivered again or, without numbers, all that the flags select.
Their policies begin again. Those whose deadlines have passed stay dead, unless they get another.

With --state delivered or canceled, it does so with these. With --state waiting, the next attempt is due
now, and the policy continues.`,
		Example: `  awsretry-deliver redrive --db deliveries.db --endpoint https://example.com
  awsretry-deliver redrive --db deliveries.db --state delivered 17`,
		Args: cobra.ArbitraryArgs,
	}, "Which, and how", func(c *command, set *pflag.FlagSet) {
		c.filter.stateFlag(set, "dead", "delivered", "canceled", "waiting")
		c.filter.register(set)
		set.Var(&c.until, "deadline", "give them this deadline, from now on (default their own)")
		set.BoolVar(&c.dryRun, "dry-run", false, "list what would be delivered again, and change nothing")
		c.jsonFlag(set)
	}, (*command).redrive)
	cli.DescribeExit(cmd, cli.Failure, "an error, a number of no such delivery, or a deadline that has passed")
	return cmd
}

func newCancel(s term.Streams) *cobra.Command {
	cmd := define(s, &cobra.Command{
		Use:   "cancel --db STORE [flags] [ID...]",
		Short: "Cancel deliveries",
		Long: `Cancels the deliveries with the given numbers or, without numbers, all that wait, are running or are dead
and that the flags select. It needs a number or a flag.`,
		Example: `  awsretry-deliver cancel --db deliveries.db 17
  awsretry-deliver cancel --db deliveries.db --endpoint https://example.com`,
		Args: cobra.ArbitraryArgs,
	}, "Which, and how", func(c *command, set *pflag.FlagSet) {
		c.filter.stateFlag(set, "waiting", "running", "dead")
		c.filter.register(set)
		set.BoolVar(&c.dryRun, "dry-run", false, "list what would be canceled, and change nothing")
	}, (*command).cancel)
	cli.DescribeExit(cmd, cli.Failure, "an error, or a number of no delivery that can be canceled")
	return cmd
}

func newEndpoints(s term.Streams) *cobra.Command {
	return define(s, &cobra.Command{
		Use:   "endpoints --db STORE [flags]",
		Short: "List the endpoints, with what waits for them and how they do",
		Long: `Lists the endpoints, scheme and host, that have deliveries waiting, running or dead, and those that
are failing, disabled or paused.`,
		Example: `  awsretry-deliver endpoints --db deliveries.db`,
		Args:    cli.Exactly(),
	}, "Output", (*command).jsonFlag, (*command).endpoints)
}

func newPause(s term.Streams) *cobra.Command {
	return define(s, &cobra.Command{
		Use:   "pause --db STORE URL",
		Short: "Make the deliveries to an endpoint wait",
		Long: `Makes the deliveries to the endpoint, a scheme and a host or a name, wait until resume, in all processes that work the
store. Attempts in progress end as usual.`,
		Example: `  awsretry-deliver pause --db deliveries.db https://example.com`,
		Args:    cli.Exactly("URL"),
	}, "", nil, setEndpoint((*deliveryqueue.Queue).Pause, "paused"))
}

func newResume(s term.Streams) *cobra.Command {
	return define(s, &cobra.Command{
		Use:   "resume --db STORE URL",
		Short: "Go on with the deliveries to an endpoint that is paused or disabled",
		Long: `Goes on with the deliveries to the endpoint, a scheme and a host or a name, that was paused, or that was disabled because
all attempts failed. It also ends the wait for a Retry-After.`,
		Example: `  awsretry-deliver resume --db deliveries.db https://example.com`,
		Args:    cli.Exactly("URL"),
	}, "", nil, setEndpoint((*deliveryqueue.Queue).Resume, "resumed"))
}

func newThrottle(s term.Streams) *cobra.Command {
	return define(s, &cobra.Command{
		Use:   "throttle --db STORE [flags] URL",
		Short: "Limit the attempts at an endpoint",
		Long: `Limits the attempts at the endpoint, a scheme and a host or a name, in all processes that work the store, also of
deliveries that wait. The throttles of policies no longer apply to it, until throttle without --per-second.`,
		Example: `  awsretry-deliver throttle --db deliveries.db --per-second 5 https://hooks.test`,
		Args:    cli.Exactly("URL"),
	}, "Rate", func(c *command, set *pflag.FlagSet) {
		c.perSecond = cli.Number{Least: 1, Most: 1_000_000}
		set.Var(&c.perSecond, "per-second", "this many attempts a second (default no limit)")
	}, (*command).throttle)
}
