package letters

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
)

// Ctrl-C while a letter is being sent: it is delivered and deleted, or kept,
// and the next one is not sent.
func TestRedriveInterruptedWhileSending(t *testing.T) {
	for _, c := range []struct {
		status int
		left   int
		want   string
	}{
		{200, 1, "\n✗ interrupted: 1 delivered, 1 not sent\n"},
		{503, 2, "\n✗ interrupted: 0 delivered, 1 kept, 1 not sent\n"}, // without the pause of up to 1,000 s
	} {
		t.Run(fmt.Sprint(c.status), func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			stopping := make(chan struct{})
			stderr := clitest.NewWatch("ends on its own", func() { close(stopping) })
			var requests atomic.Int32
			var aborted atomic.Bool
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				cancel()
				<-stopping
				requests.Add(1)
				aborted.Store(r.Context().Err() != nil)
				w.WriteHeader(c.status)
			}))
			defer s.Close()
			dir := t.TempDir()
			bury(t, dir, s.URL, "1", nil)
			bury(t, dir, s.URL, "2", nil)
			policy := strings.NewReader(`{"healthyRetryPolicy": {"minDelayTarget": 1000, "maxDelayTarget": 1000}}`)
			shell := clitest.Shell{In: policy, Err: stderr, Terminals: []string{"stderr"}}
			got := shell.RunContext(ctx, t, New, "letters", "redrive", "--allow-private", "--policy", "-", dir)
			if got.Status != cli.Interrupted || requests.Load() != 1 || aborted.Load() {
				t.Errorf("status %d, %d requests, aborted: %t; want 130, 1, false",
					got.Status, requests.Load(), aborted.Load())
			}
			if n := lettersIn(t, dir); n != c.left {
				t.Errorf("%d letters are left, want %d", n, c.left)
			}
			if !strings.HasSuffix(got.Out, c.want) {
				t.Errorf("%q is not the end of\n%s", c.want, got.Out)
			}
			if text := stderr.String(); !strings.HasSuffix(text, "\x1b[2K\r") {
				t.Errorf("the bar is not removed: %q", text)
			}
		})
	}
}

// Ctrl-C while the letters are counted ends redrive before it sends any.
func TestRedriveInterruptedWhileCounting(t *testing.T) {
	s, dir := clitest.Start(t, clitest.Fine), t.TempDir()
	bury(t, dir, s.URL, "x", nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := clitest.Shell{}.RunContext(ctx, t, New, "letters", "redrive", "--allow-private", dir)
	want := clitest.Result{Status: cli.Interrupted, Err: "awsretry-deliver letters redrive: interrupted\n"}
	if got != want || len(s.Bodies()) > 0 {
		t.Errorf("%+v, want %+v and nothing sent", got, want)
	}
}

// Ctrl-C ends a list between two letters.
func TestListInterrupted(t *testing.T) {
	dir := t.TempDir()
	for range 3 {
		bury(t, dir, "http://127.0.0.1:1/", "x", nil)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stdout := clitest.NewWatch(".letter", cancel)
	got := clitest.Shell{Out: stdout}.RunContext(ctx, t, New, "letters", "list", dir)
	if got.Status != cli.Interrupted || got.Err != "awsretry-deliver letters list: interrupted\n" ||
		strings.Count(stdout.String(), ".letter") != 1 {
		t.Errorf("%+v, want an interruption after one letter:\n%s", got, stdout)
	}
}
