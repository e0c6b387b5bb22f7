package letters

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
	"example.com/awsretry/delivery"
)

type replies []clitest.Reply

// atOnce returns the file of a policy of two retries without pauses.
func atOnce(t *testing.T) string {
	t.Helper()
	return clitest.File(t, "policy.json", `{"healthyRetryPolicy": {"numRetries": 2, "numNoDelayRetries": 2},
		"requestPolicy": {"headerContentType": "application/json"}}`)
}

// namesIn returns the names of the files in dir, in order.
func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		names = append(names, file.Name())
	}
	return names
}

func lettersIn(t *testing.T, dir string) int { return len(namesIn(t, dir)) }

// Without --allow-private, a letter to an address that is not public is kept.
func TestPrivateAddress(t *testing.T) {
	s, dir := clitest.Start(t, clitest.Fine), t.TempDir()
	bury(t, dir, s.URL, "1", nil)
	got := clitest.Shell{}.Run(t, New, "letters", "redrive", "--policy", atOnce(t), dir)
	if got.Status != cli.HTTPError || !strings.Contains(got.Out, "127.0.0.1 (loopback) is not a public address") ||
		!strings.HasSuffix(got.Out, "✗ 0 delivered, 1 kept\n") {
		t.Errorf("%+v", got)
	}
}

func TestRedrive(t *testing.T) {
	for _, c := range []struct {
		name    string
		replies replies
		args    []string
		status  int
		sent    string // the bodies, in order
		left    int
		verdict string
	}{
		{"all delivered", replies{clitest.Fine}, nil, 0, "1 2 3", 0, "✓ 3 delivered\n"},
		{"one refused", replies{clitest.Fine, clitest.Forbidden, clitest.Fine}, nil, cli.HTTPError, "1 2 3", 1,
			"✗ 2 delivered, 1 kept\n"},
		{"one unanswered", replies{clitest.Closed, clitest.Fine, clitest.Fine}, nil, cli.HTTPError, "1 2 3", 1,
			"✗ 2 delivered, 1 kept\n"},
		{"redirected",
			replies{{Status: 302, Header: map[string]string{"Location": "/elsewhere"}}, clitest.Fine, clitest.Fine},
			nil, cli.HTTPError, "1 2 3", 1, "✗ 2 delivered, 1 kept\n"},
		{"no retries", replies{clitest.Unavailable}, nil, cli.HTTPError, "1 2 3", 3, "✗ 0 delivered, 3 kept\n"},
		{"retries", replies{clitest.Unavailable, clitest.Fine, clitest.Unavailable, clitest.Unavailable, clitest.Fine, clitest.Fine},
			[]string{"--policy"}, 0, "1 1 2 2 2 3", 0, "✓ 3 delivered\n"},
		{"retries used up", replies{clitest.Unavailable, clitest.Unavailable, clitest.Unavailable, clitest.Fine, clitest.Forbidden},
			[]string{"--policy"}, cli.HTTPError, "1 1 1 2 3", 2, "✗ 1 delivered, 2 kept\n"},
		{"dry run", replies{clitest.Fine}, []string{"--dry-run"}, 0, "", 3, "✓ dry run: 3 would be sent\n"},
		{"dry run with a limit", replies{clitest.Fine}, []string{"--dry-run", "--limit", "2"}, 0, "", 3,
			"✓ dry run: 2 would be sent\n"},
		{"limit", replies{clitest.Fine}, []string{"--limit", "2"}, 0, "1 2", 1, "✓ 2 delivered\n"},
		{"limit with a failure", replies{clitest.Forbidden, clitest.Fine}, []string{"--limit", "2"}, cli.HTTPError,
			"1 2", 2, "✗ 1 delivered, 1 kept\n"},
		{"failures in a row", replies{clitest.Forbidden}, []string{"--max-failures", "2"}, cli.HTTPError, "1 2", 3,
			"✗ too many failures in a row: 0 delivered, 2 kept, 1 not sent\n"},
		{"failures that are not in a row", replies{clitest.Forbidden, clitest.Fine, clitest.Forbidden},
			[]string{"--max-failures", "2"}, cli.HTTPError, "1 2 3", 2, "✗ 1 delivered, 2 kept\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, dir := clitest.Start(t, c.replies...), t.TempDir()
			for _, body := range []string{"1", "2", "3"} {
				bury(t, dir, s.URL+"/hook", body, nil)
			}
			args := append([]string{"letters", "redrive", "--allow-private", dir}, c.args...)
			if slices.Equal(c.args, []string{"--policy"}) {
				args = append(args, atOnce(t))
			}
			got := clitest.Shell{}.Run(t, New, args...)
			if got.Status != c.status || got.Err != "" {
				t.Errorf("status %d, standard error %q; want %d and none", got.Status, got.Err, c.status)
			}
			if sent := strings.Join(s.Bodies(), " "); sent != c.sent {
				t.Errorf("%q was sent, want %q", sent, c.sent)
			}
			if n := lettersIn(t, dir); n != c.left {
				t.Errorf("%d letters are left, want %d", n, c.left)
			}
			if !strings.HasSuffix(got.Out, "\n\n"+c.verdict) {
				t.Errorf("%q is not the end of\n%s", c.verdict, got.Out)
			}
		})
	}
}

