package clients

import (
	"fmt"
	"strings"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// startToxiproxy starts a proxy to upstream, a host with its port, with toxics in
// toxiproxy's own form. It ends with the test, or before.
func startToxiproxy(t testing.TB, upstream string, toxics ...string) *toxiproxy.Proxy {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := toxiproxy.NewProxy(server, upstream, "127.0.0.1:0", upstream)
	for _, toxic := range toxics {
		if _, err := p.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
			t.Fatalf("toxic %s: %v", toxic, err)
		}
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

// The directions of a connection in which a toxic works.
const up, down = "upstream", "downstream"

// toxic returns a toxic in toxiproxy's form, which each connection has with a
// probability.
func toxic(kind, stream string, probability float64, attributes string) string {
	return fmt.Sprintf(`{"type": %q, "stream": %q, "toxicity": %v, "attributes": {%s}}`,
		kind, stream, probability, attributes)
}
