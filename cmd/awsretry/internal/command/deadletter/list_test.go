package main

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

	"example.com/awsretry/delivery"
)

// bury puts a dead letter into dir: a POST of body to url.
func bury(t *testing.T, dir, url, body string, change func(*delivery.DeadLetter)) {
	t.Helper()
	req, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	dead := delivery.DeadLetter{Request: req, Attempts: 4, Reason: "max_attempts", Response: &http.Response{StatusCode: 503}}
	if change != nil {
		change(&dead)
	}
	if err := delivery.DirQueue(dir)(context.Background(), dead); err != nil {
		t.Fatal(err)
	}
}

// buryThree is letters of three kinds: 3 days, 5 hours and 90 seconds old.
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

func TestDeadLetterListGolden(t *testing.T) {
	for _, c := range []struct {
		golden string
		args   []string
	}{
		{"deadletter-list.txt", nil},
		{"deadletter-list.json", []string{"--json"}},
	} {
		t.Run(c.golden, func(t *testing.T) {
			dir := t.TempDir()
			var got ran
			synctest.Test(t, func(t *testing.T) {
				buryThree(t, dir)
				got = shell{}.run(t, append([]string{"deadletter", "list", dir}, c.args...)...)
			})
			if got.status != 0 || got.stderr != "" {
				t.Fatalf("status %d, standard error:\n%s", got.status, got.stderr)
			}
			if strings.Contains(got.stdout, "secret") || strings.Contains(got.stdout, "\x1b") {
				t.Errorf("what may not be shown is:\n%s", got.stdout)
			}
			golden(t, c.golden, regexp.MustCompile(`-[0-9a-f]{16}\.letter`).ReplaceAllString(got.stdout, "-RANDOM0123456789.letter"))
		})
	}
}

func TestDeadLetterListOfOtherFiles(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"README": "hello", "1.letter": "no head", "2.letter.tmp": "half"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := shell{}.run(t, "deadletter", "list", dir)
	if got.status != 1 || strings.Count(got.stderr, "✗ ") != 2 || strings.Contains(got.stderr, "delivery:") ||
		!strings.Contains(got.stderr, filepath.Join(dir, "README")+": not a dead letter\n") || !strings.Contains(got.stderr, filepath.Join(dir, "1.letter")+": ") {
		t.Errorf("status %d, standard error:\n%s\nwant 1, and two files named", got.status, got.stderr)
	}
	if want := "No dead letters, but 2 other files in " + dir + "\n"; got.stdout != want {
		t.Errorf("%q is printed, want %q", got.stdout, want)
	}

	bury(t, dir, "http://127.0.0.1/", "", nil)
	got = shell{}.run(t, "deadletter", "list", "--json", dir)
	if got.status != 1 || got.stderr != "" {
		t.Errorf("status %d, standard error %q; want 1 and none", got.status, got.stderr)
	}
	broken, whole := 0, 0
	for line := range strings.Lines(got.stdout) {
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

func TestDeadLetterErrors(t *testing.T) {
	none, file := filepath.Join(t.TempDir(), "none"), filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"deadletter", "bury"}, exitUsage, `unknown command "bury"; it must be list or redrive`},
		{[]string{"deadletter", "list"}, exitUsage, "DIR is missing"},
		{[]string{"deadletter", "redrive"}, exitUsage, "DIR is missing"},
		{[]string{"deadletter", "list", "a", "b"}, exitUsage, `"b" is one too many`},
		{[]string{"deadletter", "list", ""}, exitUsage, "awsretry deadletter list: DIR is empty\n"},
		{[]string{"deadletter", "redrive", ""}, exitUsage, "awsretry deadletter redrive: DIR is empty\n"},
		{[]string{"deadletter", "redrive", "--policy", "", "a"}, exitUsage, `--policy is ""; it must not be empty`},
		{[]string{"deadletter", "redrive", "--attempt-timeout", "0", "a"}, exitUsage, "--attempt-timeout"},
		{[]string{"deadletter", "list", file}, 1, "awsretry deadletter list: "},
		{[]string{"deadletter", "redrive", file}, 1, "awsretry deadletter redrive: "},
		{[]string{"deadletter", "redrive", "--limit", "0", "a"}, exitUsage, "--limit"},
		{[]string{"deadletter", "redrive", "--max-failures", "-1", "a"}, exitUsage, "--max-failures"},
		{[]string{"deadletter", "redrive", "--policy", none, "."}, 1, "none: no such file"},
	} {
		got := shell{}.run(t, c.args...)
		if got.status != c.status || got.stdout != "" || !strings.Contains(got.stderr, c.want) {
			t.Errorf("%q: status %d, standard output %q, standard error %q; want %d, none, and %q", c.args, got.status, got.stdout, got.stderr, c.status, c.want)
		}
	}
	if got := (shell{}).run(t, "deadletter"); got.status != 0 || !strings.Contains(got.stdout, "redrive") {
		t.Errorf("status %d, %q; want 0 and the list of commands", got.status, got.stdout)
	}
}

