package get

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
)

// Ctrl-C and --timeout end a get wherever it waits.
func TestInterrupted(t *testing.T) {
	watch := func(interrupt func()) clitest.Shell {
		return clitest.Shell{Err: clitest.NewWatch("transient", interrupt)}
	}
	stuckIn := func(interrupt func()) clitest.Shell { return clitest.Shell{In: &clitest.Stuck{Began: interrupt}} }
	stuckOut := func(interrupt func()) clitest.Shell { return clitest.Shell{Out: &clitest.Stuck{Began: interrupt}} }
	for _, c := range []struct {
		name  string
		shell func(interrupt func()) clitest.Shell
		args  []string
		want  string
	}{
		{"in a delay", watch, nil, "✗ interrupted after 1 attempt"},
		{"in a delay, JSON", watch, []string{"--json"}, `{"error":"interrupted"}`},
		{"reading the body", stuckIn, []string{"-d", "@-"}, "✗ interrupted after 1 attempt"},
		{"reading the body, JSON", stuckIn, []string{"-d", "@-", "--json"}, `{"error":"interrupted"}`},
		{"writing the body", stuckOut, nil, "the body could not be written: interrupted"},
		{"reading the body, time-out", stuckIn, []string{"-d", "@-", "--timeout", "20ms"},
			"the time of --timeout, 20ms, is over"},
	} {
		t.Run(c.name, func(t *testing.T) {
			reply := clitest.Reply{Status: 503, Header: map[string]string{"Retry-After": "30"}, Body: "x"}
			status := cli.Interrupted
			ctx, cancel := context.WithCancelCause(t.Context())
			interrupt := func() { cancel(errors.New("interrupt signal received")) }
			if slices.Contains(c.args, "--timeout") {
				status, interrupt = cli.Failure, func() {}
			}
			if strings.HasPrefix(c.name, "writing") {
				reply = clitest.Fine
			}
			shell := c.shell(interrupt)
			got := shell.RunContext(ctx, t, New, append([]string{"get", clitest.Start(t, reply).URL}, c.args...)...)
			if watch, ok := shell.Err.(*clitest.Watch); ok {
				got.Err = watch.String()
			}
			if got.Status != status || got.Out != "" || !strings.Contains(got.Err, c.want) {
				t.Errorf("%+v, want status %d and %q", got, status, c.want)
			}
		})
	}
}
