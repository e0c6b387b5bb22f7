package simulate

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
)

// quick returns a command line with a short simulation.
func quick(args ...string) []string {
	const little = "simulate outage --set clients.rate=20 --clients 4 --duration 1m40s --settings none,standard --seed 5"
	return append(strings.Fields(little), args...)
}

// The table, with a progress bar on a terminal, and the picture and the report,
// which replace old files when they are complete.
func TestSimulate(t *testing.T) {
	folder := t.TempDir()
	picture, report := filepath.Join(folder, "out.svg"), clitest.File(t, "out.html", "old")
	failed := clitest.Shell{}.Run(t, New, quick("--settings", "profile=missing", "--report", report)...)
	failed.Check(t, cli.Failure, "", `setting "profile=missing": profile is "missing"; it must be a profile`)
	if text := clitest.Must[[]byte](t)(os.ReadFile(report)); string(text) != "old" {
		t.Errorf("after a failure the report is %.40q", text)
	}
	terminal := clitest.Shell{Terminals: []string{"stderr"}}
	r := terminal.Run(t, New, quick("--picture", picture, "--report", report)...)
	clitest.Golden(t, "simulate.txt", r.Out)
	if r.Status != 0 || !strings.Contains(r.Err, "simulating") {
		t.Errorf("status %d; on a terminal there is no progress bar: %q", r.Status, r.Err)
	}
	for file, want := range map[string]string{
		picture: "<svg",
		report: "<dt>command</dt><dd><code>" +
			"awsretry simulate outage --set clients.rate=20 --clients 4 --duration 1m40s --settings none,standard --seed 5</code>",
	} {
		if text := clitest.Must[[]byte](t)(os.ReadFile(file)); !strings.Contains(string(text), want) {
			t.Errorf("%s is %.40q, and lacks %q", file, text, want)
		}
		if left := clitest.Must[[]os.DirEntry](t)(os.ReadDir(filepath.Dir(file))); len(left) != 1 {
			t.Errorf("the folder has %v", left)
		}
	}
}

func TestFile(t *testing.T) {
	printed := clitest.Shell{}.Run(t, New, "simulate", "--print", "herd")
	file := clitest.File(t, "mine.yaml", printed.Out)
	flags := []string{"--settings", "none", "--clients", "50", "--set", "clients.rate=50", "--duration", "40s"}
	own := clitest.Shell{}.Run(t, New, append([]string{"simulate", file}, flags...)...)
	ready := clitest.Shell{}.Run(t, New, append([]string{"simulate", "herd"}, flags...)...)
	if !strings.Contains(own.Out, "herd of 200 calls each") {
		t.Errorf("a tenth of the clients makes other calls in all: %s", own.Out)
	}
	if own.Status != 0 || own != ready {
		t.Errorf("the printed scenario gives %+v, the ready one %+v", own, ready)
	}
}

// A warning about a missing config file is printed only for profiles.
func TestProfile(t *testing.T) {
	config := clitest.File(t, "config", "[profile ci]\nretry_mode = legacy\nmax_attempts = 1\n")
	for _, c := range []struct {
		config, settings string
		want             string
		warnings         int
	}{
		{config, "profile=ci", "1.00x", 0},
		{config + ".none", "profile=default", "profile=default", 1},
		{config + ".none", "naive", "naive", 0},
	} {
		shell := clitest.Shell{Env: map[string]string{"AWS_CONFIG_FILE": c.config}}
		r := shell.Run(t, New, quick("--settings", c.settings)...)
		if r.Status != 0 || !strings.Contains(r.Out, c.settings) || !strings.Contains(r.Out, c.want) ||
			strings.Count(r.Err, "warning: environment AWS_CONFIG_FILE is ") != c.warnings {
			t.Errorf("%s: %+v, want %q and %d warnings", c.settings, r, c.want, c.warnings)
		}
	}
}

func TestErrors(t *testing.T) {
	file := clitest.File(t, "bad.yaml", "duration: 1m\nclient: {}\n")
	clitest.Shell{}.Transcript(t, "errors.txt", map[string]string{"FILE": file, "FOLDER": t.TempDir()}, New)
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	folder := t.TempDir()
	picture, report := filepath.Join(folder, "x.png"), filepath.Join(folder, "x.html")
	r := clitest.Shell{}.RunContext(ctx, t, New, quick("--picture", picture, "--report", report)...)
	r.Check(t, cli.Interrupted, "", "awsretry simulate: interrupted\n")
	if left := clitest.Must[[]os.DirEntry](t)(os.ReadDir(folder)); len(left) > 0 {
		t.Errorf("the folder has %v", left)
	}
}