// A variable of the shell that is not set does not mean the current folder.
func TestRedriveOfNoFolder(t *testing.T) {
	s, dir := serve(t, fine), t.TempDir()
	bury(t, dir, s.URL, "1", nil)
	t.Chdir(dir)
	for _, args := range [][]string{{""}, {"--dry-run", ""}, {"--policy", "", "."}} {
		got := shell{}.run(t, append([]string{"deadletter", "redrive"}, args...)...)
		if got.status != exitUsage || got.stdout != "" || len(s.received()) > 0 || lettersIn(t, dir) != 1 {
			t.Errorf("%q: %+v, want a usage error; %d letters were sent", args, got, len(s.received()))
		}
	}
}

func TestDeadLetterListOfNothing(t *testing.T) {
	dir := t.TempDir()
	if got := (shell{}).run(t, "deadletter", "list", dir); got.status != 0 || got.stdout != "No dead letters in "+dir+"\n" {
		t.Errorf("status %d, %q", got.status, got.stdout)
	}
	if got := (shell{}).run(t, "deadletter", "list", "--json", dir); got.status != 0 || got.stdout != "" {
		t.Errorf("status %d, %q", got.status, got.stdout)
	}
	none := filepath.Join(dir, "none") // as before the first letter
	for _, command := range []string{"list", "redrive"} {
		if got := (shell{}).run(t, "deadletter", command, none); got.status != 0 || got.stdout != "No dead letters: "+none+" does not exist\n" || got.stderr != "" {
			t.Errorf("%s: status %d, %q, %q", command, got.status, got.stdout, got.stderr)
		}
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 59 * time.Second: "59 s", time.Minute: "1 min", time.Hour - 1: "59 min", 47 * time.Hour: "47 h", 48 * time.Hour: "2 d",
	} {
		if got := age(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.0 kB", 9949: "9.9 kB", 9950: "10 kB", 99_500: "100 kB", 999_499: "999 kB", 999_500: "1.0 MB",
		1e9: "1.0 GB", 5e15: "5000 TB",
	} {
		if got := size(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

// On a narrow terminal the names of the letters stay.
func TestDeadLettersFitTheTerminal(t *testing.T) {
	s, dir := serve(t, forbidden), t.TempDir()
	for _, path := range []string{"/hooks/orders", "/" + strings.Repeat("a-long-name/", 20)} {
		bury(t, dir, s.URL+path, "1", nil)
	}
	names := namesIn(t, dir)
	for _, args := range [][]string{{"list", dir}, {"redrive", dir}} {
		got := shell{terminals: []string{"stdout"}, width: 80, env: map[string]string{"NO_COLOR": "1"}}.run(t, append([]string{"deadletter"}, args...)...)
		for line := range strings.Lines(got.stdout) {
			if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > 80 && !strings.Contains(line, " in "+dir) {
				t.Errorf("%q is %d wide", line, n)
			}
		}
		for _, name := range names {
			if !strings.Contains(got.stdout, name) {
				t.Errorf("%s is not in\n%s", name, got.stdout)
			}
		}
	}
}
