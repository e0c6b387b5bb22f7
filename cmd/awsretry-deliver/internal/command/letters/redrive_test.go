package letters

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
	"example.com/awsretry/delivery"
)

// runRedrive redrives the letters in dir, which are for loopback.
func runRedrive(t *testing.T, shell clitest.Shell, dir string, args ...string) clitest.Result {
	t.Helper()
	return shell.Run(t, New, append([]string{"letters", "redrive", "--allow-private", dir}, args...)...)
}

// atOnce returns the file of a policy of two retries without pauses.
func atOnce(t *testing.T) string {
	t.Helper()
	return clitest.File(t, "policy.json", `{"healthyRetryPolicy": {"numRetries": 2, "numNoDelayRetries": 2}}`)
}

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
	policy := atOnce(t)
	for _, c := range []struct {
		name    string
		replies []clitest.Reply
		args    []string
		status  int
		sent    string // the bodies, in order
		left    int
		verdict string
	}{
		{"no retries", []clitest.Reply{clitest.Unavailable}, nil, cli.HTTPError, "1 2 3", 3, "✗ 0 delivered, 3 kept\n"},
		{"retries",
			[]clitest.Reply{clitest.Unavailable, clitest.Fine, clitest.Unavailable, clitest.Unavailable, clitest.Fine},
			[]string{"--policy", policy}, 0, "1 1 2 2 2 3", 0, "✓ 3 delivered\n"},
		{"dry run", []clitest.Reply{clitest.Fine}, []string{"--dry-run", "--limit", "2"}, 0, "", 3,
			"✓ dry run: 2 would be sent\n"},
		{"limit", []clitest.Reply{clitest.Fine}, []string{"--limit", "2"}, 0, "1 2", 1, "✓ 2 delivered\n"},
		{"failures in a row", []clitest.Reply{clitest.Forbidden}, []string{"--max-failures", "2"}, cli.HTTPError, "1 2", 3,
			"✗ too many failures in a row: 0 delivered, 2 kept, 1 not sent\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, dir := clitest.Start(t, c.replies...), t.TempDir()
			for _, body := range []string{"1", "2", "3"} {
				bury(t, dir, s.URL+"/hook", body, nil)
			}
			got := runRedrive(t, clitest.Shell{}, dir, c.args...)
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
	for file, flags := range map[string][]string{"redrive.txt": nil, "redrive.json": {"--json"}} {
		t.Run(file, func(t *testing.T) {
			s := clitest.Start(t, clitest.Fine, clitest.Unavailable, clitest.Fine, clitest.Forbidden)
			dir, policy := t.TempDir(), atOnce(t)
			bury(t, dir, s.URL+"/hooks/orders?key=secret", "1", nil)
			bury(t, dir, s.URL+"/hooks/invoices", "2", nil)
			bury(t, dir, s.URL+"/hooks/invoices/17", "3", func(d *delivery.DeadLetter) { d.Request.Method = "PATCH" })
			bury(t, dir, "http://127.0.0.1:1/hooks", "4", nil)
			got := runRedrive(t, clitest.Shell{}, dir, append(flags, "--policy", policy)...)
			if got.Status != cli.HTTPError || got.Err != "" {
				t.Fatalf("status %d, standard error %q; want 22 and none", got.Status, got.Err)
			}
			masked := strings.NewReplacer(strings.TrimPrefix(s.URL, "http://"), "HOST", dir, "DIR", policy, "POLICY").
				Replace(got.Out)
			clitest.Golden(t, file, mask(masked))
		})
	}
}

func TestRedriveAttemptTimeout(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // else the server does not see the connection end
		<-r.Context().Done()
	}))
	defer s.Close()
	dir := t.TempDir()
	bury(t, dir, s.URL, "1", nil)
	got := runRedrive(t, clitest.Shell{}, dir, "--attempt-timeout", "20ms")
	if got.Status != cli.HTTPError || !regexp.MustCompile(`POST +timeout +1 .* kept `).MatchString(got.Out) {
		t.Errorf("status %d, want 22:\n%s", got.Status, got.Out)
	}
}

// A report that cannot be written is an error, but all letters are sent.
func TestRedriveWithoutOutput(t *testing.T) {
	s, dir := clitest.Start(t, clitest.Fine), t.TempDir()
	bury(t, dir, s.URL, "1", nil)
	bury(t, dir, s.URL, "2", nil)
	got := runRedrive(t, clitest.Shell{Out: clitest.FullDisk{}}, dir)
	want := clitest.Result{Status: 1, Err: "awsretry-deliver letters redrive: no space left on device\n"}
	if n := lettersIn(t, dir); got != want || n > 0 {
		t.Errorf("%+v, want %+v; %d letters are left", got, want, n)
	}
}

// Two redrives of one folder share its letters.
func TestRedriveBusy(t *testing.T) {
	dir := t.TempDir()
	var other clitest.Result
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		other = runRedrive(t, clitest.Shell{}, dir)
	}))
	defer s.Close()
	bury(t, dir, s.URL, "1", nil)
	if got := runRedrive(t, clitest.Shell{}, dir); got.Status != 0 {
		t.Errorf("status %d:\n%s", got.Status, got.Out)
	}
	if other.Status != cli.HTTPError || !strings.HasSuffix(other.Out, "✗ 0 delivered, 1 left to another redrive\n") {
		t.Errorf("the other's status is %d, want 22:\n%s", other.Status, other.Out)
	}
}

func TestRedriveBar(t *testing.T) {
	both, noColor := []string{"stderr", "stdout"}, map[string]string{"NO_COLOR": "1"}
	color := regexp.MustCompile(`\x1b\[\d*m`)
	for _, c := range []struct {
		name   string
		shell  clitest.Shell
		args   []string
		bar    bool
		colors bool // of the lines
	}{
		{"terminals", clitest.Shell{Terminals: both}, nil, true, true},
		{"without colors", clitest.Shell{Terminals: both, Env: noColor}, nil, true, false},
		{"pipe", clitest.Shell{Terminals: []string{"stdout"}}, nil, false, true},
		{"JSON", clitest.Shell{Terminals: both}, []string{"--json"}, false, false},
		{"dumb terminal", clitest.Shell{Terminals: both, Env: map[string]string{"TERM": "dumb"}}, nil, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, dir := clitest.Start(t, clitest.Unavailable, clitest.Fine, clitest.Forbidden), t.TempDir()
			bury(t, dir, s.URL, "1", nil)
			bury(t, dir, s.URL, "2", nil)
			got := runRedrive(t, c.shell, dir, append(c.args, "--policy", atOnce(t))...)
			if got.Status != cli.HTTPError || color.MatchString(got.Out) != c.colors || !c.bar && got.Err != "" {
				t.Errorf("%+v, want status 22, and colors: %t", got, c.colors)
			}
			if !c.bar {
				return
			}
			for _, want := range []string{"(0/2)", "503, attempt 2 in 0s", "(1/2)", "50%"} {
				if !strings.Contains(got.Err, want) {
					t.Errorf("%q does not show %q", got.Err, want)
				}
			}
			if !strings.HasSuffix(got.Err, "\x1b[2K\r") || color.MatchString(got.Err) {
				t.Errorf("the bar is not removed, or has colors: %q", got.Err)
			}
		})
	}
}
