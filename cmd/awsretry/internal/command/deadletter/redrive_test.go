package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/delivery"
)

var forbidden = reply{status: 403, body: `{"__type":"AccessDeniedException"}`}

// atOnce is a policy of two retries without pauses.
func atOnce(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "policy.json")
	policy := `{"healthyRetryPolicy": {"numRetries": 2, "numNoDelayRetries": 2}, "requestPolicy": {"headerContentType": "application/json"}}`
	if err := os.WriteFile(name, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// lettersIn is the number of files in dir.
func lettersIn(t *testing.T, dir string) int {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

func TestRedrive(t *testing.T) {
	for _, c := range []struct {
		name    string
		replies []reply
		args    []string
		status  int
		sent    string // the bodies, in order
		left    int
		verdict string
	}{
		{"all delivered", []reply{fine}, nil, 0, "1 2 3", 0, "✓ 3 delivered\n"},
		{"one refused", []reply{fine, forbidden, fine}, nil, exitHTTPError, "1 2 3", 1, "✗ 2 delivered, 1 kept\n"},
		{"one unanswered", []reply{closed, fine, fine}, nil, exitHTTPError, "1 2 3", 1, "✗ 2 delivered, 1 kept\n"},
		{"redirected", []reply{{status: 302, header: map[string]string{"Location": "/elsewhere"}}, fine, fine}, nil, exitHTTPError, "1 2 3", 1, "✗ 2 delivered, 1 kept\n"},
		{"no retries", []reply{unavailable}, nil, exitHTTPError, "1 2 3", 3, "✗ 0 delivered, 3 kept\n"},
		{"retries", []reply{unavailable, fine, unavailable, unavailable, fine, fine}, []string{"--policy"}, 0, "1 1 2 2 2 3", 0, "✓ 3 delivered\n"},
		{"retries used up", []reply{unavailable, unavailable, unavailable, fine, forbidden}, []string{"--policy"}, exitHTTPError, "1 1 1 2 3", 2, "✗ 1 delivered, 2 kept\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, dir := serve(t, c.replies...), t.TempDir()
			for _, body := range []string{"1", "2", "3"} {
				bury(t, dir, s.URL+"/hook", body, nil)
			}
			args := []string{"deadletter", "redrive", dir}
			if len(c.args) > 0 {
				args = append(args, "--policy", atOnce(t))
			}
			got := shell{}.run(t, args...)
			if got.status != c.status || got.stderr != "" {
				t.Errorf("status %d, standard error %q; want %d and none", got.status, got.stderr, c.status)
			}
			if sent := strings.Join(s.received(), " "); sent != c.sent {
				t.Errorf("%q was sent, want %q", sent, c.sent)
			}
			if n := lettersIn(t, dir); n != c.left {
				t.Errorf("%d letters are left, want %d", n, c.left)
			}
			if !strings.HasSuffix(got.stdout, "\n\n"+c.verdict) {
				t.Errorf("%q is not the end of\n%s", c.verdict, got.stdout)
			}
		})
	}
}

func TestRedriveGolden(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		s, dir, policy := serve(t, fine, unavailable, fine, forbidden), t.TempDir(), atOnce(t)
		bury(t, dir, s.URL+"/hooks/orders?key=secret", "1", nil)
		bury(t, dir, s.URL+"/hooks/invoices", "2", nil)
		bury(t, dir, s.URL+"/hooks/invoices/17", "3", func(d *delivery.DeadLetter) { d.Request.Method = "PATCH" })
		bury(t, dir, "http://127.0.0.1:1/hooks", "4", nil)
		golden1, args := "deadletter-redrive.txt", []string{"deadletter", "redrive", "--policy", policy, dir}
		if asJSON {
			golden1, args = "deadletter-redrive.json", append(args, "--json")
		}
		got := shell{}.run(t, args...)
		if got.status != exitHTTPError || got.stderr != "" {
			t.Fatalf("status %d, standard error %q; want 22 and none", got.status, got.stderr)
		}
		masked := strings.NewReplacer(strings.TrimPrefix(s.URL, "http://"), "HOST", dir, "DIR", policy, "POLICY").Replace(got.stdout)
		masked = regexp.MustCompile(` +[\d.]+ m?s  (kept|delivered)`).ReplaceAllString(masked, "      TIME  $1")
		masked = regexp.MustCompile(`\d{8}T\d{6}\.\d{9}Z-[0-9a-f]{16}\.letter`).ReplaceAllString(masked, "20000101T000000.000000000Z-RANDOM0123456789.letter")
		masked = regexp.MustCompile(`"elapsed_ms":[\d.]+`).ReplaceAllString(masked, `"elapsed_ms":0`)
		golden(t, golden1, masked)
		if asJSON {
			for line := range strings.Lines(got.stdout) {
				if !json.Valid([]byte(line)) {
					t.Errorf("%q is no JSON", line)
				}
			}
		}
	}
}

