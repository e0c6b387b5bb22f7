package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/clitest"
)

func TestHelp(t *testing.T) { clitest.CheckHelp(t, program) }

func TestJSON(t *testing.T) {
	dir := t.TempDir()
	db, none := filepath.Join(dir, "db"), filepath.Join(dir, "none")
	policy := clitest.File(t, "policy.json", `{"healthyRetryPolicy": {"numRetries": 1, "numNoDelayRetries": 1}}`)
	run := func(args ...string) string {
		return clitest.Shell{}.RunProgram(t.Context(), t, program, args...).Out
	}
	denied := clitest.Reply{Status: 403, Header: map[string]string{"X-Amzn-Errortype": "Denied"}}
	for _, reply := range []clitest.Reply{clitest.Closed, denied} {
		run("enqueue", "--allow-private", "--db", db, "--policy", policy, clitest.Start(t, reply).URL)
	}
	waiting := run("list", "--db", db, "--json")
	worked := run("work", "--allow-private", "--db", db, "--json", "--until-empty")
	clitest.CheckJSON(t, "awsretry-deliver work", worked, `{"error": ""}`)
	clitest.CheckJSON(t, "awsretry-deliver list", waiting, run("list", "--db", db, "--json"), `{"last": [{"body": ""}]}`)
	run("pause", "--db", db, "http://127.0.0.1:1")
	clitest.CheckJSON(t, "awsretry-deliver endpoints", run("endpoints", "--db", db, "--json"),
		`{"disabled": "", "next": "", "oldest": ""}`)
	clitest.CheckJSON(t, "awsretry-deliver stats", run("stats", "--db", db, "--json"))
	clitest.CheckJSON(t, "awsretry-deliver redrive", run("redrive", "--db", db, "--json"))

	letter := filepath.Join(dir, "letters", "20060102T150405.000000000Z-0123456789abcdef.letter")
	if err := errors.Join(os.Mkdir(filepath.Dir(letter), 0o700), os.WriteFile(letter, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	golden := func(name string) string {
		return string(clitest.Must[[]byte](t)(os.ReadFile("internal/command/letters/testdata/" + name)))
	}
	clitest.CheckJSON(t, "awsretry-deliver letters list", golden("list.json"),
		run("letters", "list", "--json", filepath.Dir(letter)))
	clitest.CheckJSON(t, "awsretry-deliver letters redrive", golden("redrive.json"),
		run("letters", "redrive", "--json", "--dry-run", filepath.Dir(letter)),
		run("letters", "redrive", "--json", none), `{"unsent": 1, "too_many": true}`)
	clitest.CheckJSON(t, "awsretry-deliver schedule", run("schedule", "--json", policy))
}

// Tables fit the terminal.
func TestTablesFit(t *testing.T) {
	policy := clitest.File(t, "policy.json",
		`{"healthyRetryPolicy": {"numRetries": 10, "minDelayTarget": 5, "maxDelayTarget": 260}}`)
	clitest.CheckWidths(t, program, nil, func(line string) bool {
		return !strings.HasPrefix(line, "10 retries") && !strings.Contains(line, "policy.json")
	}, "schedule", "--compare", policy)
}
