package main

import (
	"path/filepath"
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/clitest"
)

func TestHelp(t *testing.T) { clitest.CheckHelp(t, program) }

func TestJSON(t *testing.T) {
	db := filepath.Join(t.TempDir(), "db")
	policy := clitest.File(t, "policy.json", `{"healthyRetryPolicy": {"numRetries": 1, "numNoDelayRetries": 1}}`)
	run := func(args ...string) string {
		return clitest.Shell{}.RunProgram(t.Context(), t, program, args...).Out
	}
	denied := clitest.Reply{Status: 403, Header: map[string]string{"X-Amzn-Errortype": "Denied"}}
	for _, reply := range []clitest.Reply{clitest.Closed, denied} {
		run("enqueue", "--allow-private", "--db", db, "--tag", "a", "--policy", policy, clitest.Start(t, reply).URL)
	}
	waiting := run("list", "--db", db, "--json")
	worked := run("work", "--allow-private", "--db", db, "--json", "--until-empty")
	clitest.CheckJSON(t, "awsretry-deliver work", worked, `{"error": ""}`)
	clitest.CheckJSON(t, "awsretry-deliver list", waiting, run("list", "--db", db, "--json"), `{"last": [{"body": ""}]}`)
	run("pause", "--db", db, "http://127.0.0.1:1")
	clitest.CheckJSON(t, "awsretry-deliver endpoints", run("endpoints", "--db", db, "--json"),
		`{"disabled": "", "due": "", "next": "", "per_second": 0}`)
	clitest.CheckJSON(t, "awsretry-deliver stats", run("stats", "--db", db, "--json"))
	clitest.CheckJSON(t, "awsretry-deliver redrive", run("redrive", "--db", db, "--json"))

	clitest.CheckJSON(t, "awsretry-deliver schedule", run("schedule", "--json", policy))
}

// Tables fit the terminal.
func TestTablesFit(t *testing.T) {
	policy := clitest.File(t, "policy.json",
		`{"healthyRetryPolicy": {"numRetries": 10, "minDelayTarget": 5, "maxDelayTarget": 260}}`)
	clitest.CheckWidths(t, program, nil, func(line string) bool {
		return !strings.HasPrefix(line, "10 retries") && !strings.Contains(line, "policy.json")
	}, "schedule", policy)
}
