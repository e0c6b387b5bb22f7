// Command awsretry-deliver sends webhooks by delivery policies, from a store that
// outlives the process. Its commands are in the folders of internal/command.
package main

import (
	"os"
	"slices"

	"example.com/awsretry/cmd/awsretry-deliver/internal/command/queue"
	"example.com/awsretry/cmd/awsretry-deliver/internal/command/schedule"
	"example.com/awsretry/cmd/internal/cli"
)

var program = cli.Program{
	Name:  "awsretry-deliver",
	Short: "Send webhooks, and retry them by a delivery policy",
	Long: `awsretry-deliver keeps webhooks in a store, delivers them by the delivery policies of Amazon SNS, and keeps
those that cannot be delivered as dead letters, to be sent again.`,
	Example: `  awsretry-deliver enqueue --db deliveries.db -d @body.json https://example.com/
  awsretry-deliver work --db deliveries.db
  awsretry-deliver list --db deliveries.db --state dead
  awsretry-deliver redrive --db deliveries.db --endpoint https://example.com
  awsretry-deliver schedule policy.json           when a delivery policy retries`,
	Commands: slices.Concat(queue.Commands, []cli.Command{schedule.New}),
}

func main() { program.Main(os.Args[1:]...) }
