package simulate

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
	"example.com/awsretry/simulate/scenario"
)

// quick returns a command line that simulates little.
func quick(args ...string) []string {
	const little = "simulate outage --rate 20 --clients 4 --duration 1m40s --settings none,standard"
	return append(strings.Fields(little), args...)
}

func TestSimulate(t *testing.T) {
	clitest.Golden(t, "simulate.txt", clitest.Shell{}.Run(t, New, quick()...).Out)

	again := clitest.Shell{Terminals: []string{"stderr"}}.Run(t, New, quick()...)
	clitest.Golden(t, "simulate.txt", again.Out)
	if !strings.Contains(again.Err, "simulating") {
		t.Errorf("on a terminal there is no progress bar: %q", again.Err)
	}

	picture := filepath.Join(t.TempDir(), "outage.svg")
	r := clitest.Shell{}.Run(t, New, quick("--json", "--seed", "5", "--picture", picture)...)
	var result struct {
		Scenario scenario.Scenario
		Outcomes []json.RawMessage
	}
	if err := json.Unmarshal([]byte(r.Out), &result); err != nil || r.Status != 0 || r.Err != "" {
		t.Fatalf("%+v: %v", r, err)
	}
	if s := result.Scenario; s.Seed != 5 || s.Clients.Count != 4 || s.Clients.Rate != 20 ||
		s.Duration.String() != "1m40s" ||
		len(result.Outcomes) != 2 {
		t.Errorf("the scenario is %+v, with %d outcomes", s, len(result.Outcomes))
	}
	if text, err := os.ReadFile(picture); err != nil || !strings.Contains(string(text), "<svg") {
		t.Errorf("the picture is %.40q, %v", text, err)
	}
}

func TestFile(t *testing.T) {
	printed := clitest.Shell{}.Run(t, New, "simulate", "--print", "herd")
	file := clitest.File(t, "mine.yaml", printed.Out)
	flags := []string{"--settings", "none", "--clients", "50", "--rate", "50", "--duration", "40s"}
	own := clitest.Shell{}.Run(t, New, append([]string{"simulate", file}, flags...)...)
	ready := clitest.Shell{}.Run(t, New, append([]string{"simulate", "herd"}, flags...)...)
	if !strings.Contains(own.Out, "herd of 200 calls each") {
		t.Errorf("a tenth of the clients makes other calls in all: %s", own.Out)
	}
	if own.Status != 0 || own != ready {
		t.Errorf("the printed scenario gives %+v, the ready one %+v", own, ready)
	}
}

