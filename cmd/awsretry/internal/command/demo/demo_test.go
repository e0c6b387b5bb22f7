package demo

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
	"example.com/awsretry/cmd/internal/term"
)

// A pipeListener accepts connections in memory, which work in virtual time.
type pipeListener chan net.Conn

func (l pipeListener) Accept() (net.Conn, error) {
	conn, ok := <-l
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (l pipeListener) Close() error   { close(l); return nil }
func (l pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (l pipeListener) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	l <- server
	return client, nil
}

// toFile returns streams whose output is not a terminal.
func toFile(out io.Writer) term.Streams {
	return term.Streams{
		Out:        out,
		Getenv:     func(string) string { return "" },
		IsTerminal: func(io.Writer) bool { return false },
	}
}

func TestDemo(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		listener := make(pipeListener)
		server := startServer(listener)
		defer server.Close()
		base := &http.Transport{DialContext: listener.dial, MaxIdleConnsPerHost: 100}
		defer base.CloseIdleConnections()
		start := time.Now()
		if err := show(t.Context(), toFile(&out), server, base); err != nil {
			t.Error(err)
		}
		if elapsed := time.Since(start); elapsed > 15*time.Second {
			t.Errorf("it takes %v, want less than 15 s, and the time of the machine", elapsed)
		}
		time.Sleep(tableTime) // virtual: the handlers of canceled requests end
	})
	shown := out.String()
	if strings.Contains(shown, "✗") || strings.Count(shown, "✓") != 10 || strings.Contains(shown, "\x1b") {
		t.Errorf("checks do not hold, or are missing:\n%s", shown)
	}
	for _, want := range []string{
		`1\. Retries save a request`, `2\. A bad request`, `3\. A body`, `4\. The retry token bucket`,
		`5\. Adaptive mode`,
		`closed +transient`, `ServiceUnavailable`, `ValidationException`, `ThrottlingException`,
		`attempt 2 brought +4,194,304 bytes`, `is down +40 +40 +0 +0\n`, `works +40 +0 +0 +120 `, `adaptive +6 `,
		`All 10 checks hold, after \d`,
	} {
		if !regexp.MustCompile(want).MatchString(shown) {
			t.Errorf("it does not show %q:\n%s", want, shown)
		}
	}
}

func TestCheckFails(t *testing.T) {
	var out bytes.Buffer
	d := &demo{Streams: toFile(&out), ctx: t.Context(), palette: term.NewPalette(toFile(&out), &out)}
	d.check(true, "this holds")
	d.check(false, "this does not")
	if want := "   ✓ this holds\n   ✗ this does not (not as it should be)\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	if d.checks != 2 || d.failed != 1 {
		t.Errorf("%d of %d checks failed, want 1 of 2", d.failed, d.checks)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	got := clitest.Shell{Out: clitest.NewWatch("fails on purpose", cancel)}.RunContext(ctx, t, New, "demo")
	got.Check(t, cli.Interrupted, "", "awsretry demo: interrupted\n")
}

func TestErrors(t *testing.T) { clitest.Shell{}.Transcript(t, "errors.txt", nil, New) }
