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
	for len(urls) < len(paths) && lines.Scan() {
		if url, _, ok := strings.Cut(lines.Text(), " "); ok && strings.HasPrefix(url, "http://127.0.0.1:") {
			urls[url[strings.LastIndex(url, "/"):]] = url
		}
	}
	for _, c := range []struct {
		path   string
		status int
		want   []string
		args   []string
	}{
		{"/broken", cli.Failure, []string{"the body was cut off after 1,200,000 bytes: unexpected EOF"},
			[]string{"-o", os.DevNull}},
		{"/broken", 0, []string{"✓ 200 OK after 3 attempts", "3,000,000 bytes written to " + os.DevNull + ", 2 breaks"},
			[]string{"--resume", "-o", os.DevNull}},
		{"/flaky", 0, []string{"reset ", "ServiceUnavailable", "✓ 200 OK after 3 attempts"}, nil},
		{"/busy", 0, []string{"ThrottlingException", "✓ 200 OK after 2 attempts"}, nil},
		{"/invalid", cli.HTTPError, []string{"✗ 400 Bad Request (ValidationException) after 1 attempt"}, nil},
		{"/table", 0, []string{"✓ 200 OK after 1 attempt"}, nil},
	} {
		for _, time := range []string{"first", "second"} {
			t.Run(c.path+" for the "+time+" time", func(t *testing.T) {
				args := append([]string{"get", "--base-delay", "1ms", urls[c.path]}, c.args...)
				got := clitest.Shell{}.Run(t, get.New, args...)
				for _, want := range c.want {
					if got.Status != c.status || !strings.Contains(got.Err, want) {
						t.Errorf("%+v, want status %d and %q", got, c.status, want)
					}
				}
			})
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
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	got := clitest.Shell{}.Run(t, New, "demo", "--serve", "--port", port)
	if got.Status != cli.Failure || !strings.Contains(got.Err, "--port: ") || !strings.Contains(got.Err, port) {
		t.Errorf("%+v, want status 1 and the port", got)
	}
}