func TestRedriveSendsWhatWasKept(t *testing.T) {
	s, dir := serve(t, fine), t.TempDir()
	for range 2 {
		bury(t, dir, s.URL+"/hook?key=1", "body", func(d *delivery.DeadLetter) {
			d.Request.Header["x-Key"] = []string{"v"}
			d.Request.Header.Set("Content-Type", "text/csv")
		})
	}
	policy := atOnce(t)
	data, err := os.ReadFile(policy)
	if err != nil {
		t.Fatal(err)
	}
	first, second := t.TempDir(), t.TempDir() // a letter each
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, to := range []string{first, second} {
		if err := os.Rename(filepath.Join(dir, files[i].Name()), filepath.Join(to, files[i].Name())); err != nil {
			t.Fatal(err)
		}
	}
	if got := (shell{}).run(t, "deadletter", "redrive", first); got.status != 0 {
		t.Fatal(got.stdout, got.stderr)
	}
	if got := (shell{stdin: bytes.NewReader(data)}).run(t, "deadletter", "redrive", "--policy", "-", second); got.status != 0 {
		t.Fatal(got.stdout, got.stderr)
	}
	for i, contentType := range []string{"text/csv", "application/json"} { // without a policy its own, else the policy's
		req := s.requests[i]
		if req.Method != "POST" || req.URL.String() != "/hook?key=1" || req.Header.Get("X-Key") != "v" || req.Header.Get("Content-Type") != contentType {
			t.Errorf("%s %s, %v; want the request with content type %s", req.Method, req.URL, req.Header, contentType)
		}
	}
	if bodies := s.received(); !slices.Equal(bodies, []string{"body", "body"}) {
		t.Errorf("the bodies are %q", bodies)
	}
}

func TestRedriveOfOtherFiles(t *testing.T) {
	s, dir := serve(t, fine), t.TempDir()
	bury(t, dir, s.URL, "1", nil)
	if err := os.WriteFile(filepath.Join(dir, "README"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := shell{}.run(t, "deadletter", "redrive", dir)
	if got.status != 1 || got.stderr != "✗ "+filepath.Join(dir, "README")+": not a dead letter\n" || !strings.HasSuffix(got.stdout, "\n✗ 1 delivered, 1 not a dead letter\n") {
		t.Errorf("status %d, standard error %q, standard output\n%s", got.status, got.stderr, got.stdout)
	}

	if got := (shell{}).run(t, "deadletter", "redrive", t.TempDir()); got.status != 0 || !strings.HasPrefix(got.stdout, "No dead letters in ") {
		t.Errorf("status %d, %q; want 0, and that there are none", got.status, got.stdout)
	}
}

func TestRedriveAttemptTimeout(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // else the end of the connection is not noticed
		select {
		case <-r.Context().Done():
		case <-release:
		}
	}))
	defer s.Close()
	defer close(release)
	dir := t.TempDir()
	bury(t, dir, s.URL, "1", nil)
	got := shell{}.run(t, "deadletter", "redrive", "--attempt-timeout", "20ms", dir)
	if got.status != exitHTTPError || !regexp.MustCompile(`POST +timeout +1 .* kept `).MatchString(got.stdout) {
		t.Errorf("status %d, want 22:\n%s", got.status, got.stdout)
	}
}

// What cannot be told is an error, and no reason to send less.
func TestRedriveWithoutOutput(t *testing.T) {
	s, dir := serve(t, fine), t.TempDir()
	bury(t, dir, s.URL, "1", nil)
	bury(t, dir, s.URL, "2", nil)
	var stderr bytes.Buffer
	status := run(t.Context(), []string{"deadletter", "redrive", dir}, process{
		stdin:      strings.NewReader(""),
		stdout:     fullDisk{},
		stderr:     &stderr,
		getenv:     func(string) string { return "" },
		isTerminal: func(io.Writer) bool { return false },
	})
	if status != 1 || stderr.String() != "awsretry deadletter redrive: no space left on device\n" || lettersIn(t, dir) != 0 {
		t.Errorf("status %d, %q, %d letters left; want 1, the reason, and none", status, stderr.String(), lettersIn(t, dir))
	}
}

