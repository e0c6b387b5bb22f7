package schedule

import (
	"context"
	"errors"
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

// Ctrl-C ends the reading of a policy.
func TestInterruptedWhileReading(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	shell := clitest.Shell{In: &clitest.Stuck{Began: func() { cancel(errors.New("interrupt signal received")) }}}
	got := shell.RunContext(ctx, t, New, "schedule", "-")
	if want := (clitest.Result{Status: cli.Interrupted, Err: "awsretry-deliver schedule: interrupted\n"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
