package demo

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"example.com/awsretry/cmd/awsretry/internal/command/get"
	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
)

// The example of the README: the server of the demo, and requests to it.
func TestServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	printed, stdout := io.Pipe()
	done := make(chan clitest.Result, 1)
	go func() {
		done <- clitest.Shell{Out: stdout}.RunContext(ctx, t, New, "demo", "--serve")
		stdout.Close()
	}()
	urls := map[string]string{}
	lines := bufio.NewScanner(printed)
	for len(urls) < len(shown) && lines.Scan() {
		if url, _, ok := strings.Cut(lines.Text(), " "); ok && strings.HasPrefix(url, "http://127.0.0.1:") {
			urls[url[strings.LastIndex(url, "/"):]] = url
		}
	}
	for _, c := range []struct {
		path   string
		args   []string
		status int
		want   []string
	}{
		{"/broken", []string{"-o", os.DevNull}, cli.Failure,
			[]string{"the body was cut off after 1,200,000 bytes: unexpected EOF"}},
		{"/broken", []string{"--resume", "-o", os.DevNull}, 0,
			[]string{"✓ 200 OK after 3 attempts", "3,000,000 bytes written to " + os.DevNull + ", 2 breaks"}},
		{"/flaky", nil, 0, []string{"closed ", "ServiceUnavailable", "✓ 200 OK after 3 attempts"}},
		{"/busy", nil, 0, []string{"ThrottlingException", "✓ 200 OK after 2 attempts"}},
		{"/invalid", nil, cli.HTTPError, []string{"✗ 400 Bad Request (ValidationException) after 1 attempt"}},
		{"/table", nil, 0, []string{"✓ 200 OK after 1 attempt"}},
	} {
		for range 2 { // each begins again
			args := append([]string{"get", "--base-delay", "1ms", urls[c.path]}, c.args...)
			got := clitest.Shell{}.Run(t, get.New, args...)
			got.Check(t, c.status, got.Out, c.want...)
		}
	}
	cancel()
	if got := <-done; got.Status != 0 {
		t.Errorf("%+v, want status 0", got)
	}
}

func TestServeEnds(t *testing.T) {
	got := clitest.Shell{}.Run(t, New, "demo", "--serve", "--duration", "10ms")
	if got.Status != 0 || !strings.Contains(got.Out, "Serving for 10ms") {
		t.Errorf("%+v, want status 0", got)
	}
}

func TestServeOnTakenPort(t *testing.T) {
	taken := clitest.Must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	got := clitest.Shell{}.Run(t, New, "demo", "--serve", "--port", port)
	got.Check(t, cli.Failure, "", "--port: ", port)
}
