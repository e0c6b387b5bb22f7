// Package deliver is the command awsretry deliver, which keeps deliveries in a
// store and makes their attempts.
package deliver

import (
	"context"

	"github.com/spf13/cobra"

	"example.com/awsretry/cmd/awsretry/internal/flags"
	"example.com/awsretry/cmd/awsretry/internal/iostreams"
	"example.com/awsretry/cmd/awsretry/internal/request"
)

// New returns the command.
func New(s iostreams.Streams) *cobra.Command {
	c := command{
		Streams: s,
		db:      flags.Word{Kind: "STORE", Required: true},
		policy:  flags.Word{Kind: "FILE"},
		key:     flags.Word{Kind: "KEY"},
		work:    workFlags{workers: flags.Number{Least: 1, Most: 10_000}},
		filter: filterFlags{
			state:    flags.Word{Kind: "STATE"},
			endpoint: flags.Word{Kind: "URL"},
			limit:    flags.Number{Least: 1},
		},
	}
	cmd := &cobra.Command{
		Use:   "deliver --db STORE [flags] [URL | ID...]",
		Short: "Keep deliveries in a store, and make their attempts until they are delivered",
		Long: `Keeps deliveries in a store, so that they outlive the process, and makes their attempts by a delivery policy.
The store is an SQLite file, which the first delivery makes, or a PostgreSQL database (postgres://…). It has the
requests with all their headers, credentials among them; an SQLite file is made readable by its owner only. A password
of PostgreSQL is better in PGPASSWORD or ~/.pgpass than in a command line, which all users of the machine see.

Without one of the flags below, deliver stores a request and prints its number when that is durable. A body has 256 KiB
at most. All attempts of a delivery have the same Idempotency-Key: an endpoint that knows it sees a delivery once, any
other at least once.

--work makes the attempts, and prints each. Any number of processes may work a store. After Ctrl-C, SIGTERM or the end
of the terminal, it takes no more deliveries, and the attempts in progress end on their own, within --stop-timeout.
Those that do not are cut off within 5 more seconds, and are made again by the next --work. A second Ctrl-C stops it
at once, and what was in progress is made again, after --attempt-timeout and 49 seconds at most.

--list, --redrive and --cancel are for the deliveries with the given numbers. Without numbers, --list shows all
deliveries, and --redrive has all dead letters delivered again, from the beginning of their policies. URLs are shown
without their queries, which may be secret.

Exit status: 0 success, also of --work after a signal, if all attempts ended on their own; 22 with --until-empty, if
there are new dead letters; 1 an error, an interruption, attempts that were cut off, or a number of no such delivery; 2
wrong usage, and nothing was stored or sent.`,
		Example: `  awsretry deliver --db deliveries.db -d @order.json https://hooks.example.com/orders
  awsretry deliver --db deliveries.db --policy policy.json --key order-17 -H 'X-Token: 1' -d hello https://example.com/
  awsretry deliver --db deliveries.db --work --workers 20
  awsretry deliver --db postgres://queue@db.example.com/deliveries --work --until-empty
  awsretry deliver --db deliveries.db --list --state dead
  awsretry deliver --db deliveries.db --redrive --endpoint https://hooks.example.com --dry-run
  awsretry deliver --db deliveries.db --cancel 17`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.request.Parsed(cmd.Flags())
			m, err := modeOf(cmd.Flags())
			if err != nil {
				return err
			}
			return m.run(&c, cmd.Context(), args)
		},
	}
	what, enqueue, work, query := flags.NewSet(), flags.NewSet(), flags.NewSet(), flags.NewSet()
	what.Var(&c.db, "db", "the store: an SQLite file, or the URL of a PostgreSQL database")
	for _, m := range modes[1:] {
		what.Bool(m.name, false, m.help)
	}
	what.BoolVar(&c.json, "json", false, "print JSON objects, each on a line of its own")
	enqueue.Var(&c.policy, "policy",
		"deliver by this policy, of a subscription or a topic (-: standard input; default: 3 retries, 20s apart)")
	enqueue.Var(&c.key, "key", "the Idempotency-Key of all attempts (default that of --header, or a random one)")
	c.request.Register(enqueue, "default POST")
	work.Var(&c.work.workers, "workers", "make this many attempts at the same time (default 10)")
	work.Var(&c.work.attemptTimeout, "attempt-timeout", "give up an attempt after this time (default 15s)")
	work.Var(&c.work.stopTimeout, "stop-timeout",
		"when stopping, wait this long for attempts in progress (default --attempt-timeout and 5s)")
	work.BoolVar(&c.work.untilEmpty, "until-empty", false, "stop when no delivery waits, not even for a retry")
	query.Var(&c.filter.state, "state", "with --list, those in this state: waiting, running, delivered, dead or canceled")
	query.Var(&c.filter.endpoint, "endpoint", "those to this scheme and host, as https://example.com")
	query.Var(&c.filter.olderThan, "older-than", "those that were stored this long ago or longer")
	query.Var(&c.filter.limit, "limit", "this many at most, the oldest first (default all)")
	query.BoolVar(&c.dryRun, "dry-run", false, "with --redrive, list what would be delivered again, and change nothing")
	flags.AddGroups(cmd,
		flags.Group{Title: "Store", Flags: what},
		flags.Group{Title: "To store a request", Flags: enqueue},
		flags.Group{Title: "With --work", Flags: work},
		flags.Group{Title: "With --list and --redrive", Flags: query})
	return cmd
}

type command struct {
	iostreams.Streams
	db      flags.Word
	json    bool
	policy  flags.Word
	key     flags.Word
	request request.Flags
	work    workFlags
	filter  filterFlags
	dryRun  bool
}

// A runFunc runs a mode with the arguments of the command line.
type runFunc func(c *command, ctx context.Context, args []string) error
