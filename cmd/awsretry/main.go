// Command awsretry sends requests with the AWS SDKs' retry rules and shows what
// happens to each attempt. Each of its commands is a folder of
// internal/command.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"example.com/awsretry/cmd/awsretry/internal/cli"
	"example.com/awsretry/cmd/awsretry/internal/command/config"
	"example.com/awsretry/cmd/awsretry/internal/command/deadletter"
	"example.com/awsretry/cmd/awsretry/internal/command/deliver"
	"example.com/awsretry/cmd/awsretry/internal/command/demo"
	"example.com/awsretry/cmd/awsretry/internal/command/get"
	"example.com/awsretry/cmd/awsretry/internal/command/schedule"
	"example.com/awsretry/cmd/awsretry/internal/command/simulate"
	"example.com/awsretry/cmd/awsretry/internal/command/version"
	"example.com/awsretry/cmd/awsretry/internal/iostreams"
)

// commands are in the order of the README.
var commands = []cli.Command{
	get.New, config.New, demo.New, simulate.New, schedule.New, deadletter.New, deliver.New, version.New,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	os.Exit(cli.Run(ctx, iostreams.System(), os.Args[1:], commands...))
}
