// Command awsretry sends requests with the AWS SDKs' retry rules and shows what
// happens to each attempt. Each of its commands is a folder of
// internal/command.
package main

import (
	"os"

	"example.com/awsretry/cmd/awsretry/internal/command/config"
	"example.com/awsretry/cmd/awsretry/internal/command/demo"
	"example.com/awsretry/cmd/awsretry/internal/command/get"
	"example.com/awsretry/cmd/awsretry/internal/command/simulate"
	"example.com/awsretry/cmd/internal/cli"
)

var program = cli.Program{
	Name:  "awsretry",
	Short: "Send requests with the AWS SDKs' retry rules, and see every attempt",
	Long: `awsretry sends requests to services that fail and throttle, retries them by the rules of the AWS SDKs,
and shows what happened to each attempt and why it was, or was not, retried.`,
	Example: `  awsretry demo                                 see it work
  awsretry get https://api.example.com/orders   send a request, with retries
  awsretry config                               the settings in force
  awsretry simulate outage                      what settings do to a service`,
	Commands: []cli.Command{get.New, config.New, demo.New, simulate.New},
}

func main() { program.Main(os.Args[1:]...) }
