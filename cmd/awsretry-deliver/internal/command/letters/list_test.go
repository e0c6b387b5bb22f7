package letters

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
	"example.com/awsretry/delivery"
	"example.com/awsretry/delivery/letters"
)

// bury puts a dead letter into dir: a POST of body to url, which change may
// change.
func bury(t *testing.T, dir, url, body string, change func(*delivery.DeadLetter)) {
	t.Helper()
	req, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	dead := delivery.DeadLetter{
		Request:  req,
		Attempts: 4,
		Reason:   "max_attempts",
		Response: &http.Response{StatusCode: 503},
	}
	if change != nil {
		change(&dead)
	}
	if err := (&letters.Dir{Path: dir}).Put(context.Background(), dead); err != nil {
		t.Fatal(err)
	}
}

// buryThree puts letters of three kinds into dir: 3 days, 5 hours and 90
// seconds old.
func buryThree(t *testing.T, dir string) {
	bury(t, dir, "https://user:secret@example.com/hooks/orders?key=secret", `{"order": 1}`, nil)
	time.Sleep(3*24*time.Hour - 5*time.Hour)
	bury(t, dir, "https://example.com/hooks/invoices", strings.Repeat("x", 12_000), func(d *delivery.DeadLetter) {
		d.Attempts, d.Reason, d.Response = 100_016, "deadline", nil
		d.Err = errors.New("dial tcp 192.0.2.1:443: connect: connection refused\x1b[2J")
	})
	time.Sleep(5*time.Hour - 90*time.Second)
	bury(t, dir, "https://example.com/hooks/orders", "", func(d *delivery.DeadLetter) {
		d.Request.Method, d.Attempts, d.Reason, d.Response = "DELETE", 1, "permanent", &http.Response{StatusCode: 403}
	})
	time.Sleep(90 * time.Second)
}

func TestListGolden(t *testing.T) {
	for _, c := range []struct {
		golden string
		args   []string
	}{
		{"list.txt", nil},
		{"list.json", []string{"--json"}},
	} {
		t.Run(c.golden, func(t *testing.T) {
			dir := t.TempDir()
			var got clitest.Result
			synctest.Test(t, func(t *testing.T) {
				buryThree(t, dir)
				got = clitest.Shell{}.Run(t, New, append([]string{"letters", "list", dir}, c.args...)...)
			})
			if got.Status != 0 || got.Err != "" {
				t.Fatalf("status %d, standard error:\n%s", got.Status, got.Err)
			}
			if strings.Contains(got.Out, "secret") || strings.Contains(got.Out, "\x1b") {
				t.Errorf("a secret or a control character is shown:\n%s", got.Out)
			}
			random := regexp.MustCompile(`-[0-9a-f]{16}\.letter`)
			clitest.Golden(t, c.golden, random.ReplaceAllString(got.Out, "-RANDOM0123456789.letter"))
		})
	}
}

func TestListOfOtherFiles(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"README": "hello", "1.letter": "no head", "2.letter.tmp": "half"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := clitest.Shell{}.Run(t, New, "letters", "list", dir)
	if got.Status != 1 || strings.Count(got.Err, "✗ ") != 2 || strings.Contains(got.Err, "delivery:") ||
		!strings.Contains(got.Err, filepath.Join(dir, "README")+": not a dead letter\n") ||
		!strings.Contains(got.Err, filepath.Join(dir, "1.letter")+": ") {
		t.Errorf("status %d, standard error:\n%s\nwant 1, and two files named", got.Status, got.Err)
	}
	if want := "No dead letters, but 2 other files in " + dir + "\n"; got.Out != want {
		t.Errorf("%q is printed, want %q", got.Out, want)
	}

	bury(t, dir, "http://127.0.0.1/", "", nil)
	got = clitest.Shell{}.Run(t, New, "letters", "list", "--json", dir)
	if got.Status != 1 || got.Err != "" {
		t.Errorf("status %d, standard error %q; want 1 and none", got.Status, got.Err)
	}
	broken, whole := 0, 0
	for line := range strings.Lines(got.Out) {
		var letter struct{ Name, Broken, Method string }
		if err := json.Unmarshal([]byte(line), &letter); err != nil || letter.Name == "" {
			t.Errorf("%q: %v", line, err)
		}
		if letter.Broken != "" {
			broken++
		}
		if letter.Method == "POST" {
			whole++
		}
	}
	if broken != 2 || whole != 1 {
		t.Errorf("%d broken files and %d letters, want 2 and 1", broken, whole)
	}
}