func TestRedriveGolden(t *testing.T) {
	for _, file := range []string{"redrive.txt", "redrive.json"} {
		t.Run(file, func(t *testing.T) {
			s := clitest.Start(t, clitest.Fine, clitest.Unavailable, clitest.Fine, clitest.Forbidden)
			dir, policy := t.TempDir(), atOnce(t)
			bury(t, dir, s.URL+"/hooks/orders?key=secret", "1", nil)
			bury(t, dir, s.URL+"/hooks/invoices", "2", nil)
			bury(t, dir, s.URL+"/hooks/invoices/17", "3", func(d *delivery.DeadLetter) { d.Request.Method = "PATCH" })
			bury(t, dir, "http://127.0.0.1:1/hooks", "4", nil)
			args := []string{"letters", "redrive", "--allow-private", "--policy", policy, dir}
			if file == "redrive.json" {
				args = append(args, "--json")
			}
			got := clitest.Shell{}.Run(t, New, args...)
			if got.Status != cli.HTTPError || got.Err != "" {
				t.Fatalf("status %d, standard error %q; want 22 and none", got.Status, got.Err)
			}
			masked := strings.NewReplacer(strings.TrimPrefix(s.URL, "http://"), "HOST", dir, "DIR", policy, "POLICY").
				Replace(got.Out)
			for pattern, mask := range map[string]string{
				` +[\d.]+[mµ]?s  (kept|delivered)`:         "      TIME  $1",
				`\d{8}T\d{6}\.\d{9}Z-[0-9a-f]{16}\.letter`: "20000101T000000.000000000Z-RANDOM0123456789.letter",
				`"elapsed_ms":[\d.]+`:                      `"elapsed_ms":0`,
			} {
				masked = regexp.MustCompile(pattern).ReplaceAllString(masked, mask)
			}
			clitest.Golden(t, file, masked)
			for line := range strings.Lines(got.Out) {
				if file == "redrive.json" && !json.Valid([]byte(line)) {
					t.Errorf("%q is not JSON", line)
				}
			}
		})
	}
}

