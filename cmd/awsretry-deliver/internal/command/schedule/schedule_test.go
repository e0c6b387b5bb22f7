package schedule

import (
	"context"
	"errors"
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
)

const (
	policies = "../../../../../delivery/testdata"
	example  = "../../../../../docs/examples/delivery-policy.json"
)

func TestTranscripts(t *testing.T) {
	vars := map[string]string{"POLICIES": policies, "EXAMPLE": example, "FOLDER": t.TempDir()}
	clitest.Shell{}.Transcript(t, "schedule.txt", vars, New)
	clitest.Shell{}.Transcript(t, "errors.txt", vars, New)
}

// Package term tests what decides on colors.
func TestColors(t *testing.T) {
	const policy = `{"healthyRetryPolicy": {"minDelayTarget": 1, "maxDelayTarget": 800, "numRetries": 9,
		"backoffFunction": "geometric"}}`
	shell := clitest.Shell{Terminals: []string{"stdout"}, In: strings.NewReader(policy)}
	refused := shell.Run(t, New, "schedule", "--compare", "-")
	if n := strings.Count(refused.Out, "\x1b[31m"); n != 2 || !strings.Contains(refused.Out, "\x1b[31m1h0m4.5s") {
		t.Errorf("%d red cells in %q; want the total that is refused, and why", n, refused.Out)
	}
}

// Ctrl-C ends the reading of a policy.
func TestInterruptedWhileReading(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	shell := clitest.Shell{In: &clitest.Stuck{Began: func() { cancel(errors.New("interrupt signal received")) }}}
	got := shell.RunContext(ctx, t, New, "schedule", "-")
	if want := (clitest.Result{Status: cli.Interrupted, Err: "awsretry-deliver schedule: interrupted\n"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
