// Command demo is awsretry with the command demo alone. It compiles in a
// fraction of the time, because the other commands bring a plotter, databases
// and a queue. make demo runs it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"example.com/awsretry/cmd/awsretry/internal/cli"
	"example.com/awsretry/cmd/awsretry/internal/command/demo"
	"example.com/awsretry/cmd/awsretry/internal/iostreams"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	os.Exit(cli.Run(ctx, iostreams.System(), append([]string{"demo"}, os.Args[1:]...), demo.New))
}