func TestRedriveSendsWhatWasKept(t *testing.T) {
	s, policy, first, second := clitest.Start(t, clitest.Fine), atOnce(t), t.TempDir(), t.TempDir()
	for _, dir := range []string{first, second} {
		bury(t, dir, s.URL+"/hook?key=1", "body", func(d *delivery.DeadLetter) {
			d.Request.Header["x-Key"] = []string{"v"}
			d.Request.Header.Set("Content-Type", "text/csv")
		})
	}
	if got := (clitest.Shell{}).Run(t, New, "letters", "redrive", "--allow-private", first); got.Status != 0 {
		t.Fatal(got.Out, got.Err)
	}
	data, err := os.ReadFile(policy)
	if err != nil {
		t.Fatal(err)
	}
	byPolicy := clitest.Shell{In: bytes.NewReader(data)}
	if got := byPolicy.Run(t, New, "letters", "redrive", "--allow-private", "--policy", "-", second); got.Status != 0 {
		t.Fatal(got.Out, got.Err)
	}
	for i, contentType := range []string{"text/csv", "application/json"} { // the letter's, and the policy's
		req := s.Requests()[i]
		if req.Method != "POST" || req.URL.String() != "/hook?key=1" || req.Header.Get("X-Key") != "v" ||
			req.Header.Get("Content-Type") != contentType {
			t.Errorf("%s %s, %v; want the request with content type %s", req.Method, req.URL, req.Header, contentType)
		}
	}
	if bodies := s.Bodies(); !slices.Equal(bodies, []string{"body", "body"}) {
		t.Errorf("the bodies are %q", bodies)
	}
}

func TestRedriveOfOtherFiles(t *testing.T) {
	s, dir := clitest.Start(t, clitest.Fine), t.TempDir()
	bury(t, dir, s.URL, "1", nil)
	if err := os.WriteFile(filepath.Join(dir, "README"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := clitest.Shell{}.Run(t, New, "letters", "redrive", "--allow-private", dir)
	if got.Status != 1 || got.Err != "✗ "+filepath.Join(dir, "README")+": not a dead letter\n" ||
		!strings.HasSuffix(got.Out, "\n✗ 1 delivered, 1 not a dead letter\n") {
		t.Errorf("status %d, standard error %q, standard output\n%s", got.Status, got.Err, got.Out)
	}
}

func TestRedriveAttemptTimeout(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // else the server does not see the connection end
		select {
		case <-r.Context().Done():
		case <-release:
		}
	}))
	defer s.Close()
	defer close(release)
	dir := t.TempDir()
	bury(t, dir, s.URL, "1", nil)
	got := clitest.Shell{}.Run(t, New, "letters", "redrive", "--allow-private", "--attempt-timeout", "20ms", dir)
	if got.Status != cli.HTTPError || !regexp.MustCompile(`POST +timeout +1 .* kept `).MatchString(got.Out) {
		t.Errorf("status %d, want 22:\n%s", got.Status, got.Out)
	}
}

