package clients

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"example.com/awsretry/interop/internal/kit"
	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		serveToxiproxy(os.Stdin, os.Stdout)
		return
	}
	os.Exit(m.Run())
}

// childEnv turns the test binary into a toxiproxy. In a process of its own, it
// can be ended at any time, and its goroutines are not counted with ours.
const childEnv = "AWSRETRY_INTEROP_CHILD"

// A toxicOrder is one line from the tests to the toxiproxy.
type toxicOrder struct {
	Upstream string            // make a proxy for it, with the toxics
	Toxics   []json.RawMessage // in toxiproxy's own form
	Stop     string            // or end the proxy that listens there, with its connections
}

type toxicReply struct{ Listen, Err string }

// serveToxiproxy obeys orders until the tests close its standard input.
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
		if o.Stop != "" {
			if p := proxies[o.Stop]; p != nil {
				p.Stop()
				delete(proxies, o.Stop)
			}
		} else {
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
	mu      sync.Mutex // serializes the orders
	process *kit.Process
}

func startToxiproxy(t testing.TB) *toxicServer {
	cmd := exec.Command(kit.Must[string](t)(os.Executable()))
	cmd.Env = append(os.Environ(), childEnv+"=1", "GORACE=atexit_sleep_ms=0")
	return &toxicServer{t: t, process: kit.Start(t, cmd)}
}

// proxy starts a proxy to upstream, a host with its port, and returns where it
// listens. Each toxic is in toxiproxy's form.
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

func (s *toxicServer) order(o toxicOrder) toxicReply {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := json.NewEncoder(s.process.Stdin).Encode(o); err != nil {
		s.t.Fatalf("toxiproxy: %v", err)
	}
	line := s.process.Line(s.t)
	var reply toxicReply
	if err := json.Unmarshal([]byte(line), &reply); err != nil || reply.Err != "" {
		s.t.Fatalf("toxiproxy: %s %v", line, err)
	}
	return reply
}

// The directions of a connection in which a toxic works.
const up, down = "upstream", "downstream"

// toxic returns a toxic in toxiproxy's form, which each connection has with a
// probability.
func toxic(kind, stream string, probability float64, attributes string) string {
	return fmt.Sprintf(`{"type": %q, "stream": %q, "toxicity": %v, "attributes": {%s}}`,
		kind, stream, probability, attributes)
}
