package letters

import (
	"context"
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

	"example.com/awsretry/cmd/internal/clitest"
	"example.com/awsretry/delivery"
	"example.com/awsretry/delivery/letters"
)

// bury puts a dead letter into dir: a POST of body to url, which change may
// change.
func bury(t *testing.T, dir, url, body string, change func(*delivery.DeadLetter)) {
	t.Helper()
	req := clitest.Must[*http.Request](t)(http.NewRequest("POST", url, strings.NewReader(body)))
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

// namesIn returns the names of the files in dir, in order.
func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, file := range clitest.Must[[]os.DirEntry](t)(os.ReadDir(dir)) {
		names = append(names, file.Name())
	}
	return names
}

func lettersIn(t *testing.T, dir string) int { return len(namesIn(t, dir)) }

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
	random := regexp.MustCompile(`-[0-9a-f]{16}\.letter`)
	for golden, args := range map[string][]string{"list.txt": nil, "list.json": {"--json"}} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			buryThree(t, dir)
			got := clitest.Shell{}.Run(t, New, append([]string{"letters", "list", dir}, args...)...)
			if got.Status != 0 || got.Err != "" || strings.Contains(got.Out, "secret") {
				t.Errorf("%+v", got)
			}
			clitest.Golden(t, golden, random.ReplaceAllString(got.Out, "-RANDOM0123456789.letter"))
		})
	}
}

// A file that is not a letter is reported, and does not end the list.
func TestOtherFiles(t *testing.T) {
	s, dir := clitest.Start(t, clitest.Fine), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "README"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	bury(t, dir, s.URL, "1", nil)
	vars := map[string]string{"FOLDER": dir, "URL": s.URL}
	clitest.Shell{Mask: mask}.Transcript(t, "other-files.txt", vars, New)
}

// mask replaces what differs in each run.
func mask(printed string) string {
	for pattern, with := range map[string]string{
		` +[\d.]+[mµ]?s  (kept|delivered)`:         "      TIME  $1",
		`\d{8}T\d{6}\.\d{9}Z-[0-9a-f]{16}\.letter`: "20000101T000000.000000000Z-RANDOM0123456789.letter",
		`"elapsed_ms":[\d.]+`:                      `"elapsed_ms":0`,
		`"time":"[^"]*"`:                           `"time":"TIME"`,
		`"size_bytes":\d+`:                         `"size_bytes":0`, // the port's length differs
	} {
		printed = regexp.MustCompile(pattern).ReplaceAllString(printed, with)
	}
	return printed
}

func TestErrors(t *testing.T) {
	vars := map[string]string{"FILE": clitest.File(t, "file", ""), "FOLDER": t.TempDir()}
	clitest.Shell{}.Transcript(t, "errors.txt", vars, New)
	if got := (clitest.Shell{}).Run(t, New, "letters"); got.Status != 0 || !strings.Contains(got.Out, "redrive") {
		t.Errorf("status %d, %q; want 0 and the list of commands", got.Status, got.Out)
	}
}

// On a narrow terminal the names of the letters stay.
func TestTerminal(t *testing.T) {
	s, dir := clitest.Start(t, clitest.Forbidden), t.TempDir()
	bury(t, dir, s.URL+"/"+strings.Repeat("a-long-name/", 20), "1", nil)
	name := namesIn(t, dir)[0]
	for _, command := range []string{"list", "redrive"} {
		shell := clitest.Shell{Terminals: []string{"stdout"}, Width: 80, Env: map[string]string{"NO_COLOR": "1"}}
		got := shell.Run(t, New, "letters", command, dir)
		for line := range strings.Lines(got.Out) {
			if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > 80 && !strings.Contains(line, " in "+dir) {
				t.Errorf("%q is %d wide", line, n)
			}
		}
		if !strings.Contains(got.Out, name) {
			t.Errorf("%s is not in\n%s", name, got.Out)
		}
	}
}