// A report that cannot be written is an error, and no reason to send less.
func TestRedriveWithoutOutput(t *testing.T) {
	s, dir := clitest.Start(t, clitest.Fine), t.TempDir()
	bury(t, dir, s.URL, "1", nil)
	bury(t, dir, s.URL, "2", nil)
	got := clitest.Shell{Out: clitest.FullDisk{}}.Run(t, New, "letters", "redrive", "--allow-private", dir)
	if want := (clitest.Result{Status: 1, Err: "awsretry-deliver letters redrive: no space left on device\n"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if n := lettersIn(t, dir); n > 0 {
		t.Errorf("%d letters are left, want none", n)
	}
}

// With --json there is a line for every file, with its name, and the sum.
func TestRedriveJSONNamesEveryFile(t *testing.T) {
	s, dir := clitest.Start(t, clitest.Fine), t.TempDir()
	bury(t, dir, s.URL, "1", nil)
	if err := os.WriteFile(filepath.Join(dir, "README"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	names := namesIn(t, dir)
	for _, c := range []struct {
		name    string
		args    []string
		results string
		sum     string
	}{
		{"dry run", []string{"--dry-run"}, "unsent broken",
			`{"delivered":0,"kept":0,"broken":1,"busy":0,"unsent":1,"interrupted":false}`},
		{"sent", nil, "delivered broken", `{"delivered":1,"kept":0,"broken":1,"busy":0,"interrupted":false}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := clitest.Shell{}.Run(t, New, append([]string{"letters", "redrive", "--allow-private", "--json", dir}, c.args...)...)
			lines := strings.Split(strings.TrimSpace(got.Out), "\n")
			if got.Status != 1 || got.Err != "" || len(lines) != 3 || lines[2] != c.sum {
				t.Fatalf("status %d, %q, want the sum %s:\n%s", got.Status, got.Err, c.sum, got.Out)
			}
			for i, want := range strings.Fields(c.results) {
				var record struct{ Name, Result, Error string }
				err := json.Unmarshal([]byte(lines[i]), &record)
				if err != nil || record.Name != names[i] || record.Result != want ||
					(record.Error != "") != (want == "broken") {
					t.Errorf("%s: %v, want %s of %s", lines[i], err, want, names[i])
				}
			}
		})
	}
}

// Two redrives of one folder share its letters.
func TestRedriveBusy(t *testing.T) {
	dir := t.TempDir()
	var other clitest.Result
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		other = clitest.Shell{}.Run(t, New, "letters", "redrive", "--allow-private", dir)
	}))
	defer s.Close()
	bury(t, dir, s.URL, "1", nil)
	got := clitest.Shell{}.Run(t, New, "letters", "redrive", "--allow-private", dir)
	if got.Status != 0 {
		t.Errorf("status %d:\n%s", got.Status, got.Out)
	}
	if other.Status != cli.HTTPError || !strings.HasSuffix(other.Out, "✗ 0 delivered, 1 left to another redrive\n") {
		t.Errorf("the other's status is %d, want 22:\n%s", other.Status, other.Out)
	}
}

func TestRedriveBar(t *testing.T) {
	for _, c := range []struct {
		name  string
		shell clitest.Shell
		args  []string
		bar   bool
	}{
		{"terminal", clitest.Shell{Terminals: []string{"stderr"}}, nil, true},
		{"terminals", clitest.Shell{Terminals: []string{"stderr", "stdout"}}, nil, true},
		{"without colors",
			clitest.Shell{Terminals: []string{"stderr", "stdout"}, Env: map[string]string{"NO_COLOR": "1"}},
			nil, true},
		{"pipe", clitest.Shell{Terminals: []string{"stdout"}}, nil, false},
		{"JSON", clitest.Shell{Terminals: []string{"stderr", "stdout"}}, []string{"--json"}, false},
		{"dumb terminal",
			clitest.Shell{Terminals: []string{"stderr", "stdout"}, Env: map[string]string{"TERM": "dumb"}},
			nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, dir := clitest.Start(t, clitest.Unavailable, clitest.Fine, clitest.Forbidden), t.TempDir()
			bury(t, dir, s.URL, "1", nil)
			bury(t, dir, s.URL, "2", nil)
			got := c.shell.Run(t, New, append([]string{"letters", "redrive", "--allow-private", "--policy", atOnce(t), dir}, c.args...)...)
			if got.Status != cli.HTTPError {
				t.Fatalf("status %d, want 22", got.Status)
			}
			if !c.bar {
				if got.Err != "" {
					t.Errorf("standard error is %q", got.Err)
				}
				return
			}
			for _, want := range []string{"(0/2)", "503, attempt 2 in 0s", "(1/2)", "50%"} {
				if !strings.Contains(got.Err, want) {
					t.Errorf("%q does not show %q", got.Err, want)
				}
			}
			if !strings.HasSuffix(got.Err, "\x1b[2K\r") {
				t.Errorf("the bar is not removed: %q", got.Err)
			}
			color := regexp.MustCompile(`\x1b\[\d*m`)
			if color.MatchString(got.Err) {
				t.Errorf("the bar has colors: %q", got.Err)
			}
			want := slices.Contains(c.shell.Terminals, "stdout") && c.shell.Env["NO_COLOR"] == ""
			if color.MatchString(got.Out) != want {
				t.Errorf("the lines have colors: %t, want %t", !want, want)
			}
		})
	}
}
