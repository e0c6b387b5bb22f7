package simulate

import (
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
	"example.com/awsretry/cmd/internal/term"
)

// The report has the table's figures and the command, and replaces an old file
// only when it is whole.
func TestReport(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "out.html")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := clitest.Shell{}.Run(t, New, quick("--settings", "profile=missing", "--report", file)...)
	if text, err := os.ReadFile(file); r.Status != cli.Failure || err != nil || string(text) != "old" {
		t.Fatalf("%+v, and the report is %.40q, %v", r, text, err)
	}
	r = clitest.Shell{}.Run(t, New, quick("--report", file)...)
	text, err := os.ReadFile(file)
	if r.Status != 0 || r.Err != "" || err != nil || !strings.HasPrefix(string(text), "<!DOCTYPE html>") {
		t.Fatalf("%+v, and the report is %.40q, %v", r, text, err)
	}
	clitest.Golden(t, "simulate.txt", r.Out)
	const want = "awsretry simulate outage --rate 20 --clients 4 --duration 1m40s --settings none,standard"
	shown := regexp.MustCompile(`<dt>command</dt><dd><code>(.*?)</code>`).FindStringSubmatch(string(text))
	if shown == nil || html.UnescapeString(shown[1]) != want {
		t.Errorf("the command is %q, want %q", shown, want)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("the folder has %v, %v", left, err)
	}
}

// The report of a log says how far it can be trusted.
func TestReportOfALog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.html")
	r := clitest.Shell{}.Run(t, New, "simulate", "--from", recordedLog, "--settings", "none", "--report", file)
	text, err := os.ReadFile(file)
	if r.Status != 0 || err != nil {
		t.Fatalf("%+v, %v", r, err)
	}
	comparison, _, _ := strings.Cut(r.Out, "traffic: ")
	if page := html.UnescapeString(string(text)); comparison == "" || !strings.Contains(page, strings.TrimSpace(comparison)) {
		t.Errorf("the report does not have\n%s", comparison)
	}
}

// The command in the report is one that a shell reads as it was typed.
func TestTyped(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"flags in their order", []string{"--seed", "5", "outage", "--duration=2m"},
			"awsretry simulate outage --seed 5 --duration 2m0s"},
		{"outputs are left out", []string{"outage", "--json", "--picture", "a.svg", "--report", "b.html"},
			"awsretry simulate outage"},
		{"spaces and quotes", []string{"it's mine.yaml"}, `awsretry simulate 'it'\''s mine.yaml'`},
		{"a list twice", []string{"outage", "--settings", "none", "--settings", `"delivery=a,b.json"`},
			`awsretry simulate outage --settings 'none,"delivery=a,b.json"'`},
		{"what a shell would expand", []string{"$HOME/*.yaml"}, "awsretry simulate '$HOME/*.yaml'"},
		{"a rate", []string{"outage", "--rate", "12.5"}, "awsretry simulate outage --rate 12.5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := New(term.Streams{})
			if err := cmd.ParseFlags(c.args); err != nil {
				t.Fatal(err)
			}
			if got := typed(cmd, cmd.Flags().Args()); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