func TestRedriveLimits(t *testing.T) {
	for _, c := range []struct {
		name    string
		replies []reply
		args    []string
		status  int
		sent    string
		left    int
		verdict string
	}{
		{"dry run", []reply{fine}, []string{"--dry-run"}, 0, "", 4, "✓ dry run: 4 would be sent\n"},
		{"dry run with a limit", []reply{fine}, []string{"--dry-run", "--limit", "3"}, 0, "", 4, "✓ dry run: 3 would be sent\n"},
		{"limit", []reply{fine}, []string{"--limit", "3"}, 0, "1 2 3", 1, "✓ 3 delivered\n"},
		{"limit with a failure", []reply{forbidden, fine}, []string{"--limit", "2"}, exitHTTPError, "1 2", 3, "✗ 1 delivered, 1 kept\n"},
		{"failures in a row", []reply{fine, forbidden}, []string{"--max-failures", "2"}, exitHTTPError, "1 2 3", 3,
			"✗ too many failures in a row: 1 delivered, 2 kept, 1 not sent\n"},
		{"failures that are not in a row", []reply{forbidden, fine, forbidden, fine}, []string{"--max-failures", "2"}, exitHTTPError, "1 2 3 4", 2,
			"✗ 2 delivered, 2 kept\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, dir := serve(t, c.replies...), t.TempDir()
			for _, body := range []string{"1", "2", "3", "4"} {
				bury(t, dir, s.URL+"/hook?key=secret", body, nil)
			}
			names := namesIn(t, dir)
			got := shell{}.run(t, append([]string{"deadletter", "redrive", dir}, c.args...)...)
			if got.status != c.status || got.stderr != "" || !strings.HasSuffix(got.stdout, "\n\n"+c.verdict) {
				t.Errorf("status %d, %q, want %d and %q in the end:\n%s", got.status, got.stderr, c.status, c.verdict, got.stdout)
			}
			if sent := strings.Join(s.received(), " "); sent != c.sent || len(namesIn(t, dir)) != c.left {
				t.Errorf("%q was sent and %d letters are left, want %q and %d", sent, len(namesIn(t, dir)), c.sent, c.left)
			}
			if !strings.Contains(got.stdout, names[0]) || strings.Contains(got.stdout, names[3]) != (strings.Contains(c.sent, "4") || c.name == "dry run") || strings.Contains(got.stdout, "secret") {
				t.Errorf("the names are not those of the letters:\n%s", got.stdout)
			}
		})
	}
}

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

// With --json there is a line for every file, with its name, and the sum.
func TestRedriveJSONNamesEveryFile(t *testing.T) {
	s, dir := serve(t, fine), t.TempDir()
	bury(t, dir, s.URL, "1", nil)
	if err := os.WriteFile(filepath.Join(dir, "README"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	names := namesIn(t, dir)
	for _, c := range []struct {
		args    []string
		results string
		sum     string
	}{
		{[]string{"--dry-run"}, "unsent broken", `{"delivered":0,"kept":0,"broken":1,"busy":0,"unsent":1,"interrupted":false}`},
		{nil, "delivered broken", `{"delivered":1,"kept":0,"broken":1,"busy":0,"interrupted":false}`},
	} {
		got := shell{}.run(t, append([]string{"deadletter", "redrive", "--json", dir}, c.args...)...)
		lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
		if got.status != 1 || got.stderr != "" || len(lines) != 3 || lines[2] != c.sum {
			t.Fatalf("status %d, %q, want the sum %s:\n%s", got.status, got.stderr, c.sum, got.stdout)
		}
		for i, want := range strings.Fields(c.results) {
			var record struct{ Name, Result, Error string }
			if err := json.Unmarshal([]byte(lines[i]), &record); err != nil || record.Name != names[i] || record.Result != want || (record.Error != "") != (want == "broken") {
				t.Errorf("%s: %v, want %s of %s", lines[i], err, want, names[i])
			}
		}
	}
}

// A closingWriter is a pipe whose reader goes away after some lines.
type closingWriter struct {
	lines int
	text  strings.Builder
}

func (w *closingWriter) Write(p []byte) (int, error) {
	w.lines -= bytes.Count(p, []byte("\n"))
	if w.lines < 0 {
		return 0, &os.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}
	}
	return w.text.Write(p)
}

// When nobody reads the report any more, nothing more is sent, and what was delivered is gone.
func TestRedriveWithoutReader(t *testing.T) {
	for lines, c := range []struct {
		sent string
		left int
	}{
		4: {"1", 2}, // the first row is not read
		5: {"1 2", 1},
		6: {"1 2 3", 0},
	} {
		if lines < 4 {
			c.left = 3 // the header is not read
		}
		s, dir := serve(t, fine), t.TempDir()
		for _, body := range []string{"1", "2", "3"} {
			bury(t, dir, s.URL, body, nil)
		}
		var stderr bytes.Buffer
		status := run(t.Context(), []string{"deadletter", "redrive", dir}, process{
			stdin:      strings.NewReader(""),
			stdout:     &closingWriter{lines: lines},
			stderr:     &stderr,
			getenv:     func(string) string { return "" },
			isTerminal: func(io.Writer) bool { return false },
		})
		if sent := strings.Join(s.received(), " "); status != 1 || sent != c.sent || lettersIn(t, dir) != c.left {
			t.Errorf("%d lines: status %d, %q sent, %d left; want 1, %q and %d", lines, status, sent, lettersIn(t, dir), c.sent, c.left)
		}
		if want := fmt.Sprintf("standard output was closed: interrupted: %d delivered", 3-c.left); lines < 6 && !strings.Contains(stderr.String(), want) {
			t.Errorf("%d lines: %q does not say %q", lines, stderr.String(), want)
		}
	}
}

// Two redrives of one folder share its letters.
func TestRedriveBusy(t *testing.T) {
	dir := t.TempDir()
	var other ran
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		other = shell{}.run(t, "deadletter", "redrive", dir)
	}))
	defer s.Close()
	bury(t, dir, s.URL, "1", nil)
	got := shell{}.run(t, "deadletter", "redrive", dir)
	if got.status != 0 {
		t.Errorf("status %d:\n%s", got.status, got.stdout)
	}
	if other.status != exitHTTPError || !strings.HasSuffix(other.stdout, "✗ 0 delivered, 1 left to another redrive\n") {
		t.Errorf("the other's status is %d, want 22:\n%s", other.status, other.stdout)
	}
}

