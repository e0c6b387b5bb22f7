// Command demo is awsretry with only the command demo. It compiles in a fraction of
// the time, because it has neither a plotter nor the simulator. make demo runs it.
package main

import (
	"os"

	"example.com/awsretry/cmd/awsretry/internal/command/demo"
	"example.com/awsretry/cmd/internal/cli"
)

func main() {
	program := cli.Program{Name: "awsretry", Commands: []cli.Command{demo.New}}
	program.Main(append([]string{"demo"}, os.Args[1:]...)...)
}
