package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

var chaosDuration = flag.Duration("chaos", 10*time.Second, "how long TestChaos lasts; the environment variable CHAOS goes before it")

// childEnv makes the test binary a toxiproxy instead: in a process of its own its goroutines are not counted with ours, and
// it may be ended at any time.
const childEnv = "AWSRETRY_INTEROP_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "toxiproxy" {
		serveToxiproxy(os.Stdin, os.Stdout)
		return
	}
	flag.Parse()
	if text := os.Getenv("CHAOS"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			fmt.Fprintf(os.Stderr, "CHAOS is %q; it must be a duration above 0, such as 60s\n", text)
			os.Exit(2)
		}
		*chaosDuration = d
	}
	os.Exit(m.Run())
}

// A toxicOrder is one line from the tests to the toxiproxy.
type toxicOrder struct {
	Upstream string            // make a proxy for it, with the toxics
	Toxics   []json.RawMessage // in toxiproxy's own form
	Stop     string            // or end the proxy that listens there, with its connections
}

type toxicReply struct{ Listen, Err string }

// serveToxiproxy obeys orders until there are no more: when the tests end, in whatever way, it ends too.
func serveToxiproxy(orders io.Reader, replies io.Writer) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	proxies := make(map[string]*toxiproxy.Proxy)
	in, out := json.NewDecoder(orders), json.NewEncoder(replies)
	for {
		var o toxicOrder
		if in.Decode(&o) != nil {
			return
		}
		var reply toxicReply
		switch {
		case o.Stop != "":
			if p := proxies[o.Stop]; p != nil {
				p.Stop()
				delete(proxies, o.Stop)
			}
		default:
			p := toxiproxy.NewProxy(server, o.Upstream, "127.0.0.1:0", o.Upstream)
			for _, toxic := range o.Toxics {
				if _, err := p.Toxics.AddToxicJson(strings.NewReader(string(toxic))); err != nil {
					reply.Err = fmt.Sprintf("toxic %s: %v", toxic, err)
				}
			}
			if err := p.Start(); err != nil {
				reply.Err = err.Error()
			}
			reply.Listen = p.Listen
			proxies[p.Listen] = p
		}
		if out.Encode(reply) != nil {
			return
		}
	}
}

// A toxicServer is a toxiproxy in a process of its own.
type toxicServer struct {
	t       testing.TB
	process *childProcess
}

func newToxicServer(t testing.TB) *toxicServer {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"=toxiproxy")
	return &toxicServer{t, startChild(t, cmd)}
}

// proxy makes a proxy to upstream, a host with its port, and returns where it listens. Each toxic is in toxiproxy's form.
func (s *toxicServer) proxy(upstream string, toxics ...string) string {
	s.t.Helper()
	order := toxicOrder{Upstream: upstream}
	for _, toxic := range toxics {
		order.Toxics = append(order.Toxics, json.RawMessage(toxic))
	}
	return s.order(order).Listen
}

// stop ends a proxy and the connections through it.
func (s *toxicServer) stop(listen string) {
	s.t.Helper()
	s.order(toxicOrder{Stop: listen})
}

// order is for one goroutine at a time.
func (s *toxicServer) order(o toxicOrder) toxicReply {
	s.t.Helper()
	if err := json.NewEncoder(s.process.stdin).Encode(o); err != nil {
		s.t.Fatalf("toxiproxy: %v\n%s", err, s.process.stderr)
	}
	line, err := s.process.line(20 * time.Second)
	if err != nil {
		s.t.Fatalf("toxiproxy: no reply: %v\n%s", err, s.process.stderr)
	}
	var reply toxicReply
	if err := json.Unmarshal([]byte(line), &reply); err != nil || reply.Err != "" {
		s.t.Fatalf("toxiproxy: %s %v\n%s", line, err, s.process.stderr)
	}
	return reply
}

// A childProcess is a server that ends when its standard input does.
type childProcess struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string // of its standard output
	stderr *strings.Builder
	ended  bool // written and read by end alone
}

// startChild starts cmd and has the test end it.
func startChild(t testing.TB, cmd *exec.Cmd) *childProcess {
	t.Helper()
	p := &childProcess{cmd: cmd, lines: make(chan string, 16), stderr: new(strings.Builder)}
	var err error
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = p.stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", cmd.Path, err)
	}
	go func() {
		defer close(p.lines)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
	}()
	t.Cleanup(p.end)
	return p
}

// line returns the next line of the child's standard output.
func (p *childProcess) line(wait time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	select {
	case line, ok := <-p.lines:
		if !ok {
			return "", errors.New("the process has ended")
		}
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// end closes the child's standard input, and kills it where that does not end it.
func (p *childProcess) end() {
	if p.ended {
		return
	}
	p.ended = true
	p.stdin.Close()
	timer := time.AfterFunc(3*time.Second, func() { p.cmd.Process.Kill() })
	defer timer.Stop()
	for range p.lines { // read to the end before Wait, which closes the pipe
	}
	p.cmd.Wait()
}