// A scenario with neither a name, a sentence about it nor an event.
func TestPictureOfANamelessScenario(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "nameless.yaml")
	const nameless = "duration: 10s\nclients: {count: 1, callers: 1}\n" +
		"service: {capacity: 100, queue: 10, latency: {median: 10ms}}\nsettings: [none]\n"
	if err := os.WriteFile(file, []byte(nameless), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"x.svg", "x.png"} {
		r := clitest.Shell{}.Run(t, New, "simulate", file, "--picture", filepath.Join(folder, name))
		if r.Status != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// With fewer clients, fewer join.
func TestFleet(t *testing.T) {
	r := clitest.Shell{}.Run(t, New, "simulate", "../../../../../docs/examples/fleet.yaml",
		"--clients", "4", "--duration", "41s", "--settings", "fleet,fleet=scaled")
	for _, want := range []string{"4 clients, 4 callers each", "from 20s to 40s: 2 clients join", "fleet=scaled"} {
		if !strings.Contains(r.Out, want) {
			t.Errorf("%+v, want %q in it", r, want)
		}
	}
}

func TestProfile(t *testing.T) {
	config := clitest.File(t, "config", "[profile ci]\nretry_mode = legacy\nmax_attempts = 1\n")
	r := clitest.Shell{Env: map[string]string{"AWS_CONFIG_FILE": config}}.Run(t, New,
		quick("--settings", "profile=ci")...)
	if r.Status != 0 || !strings.Contains(r.Out, "profile=ci") || !strings.Contains(r.Out, "1.00x") {
		t.Errorf("%+v", r)
	}
}

func TestErrors(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "bad.yaml")
	if err := os.WriteFile(file, []byte("duration: 1m\nclient: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
		want   []string
	}{
		{[]string{"simulate"}, cli.Usage, []string{"SCENARIO|FILE is missing"}},
		{[]string{"simulate", ""}, cli.Usage, []string{"awsretry simulate: SCENARIO|FILE is empty\n"}},
		{[]string{"simulate", "flood"}, cli.Failure, []string{"no such file", "broken-bodies, brownout, fleet, herd"}},
		{[]string{"simulate", "--print", "flood"}, cli.Usage, []string{`no ready scenario "flood"`}},
		{[]string{"simulate", file}, cli.Failure, []string{"bad.yaml", `[2:1] unknown field "client"`}},
		{[]string{"simulate", folder}, cli.Failure, []string{folder + " is not a regular file; it must be one"}},
		{quick("--settings", "eager"), cli.Usage, []string{`"eager"`, "none, naive, standard"}},
		{quick("--settings", ""), cli.Usage, []string{`--settings is ""; it must be a list such as none,standard`}},
		{quick("--settings", "none,"), cli.Usage,
			[]string{`--settings is "none,"; it must be a list such as none,standard`}},
		{quick("--settings", `"none`), cli.Usage,
			[]string{"--settings is ", "it must be a list such as none,standard"}},
		{quick("--clients", "0"), cli.Usage, []string{`--clients is "0"; it must be a whole number, 1 to 1000000`}},
		{quick("--clients", "900000000"), cli.Usage,
			[]string{`--clients is "900000000"; it must be a whole number, 1 to 1000000`}},
		{quick("--rate", "abc"), cli.Usage,
			[]string{`--rate is "abc"; it must be a number above 0 and at most 1000000`}},
		{quick("--rate", "nan"), cli.Usage, []string{`--rate is "nan"; it must be`}},
		{quick("--rate", "0"), cli.Usage, []string{`--rate is "0"; it must be`}},
		{quick("--rate", "-5"), cli.Usage, []string{`--rate is "-5"; it must be`}},
		{quick("--rate", "1e7"), cli.Usage, []string{`--rate is "1e7"; it must be`}},
		{quick("--duration", "10s"), cli.Usage,
			[]string{"with --", "--duration 10s",
				"events[0].from is 1m; it must be 0s or more, and before the end of the run, 10s"}},
		{quick("--duration", "1.5"), cli.Usage, []string{"duration is 1.5s; it must be in whole seconds"}},
		{quick("--seed", "-1"), cli.Usage,
			[]string{`--seed is "-1"; it must be a whole number, 0 to 18446744073709551615`}},
		{quick("--json=maybe"), cli.Usage, []string{`--json is "maybe"; it must be true or false`}},
		{quick("--picture", ""), cli.Usage, []string{`--picture is ""; it must not be empty`}},
		{quick("--picture", "x.gif"), cli.Usage, []string{`--picture is "x.gif"; it must end with .svg or .png`}},
		{quick("--report", ""), cli.Usage, []string{`--report is ""; it must not be empty`}},
		{quick("--report", "x.pdf"), cli.Usage, []string{`--report is "x.pdf"; it must end with .html`}},
		{quick("--report", "-"), cli.Usage, []string{`--report is "-"; it must end with .html`}},
		{quick("--report", filepath.Join(folder, "none", "x.html")), cli.Failure,
			[]string{"--report: ", "no such file"}},
		{quick("--picture", filepath.Join(folder, "none", "x.svg")), cli.Failure,
			[]string{"--picture: ", "no such file"}},
		{quick("--settings", "profile=missing"), cli.Failure,
			[]string{`setting "profile=missing": profile is "missing"; it must be a profile`}},
		{quick("--settings", "delivery="+filepath.Join(folder, "none.json")), cli.Failure, []string{"no such file"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			r := clitest.Shell{}.Run(t, New, c.args...)
			r.Check(t, c.status, "", c.want...)
			if strings.Contains(r.Err, "simulate: simulate: ") {
				t.Error(r.Err)
			}
		})
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	folder := t.TempDir()
	picture, report := filepath.Join(folder, "x.png"), filepath.Join(folder, "x.html")
	r := clitest.Shell{}.RunContext(ctx, t, New, quick("--picture", picture, "--report", report)...)
	if r.Status != cli.Interrupted || !strings.Contains(r.Err, "interrupted") {
		t.Errorf("%+v", r)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("the folder has %v, %v", left, err)
	}
}

func TestMissingConfigFile(t *testing.T) {
	shell := clitest.Shell{Env: map[string]string{"AWS_CONFIG_FILE": filepath.Join(t.TempDir(), "none")}}
	for settings, warnings := range map[string]int{"none,profile=default": 1, "none": 0} {
		t.Run(settings, func(t *testing.T) {
			const little = "simulate outage --rate 20 --clients 4 --duration 1m40s --settings "
			got := shell.Run(t, New, strings.Fields(little+settings)...)
			if got.Status != 0 || strings.Count(got.Err, "warning: environment AWS_CONFIG_FILE is ") != warnings {
				t.Errorf("%+v, want status 0 and %d warnings", got, warnings)
			}
		})
	}
}
