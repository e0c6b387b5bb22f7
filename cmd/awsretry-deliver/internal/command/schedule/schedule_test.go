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
	policies = "../../../../../delivery/testdata/"
	example  = "../../../../../docs/examples/delivery-policy.json"
)

func TestGolden(t *testing.T) {
	for _, c := range []struct {
		golden string
		stdin  string
		args   []string
	}{
		{"own.txt", "", []string{policies + "sns-example.json"}},
		{"own.json", "", []string{"--json", policies + "sns-example.json"}},
		{"all.txt", "", []string{"--all", policies + "sns-example.json"}},
		{"compare.txt", "", []string{"--compare", example}},
		{"compare.json", "", []string{"--compare", "--json", policies + "one-backoff-retry.json"}},
		{"topic.txt", "", []string{policies + "topic.json"}},
		{"defaults.txt", `{}`, []string{"-"}},
		{"no-retries.txt", `{"http": {"defaultHealthyRetryPolicy": {"numRetries": 0}}}`, []string{"--topic", "-"}},
		{"no-retries.json", `{"healthyRetryPolicy": {"numRetries": 0}}`, []string{"--json", "-"}},
		{"raw.txt",
			`{"requestPolicy": {"headerContentType": "text/csv"}, "throttlePolicy": {"maxReceivesPerSecond": 1}}`,
			[]string{"-"}},
		{"refused.txt",
			`{"healthyRetryPolicy": {"minDelayTarget": 1, "maxDelayTarget": 800, "numRetries": 9,` +
				` "backoffFunction": "exponential"}}`,
			[]string{"--compare", "-"}},
		{"aws-managed.txt", "", []string{"--aws-managed"}},
		{"customer-managed.txt", "", []string{"--customer-managed", "--compare"}},
	} {
		t.Run(c.golden, func(t *testing.T) {
			got := clitest.Shell{In: strings.NewReader(c.stdin)}.Run(t, New, append([]string{"schedule"}, c.args...)...)
			if got.Status != 0 || got.Err != "" {
				t.Fatalf("status %d, standard error:\n%s", got.Status, got.Err)
			}
			clitest.Golden(t, c.golden, strings.NewReplacer(policies, "", example, "example.json").Replace(got.Out))
		})
	}
}

func TestErrors(t *testing.T) {
	clitest.Shell{}.Transcript(t, "errors.txt", map[string]string{"FOLDER": t.TempDir()}, New)
}

// Package term tests what decides on colors.
func TestColors(t *testing.T) {
	const policy = `{"healthyRetryPolicy": {"minDelayTarget": 1, "maxDelayTarget": 800, "numRetries": 9,
		"backoffFunction": "geometric"}}`
	shell := clitest.Shell{Terminals: []string{"stdout"}, In: strings.NewReader(policy)}
	refused := shell.Run(t, New, "schedule", "--compare", "-")
	if n := strings.Count(refused.Out, "\x1b[31m"); n != 2 || !strings.Contains(refused.Out, "\x1b[31m1h0m5s") {
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
