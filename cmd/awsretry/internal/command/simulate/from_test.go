package simulate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
	"example.com/awsretry/simulate/scenario"
)

// recordedLog is of a throttling nginx, for 40 s.
const recordedLog = "../../../../../simulate/traffic/testdata/nginx.jsonl.gz"

func TestFrom(t *testing.T) {
	file := filepath.Join(t.TempDir(), "traffic.yaml")
	args := []string{"simulate", "--from", recordedLog, "--write", file}
	r := clitest.Shell{Terminals: []string{"stderr"}}.Run(t, New, args...)
	clitest.Golden(t, "from.txt", r.Out)
	page, err := os.ReadFile("../../../../../docs/TRAFFIC.md")
	if err != nil || !strings.Contains(string(page), r.Out) {
		t.Errorf("docs/TRAFFIC.md (%v) does not show what the command prints, which is testdata/from.txt", err)
	}
	if r.Status != 0 || !strings.Contains(r.Err, "reading") || !strings.Contains(r.Err, "simulating") {
		t.Errorf("status %d; on a terminal there is no progress bar: %q", r.Status, r.Err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	clitest.Golden(t, "from.yaml", string(text))
	if s, err := scenario.Parse(text); err != nil || s.Settings[0].Name != "present: standard" {
		t.Errorf("the scenario is %+v, %v", s, err)
	}

	log, err := os.Open(recordedLog)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	printed := clitest.Shell{In: log}.Run(t, New, "simulate", "--from", "-", "--print")
	if printed.Out != string(text) || printed.Status != 0 {
		t.Errorf("--print of standard input gives %+v", printed)
	}
}

// Other flags change the scenario that was fitted.
func TestFromWithFlags(t *testing.T) {
	for _, tt := range []struct {
		args string
		want []string
		not  string
	}{
		{"--duration 12s --settings none", []string{"\n12s, seed 1", "where most attempts fail, of 40s in all"}, ""},
		{"--duration 1h --settings none", []string{"\n40s, seed 1", "recorded"}, ""},
		{"--rate 10 --settings none", []string{"10 calls/s in all"}, "recorded"},
		{"--clients 5 --settings none", []string{"5 clients"}, "recorded"},
		{"--json --settings none", []string{`"setting":"present: standard"`}, "The log does not show"},
		{"--host 127.0.0.1 --settings none", []string{"recorded"}, ""},
		{"--settings none --set clients.timeout=45s --print", []string{"a guess: the default"}, ""},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			r := clitest.Shell{}.Run(t, New, append([]string{"simulate", "--from", recordedLog}, strings.Fields(tt.args)...)...)
			for _, want := range tt.want {
				if r.Status != 0 || !strings.Contains(r.Out, want) || tt.not != "" && strings.Contains(r.Out, tt.not) {
					t.Errorf("%+v, want %q in it and %q not", r, want, tt.not)
				}
			}
		})
	}
}

// Known values change the scenario, and the exit status shows whether the
// simulation reproduces the log.
func TestFromKnown(t *testing.T) {
	for args, want := range map[string]string{
		"--present naive --settings none":                                 "The simulation DOES NOT REPRODUCE this log: ",
		"--callers 30 --timeout 20s --settings none":                      "30 callers",
		"--set service.capacity=10 --set service.queue=5 --settings none": "service of 10 requests/s, queue of 5",
	} {
		r := clitest.Shell{}.Run(t, New, append([]string{"simulate", "--from", recordedLog}, strings.Fields(args)...)...)
		if !strings.Contains(r.Out, want) || r.Status != cli.HTTPError && r.Status != 0 ||
			strings.Contains(r.Out, "DOES NOT") != (r.Status == cli.HTTPError) {
			t.Errorf("%s: %+v, want %q", args, r, want)
		}
	}
}

// A log is not overwritten with the scenario that is made from it.
func TestFromAndWriteOneFile(t *testing.T) {
	log := filepath.Join(t.TempDir(), "service.log")
	if err := os.WriteFile(log, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := clitest.Shell{}.Run(t, New, "simulate", "--from", log, "--write", log)
	if text, _ := os.ReadFile(log); r.Status != cli.Usage || string(text) != "{}" {
		t.Errorf("%+v; the log is %q", r, text)
	}
}

func TestFromErrors(t *testing.T) {
	folder := t.TempDir()
	empty := filepath.Join(folder, "empty.log")
	if err := os.WriteFile(empty, []byte("starting\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args   string
		want   string
		status int
	}{
		{"--from " + filepath.Join(folder, "none"), "no such file", cli.Failure},
		{"--from " + folder, folder + " is a directory", cli.Failure},
		{"--from " + empty, "none of 1 lines is of retrylog", cli.Failure},
		{"--from " + recordedLog + " outage", `argument "outage" is one too many`, cli.Usage},
		{"--from " + recordedLog + " --host b.test", `no attempt goes to the host "b.test"`, cli.Failure},
		{"--from " + recordedLog + " --settings eager", "--settings: ", cli.Usage},
		{"--from " + recordedLog + " --write " + filepath.Join(folder, "none", "x.yaml"), "--write: ", cli.Failure},
		{"outage --write x.yaml", "--write is for --from only", cli.Usage},
		{"outage --host x", "--host is for --from only", cli.Usage},
	} {
		t.Run(tt.args, func(t *testing.T) {
			r := clitest.Shell{}.Run(t, New, append([]string{"simulate"}, strings.Fields(tt.args)...)...)
			r.Check(t, tt.status, "", tt.want)
		})
	}
}