func TestErrors(t *testing.T) {
	none, file := filepath.Join(t.TempDir(), "none"), filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"letters", "bury"}, cli.Usage, `unknown command "bury"`},
		{[]string{"letters", "list"}, cli.Usage, "DIR is missing"},
		{[]string{"letters", "redrive"}, cli.Usage, "DIR is missing"},
		{[]string{"letters", "list", "a", "b"}, cli.Usage, `"b" is one too many`},
		{[]string{"letters", "list", ""}, cli.Usage, "awsretry-deliver letters list: DIR is empty\n"},
		{[]string{"letters", "redrive", ""}, cli.Usage, "awsretry-deliver letters redrive: DIR is empty\n"},
		{[]string{"letters", "redrive", "--policy", "", "a"}, cli.Usage, `--policy is ""; it must not be empty`},
		{[]string{"letters", "redrive", "--attempt-timeout", "0", "a"}, cli.Usage, "--attempt-timeout"},
		{[]string{"letters", "list", file}, 1, "awsretry-deliver letters list: "},
		{[]string{"letters", "redrive", file}, 1, "awsretry-deliver letters redrive: "},
		{[]string{"letters", "redrive", "--limit", "0", "a"}, cli.Usage, "--limit"},
		{[]string{"letters", "redrive", "--max-failures", "-1", "a"}, cli.Usage, "--max-failures"},
		{[]string{"letters", "redrive", "--policy", none, "."}, 1, "none: no such file"},
	} {
		got := clitest.Shell{}.Run(t, New, c.args...)
		got.Check(t, c.status, "", c.want)
	}
	if got := (clitest.Shell{}).Run(t, New, "letters"); got.Status != 0 || !strings.Contains(got.Out, "redrive") {
		t.Errorf("status %d, %q; want 0 and the list of commands", got.Status, got.Out)
	}
}

func TestNoLetters(t *testing.T) {
	dir := t.TempDir()
	none := filepath.Join(dir, "none") // as before the first letter
	for _, c := range []struct {
		args []string
		out  string
	}{
		{[]string{"list", dir}, "No dead letters in " + dir + "\n"},
		{[]string{"list", "--json", dir}, ""},
		{[]string{"redrive", dir}, "No dead letters in " + dir + "\n"},
		{[]string{"list", none}, "No dead letters: " + none + " does not exist\n"},
		{[]string{"redrive", none}, "No dead letters: " + none + " does not exist\n"},
	} {
		got := clitest.Shell{}.Run(t, New, append([]string{"letters"}, c.args...)...)
		if want := (clitest.Result{Out: c.out}); got != want {
			t.Errorf("%q: got %+v, want %+v", c.args, got, want)
		}
	}
}

// On a narrow terminal the names of the letters stay.
func TestTerminal(t *testing.T) {
	s, dir := clitest.Start(t, clitest.Forbidden), t.TempDir()
	for _, path := range []string{"/hooks/orders", "/" + strings.Repeat("a-long-name/", 20)} {
		bury(t, dir, s.URL+path, "1", nil)
	}
	names := namesIn(t, dir)
	for _, args := range [][]string{{"list", dir}, {"redrive", dir}} {
		shell := clitest.Shell{Terminals: []string{"stdout"}, Width: 80, Env: map[string]string{"NO_COLOR": "1"}}
		got := shell.Run(t, New, append([]string{"letters"}, args...)...)
		for line := range strings.Lines(got.Out) {
			if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > 80 && !strings.Contains(line, " in "+dir) {
				t.Errorf("%q is %d wide", line, n)
			}
		}
		for _, name := range names {
			if !strings.Contains(got.Out, name) {
				t.Errorf("%s is not in\n%s", name, got.Out)
			}
		}
	}
}
