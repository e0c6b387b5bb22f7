package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
)

// run runs a command line of all commands.
func run(t *testing.T, shell clitest.Shell, args ...string) clitest.Result {
	t.Helper()
	return shell.RunProgram(t.Context(), t, program, args...)
}

func TestHelp(t *testing.T) {
	clitest.CheckHelp(t, program)
	got := run(t, clitest.Shell{}, "--version")
	got.Check(t, 0, "awsretry "+cli.Version()+"\n")
}

func TestUnknownCommand(t *testing.T) {
	clitest.Shell{}.Transcript(t, "unknown.txt", nil, program.Commands...)
}

func TestCompletion(t *testing.T) {
	clitest.Shell{}.Transcript(t, "completion.txt", nil, program.Commands...)
}

func TestFullDisk(t *testing.T) {
	for _, args := range []string{
		"config", "config --json", "demo", "get " + clitest.Start(t, clitest.Fine).URL,
	} {
		got := run(t, clitest.Shell{Out: clitest.FullDisk{}}, strings.Fields(args)...)
		got.Check(t, cli.Failure, "", "no space left")
	}
}

func TestJSON(t *testing.T) {
	replies := []clitest.Reply{
		clitest.Closed, clitest.Throttling,
		{Status: 503, Header: map[string]string{"Retry-After": "1"}},
		{Status: 302, Header: map[string]string{"Location": "/there?key=secret"}},
	}
	quick := "get --json --base-delay 1ms --max-delay 1ms --mode adaptive --max-attempts 5 "
	got := run(t, clitest.Shell{}, strings.Fields(quick+clitest.Start(t, replies...).URL)...)
	if got.Status != 0 || strings.Contains(got.Err, "secret") {
		t.Errorf("%+v, want status 0 and no query", got)
	}
	resumed := clitest.Must[[]byte](t)(os.ReadFile("internal/command/get/testdata/resume.jsonl"))
	missing := clitest.Shell{Env: map[string]string{"AWS_CONFIG_FILE": filepath.Join(t.TempDir(), "none")}}
	failed := run(t, missing, "get", "--json", "--resume", "--timeout", "1ns", "http://127.0.0.1:1/")
	clitest.CheckJSON(t, "awsretry get", got.Err, string(resumed), failed.Err)
	clitest.CheckJSON(t, "awsretry config", run(t, clitest.Shell{}, "config", "--json").Out)
	simulated := run(t, clitest.Shell{}, strings.Fields(
		"simulate outage --set clients.rate=20 --clients 4 --duration 1m40s --settings none,adaptive --json")...)
	clitest.CheckJSON(t, "awsretry simulate", simulated.Out)
}

// Tables fit the terminal. If the output is not a terminal, nothing is cut.
func TestTablesFit(t *testing.T) {
	env := map[string]string{"AWS_RETRY_MODE": "adaptive", "AWS_MAX_ATTEMPTS": "4"}
	clitest.CheckWidths(t, program, env, func(string) bool { return true }, "config")
	clitest.CheckWidths(t, program, env, func(line string) bool {
		return strings.HasPrefix(line, "  ") && !strings.Contains(line, "used up (see")
	}, "get", "--base-delay", "1ms", clitest.Start(t, clitest.Unavailable).URL)
	clitest.CheckWidths(t, program, env, func(line string) bool {
		return !strings.Contains(line, ":") && !strings.Contains(line, "seed")
	}, strings.Fields("simulate outage --set clients.rate=20 --clients 4 --duration 1m40s --settings none,standard")...)

	unlimited, narrow := run(t, clitest.Shell{}, "config"), run(t, clitest.Shell{Width: 30}, "config")
	if narrow != unlimited {
		t.Errorf("the output is cut:\n%s", narrow.Out)
	}
}
