package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.com/awsretry/cmd/awsretry-deliver/internal/policyfile"
	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
	"example.com/awsretry/delivery"
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

// A printedPlan is the output of --json.
type printedPlan struct {
	Retries, Attempts int
	Schedules         []struct {
		Function string  `json:"backoff_function"`
		Total    float64 `json:"total_seconds"`
		Pauses   []struct {
			First int     `json:"first_retry"`
			Last  int     `json:"last_retry"`
			Pause float64 `json:"pause_seconds"`
			Total float64 `json:"total_seconds"`
		}
	}
}

func planOf(t *testing.T, args ...string) printedPlan {
	t.Helper()
	got := clitest.Shell{}.Run(t, New, append([]string{"schedule", "--json"}, args...)...)
	if got.Status != 0 {
		t.Fatal(got.Err)
	}
	var plan printedPlan
	if err := json.Unmarshal([]byte(got.Out), &plan); err != nil {
		t.Fatal(err)
	}
	return plan
}

// The pauses are those of the golden files of package delivery, which another
// program computed.
func TestMatchesDelivery(t *testing.T) {
	files, err := filepath.Glob(policies + "*.golden")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, file := range files {
		policy := strings.TrimSuffix(file, ".golden") + ".json"
		if _, err := os.Stat(policy); err != nil {
			continue // a fixed policy's
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		printed := "# retry\tpause (s)\ttotal (s)\n"
		for _, p := range planOf(t, "--all", policy).Schedules[0].Pauses {
			printed += fmt.Sprintf("%d\t%.9f\t%.9f\n", p.First, p.Pause, p.Total)
		}
		if diff := cmp.Diff(string(want), printed); diff != "" {
			t.Errorf("%s to printed:\n%s", file, diff)
		}
		compared++
	}
	if compared < 8 {
		t.Errorf("only %d policies were compared", compared)
	}
}

func TestLongRun(t *testing.T) {
	const retries, total = 100_015, 2_000_049.665362035
	folded := planOf(t, "--aws-managed").Schedules[0]
	if n := len(folded.Pauses); n != 16 || math.Abs(folded.Total-total) > 1e-6 ||
		folded.Pauses[n-1].Total != folded.Total {
		t.Errorf("%d lines up to %.9f, want 16 up to %.9f", n, folded.Total, total)
	}
	p := newPlan(policyfile.File{Policy: delivery.Effective(nil, delivery.AWSManaged())}, false)
	n, last := 0, run{}
	for line := range p.lines(true) {
		n, last = n+1, line
	}
	if seconds := last.total(0, last.last).Seconds(); n != retries || last.last != retries ||
		math.Abs(seconds-total) > 1e-6 {
		t.Errorf("%d lines up to retry %d and %.9f, want %d up to %.9f", n, last.last, seconds, retries, total)
	}
}

func TestErrors(t *testing.T) {
	folder := t.TempDir()
	for _, c := range []struct {
		name   string
		stdin  string
		args   []string
		status int
		want   []string
	}{
		{"nothing", "", nil, cli.Usage, []string{"POLICY.json is missing", "See awsretry-deliver schedule --help"}},
		{"two policies", "", []string{"a", "b"}, cli.Usage, []string{`"b" is one too many`}},
		{"a file and a fixed policy", "", []string{"--aws-managed", "a"}, cli.Usage, []string{`"a" is one too many`}},
		{"two fixed policies", "", []string{"--aws-managed", "--customer-managed"}, cli.Usage,
			[]string{"one is shown at a time"}},
		{"topic that has no file", "", []string{"--aws-managed", "--topic"}, cli.Usage, []string{"--topic"}},
		{"two pictures on one output", "", []string{"--svg=-", "--png=-", "-"}, cli.Usage, []string{"--svg and --png"}},
		{"a picture and JSON on one output", "", []string{"--svg=-", "--json", "-"}, cli.Usage, []string{"--json"}},
		{"an empty name", "", []string{""}, cli.Usage, []string{"awsretry-deliver schedule: POLICY.json is empty\n"}},
		{"an empty picture", "", []string{"--aws-managed", "--svg", ""}, cli.Usage,
			[]string{`--svg is ""; it must not be empty`}},
		{"no such file", "", []string{filepath.Join(folder, "none.json")}, 1, []string{"none.json", "no such file"}},
		{"one fault", `{"healthyRetryPolicy": {"numRetries": 101}}`, []string{"-"}, 1,
			[]string{"awsretry-deliver schedule: standard input: healthyRetryPolicy.numRetries is 101; " +
				"it must be a whole number"}},
		{"no folder for the picture", "{}", []string{"--svg", filepath.Join(folder, "none", "x.svg"), "-"}, 1,
			[]string{"no such file"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := clitest.Shell{In: strings.NewReader(c.stdin)}.Run(t, New, append([]string{"schedule"}, c.args...)...)
			got.Check(t, c.status, "", c.want...)
			if strings.Contains(got.Err, "delivery: ") {
				t.Errorf("%q names a package", got.Err)
			}
		})
	}
}

func TestColors(t *testing.T) {
	for _, c := range []struct {
		name   string
		shell  clitest.Shell
		args   []string
		colors bool
	}{
		{"terminal", clitest.Shell{Terminals: []string{"stdout"}}, nil, true},
		{"NO_COLOR", clitest.Shell{Terminals: []string{"stdout"}, Env: map[string]string{"NO_COLOR": "1"}}, nil, false},
		{"JSON", clitest.Shell{Terminals: []string{"stdout"}}, []string{"--json"}, false},
		{"pipe", clitest.Shell{}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.shell.Run(t, New, append([]string{"schedule", "--compare", example}, c.args...)...)
			if colors := strings.Contains(got.Out, "\x1b["); colors != c.colors {
				t.Errorf("colors: %t, want %t: %q", colors, c.colors, got.Out)
			}
		})
	}
}

func TestRefusedColors(t *testing.T) {
	const policy = `{"healthyRetryPolicy": {"minDelayTarget": 1, "maxDelayTarget": 800, "numRetries": 9,
		"backoffFunction": "geometric"}}`
	refused := clitest.Shell{Terminals: []string{"stdout"}, In: strings.NewReader(policy)}.Run(t, New, "schedule", "--compare", "-")
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
