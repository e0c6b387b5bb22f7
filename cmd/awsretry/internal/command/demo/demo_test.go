package demo

import (
	"bytes"
	"context"
	"io"
	"math"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
	"example.com/awsretry/cmd/internal/term"
)

// A pipeListener accepts connections in memory, which work in virtual time.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{make(chan net.Conn), make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { close(l.closed); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (l *pipeListener) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	l.conns <- server
	return client, nil
}

// inPipes shows the demo in virtual time.
func inPipes(t *testing.T) (shown string, elapsed time.Duration, err error) {
	synctest.Test(t, func(t *testing.T) {
		listener := newPipeListener()
		server := startServer(listener)
		defer server.stop()
		base := &http.Transport{DialContext: listener.dial, MaxIdleConnsPerHost: 100}
		defer base.CloseIdleConnections()
		var out bytes.Buffer
		streams := term.Streams{
			Out:        &out,
			Getenv:     func(string) string { return "" },
			IsTerminal: func(io.Writer) bool { return false },
		}
		start := time.Now()
		err = show(t.Context(), streams, server, base)
		shown, elapsed = out.String(), time.Since(start)
		time.Sleep(tableTime) // virtual: the handlers of canceled requests end
	})
	return shown, elapsed, err
}

func TestDemo(t *testing.T) {
	shown, elapsed, err := inPipes(t)
	if err != nil {
		t.Error(err)
	}
	if elapsed > 15*time.Second {
		t.Errorf("it takes %v, want less than 15 s, and the time of the machine", elapsed)
	}
	if strings.Contains(shown, "✗") || strings.Count(shown, "✓") != 10 || strings.Contains(shown, "\x1b") {
		t.Errorf("checks do not hold, or are missing:\n%s", shown)
	}
	for _, want := range []string{
		`1\. Retries save a request`, `2\. A bad request`, `3\. A body`, `4\. The retry token bucket`,
		`5\. Adaptive mode`,
		`closed +transient`, `ServiceUnavailable`, `ValidationException`, `ThrottlingException`,
		`attempt 2 brought +4,194,304 bytes`, `is down +40 +40 +0 +0\n`, `works +40 +0 +0 +120 `, `adaptive +8 `,
		`All 10 checks hold, after \d`,
	} {
		if !regexp.MustCompile(want).MatchString(shown) {
			t.Errorf("it does not show %q:\n%s", want, shown)
		}
	}
}

func TestCheckFails(t *testing.T) {
	listener, err := listen(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	server, base := startServer(listener), &http.Transport{}
	defer server.stop()
	defer base.CloseIdleConnections()
	var out bytes.Buffer
	d := &demo{
		ctx:     t.Context(),
		w:       &out,
		width:   math.MaxInt,
		palette: term.NewPalette(term.Streams{IsTerminal: func(io.Writer) bool { return false }}, &out),
		server:  server,
		base:    base,
		backoff: awsretry.Exponential{Initial: time.Millisecond, Max: time.Millisecond},
	}
	server.seen["/flaky"] = 1 // so the server resets no connection
	if err := d.savedRequest(); err != nil {
		t.Fatal(err)
	}
	if d.checks != 1 || d.failed != 1 || !strings.Contains(out.String(), "✗") {
		t.Errorf("%d of %d checks failed, want 1 of 1:\n%s", d.failed, d.checks, &out)
	}
}

// A cancelingWriter interrupts the command at its first output.
type cancelingWriter struct{ cancel context.CancelFunc }

func (w cancelingWriter) Write(p []byte) (int, error) {
	w.cancel()
	return len(p), nil
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	got := clitest.Shell{Out: cancelingWriter{cancel}}.RunContext(ctx, t, New, "demo")
	if got.Status != cli.Interrupted || got.Err != "awsretry demo: interrupted\n" {
		t.Errorf("%+v, want status 1 and the interruption", got)
	}
}

func TestUsageErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"port out of range", []string{"--serve", "--port", "70000"},
			`--port is "70000"; it must be a whole number, 1 to 65535`},
		{"port alone", []string{"--port", "8080"}, "--port is for --serve, which is missing"},
		{"time alone", []string{"--duration", "1m"}, "--duration is for --serve, which is missing"},
		{"argument", []string{"x"}, `"x" is one too many`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := clitest.Shell{}.Run(t, New, append([]string{"demo"}, c.args...)...)
			got.Check(t, cli.Usage, "", "awsretry demo: ", c.want)
		})
	}
}