func TestRedriveBar(t *testing.T) {
	for _, c := range []struct {
		name  string
		shell shell
		args  []string
		bar   bool
	}{
		{"terminal", shell{terminals: []string{"stderr"}}, nil, true},
		{"terminals", shell{terminals: []string{"stderr", "stdout"}}, nil, true},
		{"without colours", shell{terminals: []string{"stderr", "stdout"}, env: map[string]string{"NO_COLOR": "1"}}, nil, true},
		{"pipe", shell{terminals: []string{"stdout"}}, nil, false},
		{"JSON", shell{terminals: []string{"stderr", "stdout"}}, []string{"--json"}, false},
		{"dumb terminal", shell{terminals: []string{"stderr", "stdout"}, env: map[string]string{"TERM": "dumb"}}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, dir := serve(t, unavailable, fine, forbidden), t.TempDir()
			bury(t, dir, s.URL, "1", nil)
			bury(t, dir, s.URL, "2", nil)
			got := c.shell.run(t, append([]string{"deadletter", "redrive", "--policy", atOnce(t), dir}, c.args...)...)
			if got.status != exitHTTPError {
				t.Fatalf("status %d, want 22", got.status)
			}
			if !c.bar {
				if got.stderr != "" {
					t.Errorf("standard error is %q", got.stderr)
				}
				return
			}
			for _, want := range []string{"(0/2)", "503, attempt 2 in 0 s", "(1/2)", "50%"} {
				if !strings.Contains(got.stderr, want) {
					t.Errorf("%q does not show %q", got.stderr, want)
				}
			}
			if !strings.HasSuffix(got.stderr, "\x1b[2K\r") {
				t.Errorf("the bar is not taken away: %q", got.stderr)
			}
			colour := regexp.MustCompile(`\x1b\[\d*m`)
			if colour.MatchString(got.stderr) {
				t.Errorf("the bar has colours: %q", got.stderr)
			}
			if want := slices.Contains(c.shell.terminals, "stdout") && c.shell.env["NO_COLOR"] == ""; colour.MatchString(got.stdout) != want {
				t.Errorf("the lines have colours: %t, want %t", !want, want)
			}
		})
	}
}

// A watchedWriter tells when something is written.
type watchedWriter struct {
	mu      sync.Mutex
	text    strings.Builder
	awaited string
	there   chan struct{}
}

func (w *watchedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := strings.Contains(w.text.String(), w.awaited)
	w.text.Write(p)
	if !before && strings.Contains(w.text.String(), w.awaited) {
		close(w.there)
	}
	return len(p), nil
}

