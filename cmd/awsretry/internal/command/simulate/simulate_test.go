package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/awsretry/cmd/awsretry/simulate"
)

// quick are the arguments of a simulation that takes no time.
func quick(args ...string) []string {
	return append([]string{"simulate", "outage", "--rate", "20", "--clients", "4", "--duration", "1m40s", "--settings", "none,standard"}, args...)
}

func TestSimulate(t *testing.T) {
	golden(t, "simulate.txt", shell{}.run(t, quick()...).stdout)

	again := shell{terminals: []string{"stderr"}}.run(t, quick()...)
	golden(t, "simulate.txt", again.stdout)
	if !strings.Contains(again.stderr, "simulating") {
		t.Errorf("on a terminal there is no progress bar: %q", again.stderr)
	}

	picture := filepath.Join(t.TempDir(), "outage.svg")
	r := shell{}.run(t, quick("--json", "--seed", "5", "--picture", picture)...)
	var result simulate.Result
	if err := json.Unmarshal([]byte(r.stdout), &result); err != nil || r.status != 0 || r.stderr != "" {
		t.Fatalf("%+v: %v", r, err)
	}
	if s := result.Scenario; s.Seed != 5 || s.Clients.Count != 4 || s.Clients.Rate != 20 || s.Duration.String() != "1m40s" || len(result.Outcomes) != 2 {
		t.Errorf("the scenario is %+v, with %d outcomes", s, len(result.Outcomes))
	}
	if text, err := os.ReadFile(picture); err != nil || !strings.Contains(string(text), "<svg") {
		t.Errorf("the picture is %.40q, %v", text, err)
	}
}

func TestSimulateFile(t *testing.T) {
	printed := shell{}.run(t, "simulate", "--print", "herd")
	file := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(file, []byte(printed.stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--settings", "none", "--clients", "50", "--rate", "50"}
	own := shell{}.run(t, append([]string{"simulate", file}, flags...)...)
	ready := shell{}.run(t, append([]string{"simulate", "herd"}, flags...)...)
	if !strings.Contains(own.stdout, "herd of 200 calls each") {
		t.Errorf("a tenth of the clients makes other calls in all: %s", own.stdout)
	}
	if own.status != 0 || own != ready {
		t.Errorf("the printed scenario gives %+v, the ready one %+v", own, ready)
	}
}

func TestSimulateProfile(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte("[profile ci]\nretry_mode = legacy\nmax_attempts = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := shell{env: map[string]string{"AWS_CONFIG_FILE": config}}.run(t, quick("--settings", "profile=ci")...)
	if r.status != 0 || !strings.Contains(r.stdout, "profile=ci") || !strings.Contains(r.stdout, "1.00x") {
		t.Errorf("%+v", r)
	}
}

func TestSimulateErrors(t *testing.T) {
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
		{[]string{"simulate"}, exitUsage, []string{"SCENARIO|FILE is missing"}},
		{[]string{"simulate", "flood"}, exitUsage, []string{"no such file", "brownout, herd, outage, step, throttle"}},
		{[]string{"simulate", "--print", "flood"}, exitUsage, []string{`no ready scenario "flood"`}},
		{[]string{"simulate", file}, exitUsage, []string{"bad.yaml", `[2:1] unknown field "client"`}},
		{[]string{"simulate", folder}, exitUsage, []string{folder + " is not a regular file; it must be one"}},
		{quick("--settings", "eager"), exitUsage, []string{`"eager"`, "none, naive, standard"}},
		{quick("--settings", ""), exitUsage, []string{`--settings is ""; it must be a list such as none,standard`}},
		{quick("--settings", "none,"), exitUsage, []string{`--settings is "none,"; it must be a list such as none,standard`}},
		{quick("--settings", `"none`), exitUsage, []string{"--settings is ", "it must be a list such as none,standard"}},
		{quick("--clients", "0"), exitUsage, []string{`--clients is "0"; it must be a whole number, 1 to 1000000`}},
		{quick("--clients", "900000000"), exitUsage, []string{`--clients is "900000000"; it must be a whole number, 1 to 1000000`}},
		{quick("--rate", "abc"), exitUsage, []string{`--rate is "abc"; it must be a number above 0 and at most 1000000`}},
		{quick("--rate", "nan"), exitUsage, []string{`--rate is "nan"; it must be`}},
		{quick("--rate", "0"), exitUsage, []string{`--rate is "0"; it must be`}},
		{quick("--rate", "-5"), exitUsage, []string{`--rate is "-5"; it must be`}},
		{quick("--rate", "1e7"), exitUsage, []string{`--rate is "1e7"; it must be`}},
		{quick("--duration", "10s"), exitUsage, []string{"with --", "--duration 10s", "events[0].from is 1m; it must be 0s or more, and before the end of the run, 10s"}},
		{quick("--duration", "1.5"), exitUsage, []string{"duration is 1.5s; it must be in whole seconds"}},
		{quick("--seed", "-1"), exitUsage, []string{`--seed is "-1"; it must be a whole number, 0 to 18446744073709551615`}},
		{quick("--json=maybe"), exitUsage, []string{`--json is "maybe"; it must be true or false`}},
		{quick("--picture", ""), exitUsage, []string{`--picture is ""; it must not be empty`}},
		{quick("--picture", "x.gif"), exitUsage, []string{`--picture is "x.gif"; it must end with .svg or .png`}},
		{quick("--picture", filepath.Join(folder, "none", "x.svg")), exitUsage, []string{"--picture: ", "no such file"}},
		{quick("--settings", "profile=missing"), exitFailure, []string{`setting "profile=missing": profile is "missing"; it must be a profile`}},
		{quick("--settings", "delivery="+filepath.Join(folder, "none.json")), exitFailure, []string{"no such file"}},
	} {
		r := shell{}.run(t, c.args...)
		for _, want := range c.want {
			if r.status != c.status || r.stdout != "" || !strings.Contains(r.stderr, want) || strings.Contains(r.stderr, "simulate: simulate: ") {
				t.Errorf("%q: %+v, want status %d and %q", c.args, r, c.status, want)
			}
		}
	}
}

func TestSimulateInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	picture := filepath.Join(t.TempDir(), "x.png")
	r := shell{}.runContext(t, ctx, quick("--picture", picture)...)
	if r.status != exitFailure || !strings.Contains(r.stderr, "interrupted") {
		t.Errorf("%+v", r)
	}
	if left, err := os.ReadDir(filepath.Dir(picture)); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
