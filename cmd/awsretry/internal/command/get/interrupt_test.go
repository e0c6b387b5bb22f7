package get

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
)

// Ctrl-C ends a get wherever it waits.
func TestInterrupted(t *testing.T) {
	for _, c := range []struct {
		name  string
		shell func(interrupt func()) clitest.Shell
		args  []string
	}{
		{"in a delay", func(interrupt func()) clitest.Shell {
			return clitest.Shell{Err: clitest.NewWatch("503", interrupt)}
		}, nil},
		{"while reading the body", func(interrupt func()) clitest.Shell {
			return clitest.Shell{In: &clitest.Stuck{Began: interrupt}}
		}, []string{"-d", "@-"}},
	} {
		for _, asJSON := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, JSON %t", c.name, asJSON), func(t *testing.T) {
				s := clitest.Start(t, clitest.Reply{Status: 503, Header: map[string]string{"Retry-After": "30"}})
				ctx, cancel := context.WithCancelCause(t.Context())
				shell := c.shell(func() { cancel(errors.New("interrupt signal received")) })
				args := append([]string{"get", s.URL, fmt.Sprintf("--json=%t", asJSON)}, c.args...)
				got := shell.RunContext(ctx, t, New, args...)
				stderr := got.Err
				if watch, ok := shell.Err.(*clitest.Watch); ok {
					stderr = watch.String()
				}
				want := "✗ interrupted after 1 attempt"
				if asJSON {
					want = `{"error":"interrupted"}`
				}
				if got.Status != cli.Interrupted || got.Out != "" || !strings.Contains(stderr, want) {
					t.Errorf("%+v, want status 1 and %q:\n%s", got, want, stderr)
				}
			})
		}
	}
}

func TestInterruptedWhileWriting(t *testing.T) {
	s := clitest.Start(t, clitest.Fine)
	ctx, cancel := context.WithCancel(t.Context())
	got := clitest.Shell{Out: &clitest.Stuck{Began: cancel}}.RunContext(ctx, t, New, "get", s.URL)
	if got.Status != cli.Interrupted || !strings.Contains(got.Err, "the body could not be written: interrupted") {
		t.Errorf("%+v, want status 1 and the interruption", got)
	}
}

func TestTimeoutWhileReading(t *testing.T) {
	s := clitest.Start(t, clitest.Fine)
	shell := clitest.Shell{In: &clitest.Stuck{Began: func() {}}}
	got := shell.Run(t, New, "get", "--timeout", "20ms", "-d", "@-", s.URL)
	if got.Status != cli.Failure || !strings.Contains(got.Err, "the time of --timeout, 20ms, is over") {
		t.Errorf("%+v, want status 1 and the time-out", got)
	}
}