// Ctrl-C while a letter is being sent: it is delivered and deleted, or kept, and the next one is not sent.
func TestRedriveInterruptedWhileSending(t *testing.T) {
	for _, c := range []struct {
		status int
		left   int
		want   string
	}{
		{200, 1, "\n✗ interrupted: 1 delivered, 1 not sent\n"},
		{503, 2, "\n✗ interrupted: 0 delivered, 1 kept, 1 not sent\n"}, // and its pause, of up to 1,000 s, is not begun
	} {
		t.Run(fmt.Sprint(c.status), func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			stderr := &watchedWriter{awaited: "comes to its end", there: make(chan struct{})}
			var mu sync.Mutex
			requests, aborted := 0, false
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				cancel()
				<-stderr.there
				mu.Lock()
				defer mu.Unlock()
				requests++
				aborted = aborted || r.Context().Err() != nil
				w.WriteHeader(c.status)
			}))
			defer s.Close()
			dir := t.TempDir()
			bury(t, dir, s.URL, "1", nil)
			bury(t, dir, s.URL, "2", nil)
			var stdout bytes.Buffer
			status := run(ctx, []string{"deadletter", "redrive", "--policy", "-", dir}, process{
				stdin:      strings.NewReader(`{"healthyRetryPolicy": {"minDelayTarget": 1000, "maxDelayTarget": 1000}}`),
				stdout:     &stdout,
				stderr:     stderr,
				getenv:     func(string) string { return "" },
				isTerminal: func(w io.Writer) bool { return w == io.Writer(stderr) },
			})
			mu.Lock()
			defer mu.Unlock()
			if status != 1 || requests != 1 || aborted {
				t.Errorf("status %d, %d requests, aborted: %t; want 1, 1, false", status, requests, aborted)
			}
			if n := lettersIn(t, dir); n != c.left {
				t.Errorf("%d letters are left, want %d", n, c.left)
			}
			if !strings.HasSuffix(stdout.String(), c.want) {
				t.Errorf("%q is not the end of\n%s", c.want, stdout.String())
			}
			if text := stderr.text.String(); !strings.HasSuffix(text, "\x1b[2K\r") {
				t.Errorf("the bar is not taken away: %q", text)
			}
		})
	}
}

// A pause ends at once when the stop is asked for, an attempt does not.
func TestGentleStop(t *testing.T) {
	for _, c := range []struct {
		name     string
		asked    time.Duration // after the beginning
		elapsed  time.Duration
		attempts int
		said     bool
	}{
		{"in the first attempt", 2 * time.Second, 5 * time.Second, 1, true},
		{"in the pause", 8 * time.Second, 8 * time.Second, 1, false},
		{"in the second attempt", 17 * time.Second, 20 * time.Second, 2, true},
		{"not in time", time.Hour, 35 * time.Second, 3, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stop, attempts, said := newGentleStop(), 0, false
				transport := &awsretry.Transport{
					Base: stop.base(roundTripper(func(req *http.Request) (*http.Response, error) {
						attempts++
						select {
						case <-time.After(5 * time.Second):
							return &http.Response{StatusCode: 503, Body: http.NoBody, Request: req}, nil
						case <-req.Context().Done():
							return nil, req.Context().Err()
						}
					})),
					Backoff: awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return 10 * time.Second }),
				}
				interrupted, cancel := context.WithTimeout(context.Background(), c.asked)
				defer cancel()
				end := stop.follow(interrupted, func() { said = true })
				ctx, cancelRequest := stop.context(interrupted)
				defer cancelRequest(nil)
				start := time.Now()
				req := httptest.NewRequest("GET", "http://127.0.0.1/", nil)
				resp, err := transport.RoundTrip(req.WithContext(awsretry.WithObserver(ctx, stop.attempted)))
				end()
				if elapsed := time.Since(start); elapsed != c.elapsed || attempts != c.attempts || said != c.said {
					t.Errorf("%d attempts in %v, said: %t; want %d in %v, %t", attempts, elapsed, said, c.attempts, c.elapsed, c.said)
				}
				if stopped := c.asked < time.Minute; stopped != (err != nil) || !stopped && resp.StatusCode != 503 {
					t.Errorf("%v, %v", resp, err)
				}
			})
		})
	}
}

// A stop that was asked for before a request began ends it.
func TestGentleStopBefore(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := newGentleStop()
	end := stop.follow(ctx, func() { t.Error("nothing is under way") })
	cancel(io.ErrClosedPipe)
	end()
	next, cancelNext := stop.context(ctx)
	defer cancelNext(nil)
	if context.Cause(next) != io.ErrClosedPipe {
		t.Errorf("the cause is %v", context.Cause(next))
	}
}
