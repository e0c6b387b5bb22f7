package webhook

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"example.com/awsretry"
	"example.com/awsretry/delivery"
	"example.com/awsretry/internal/httpfake"
)

// A nameServer resolves every name to its IPv4 addresses.
type nameServer struct{ addrs atomic.Value }

func (s *nameServer) set(addrs ...string) { s.addrs.Store(addrs) }

func (s *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go s.serve(server)
		return client, nil
	}}
}

// serve responds to a query as DNS over TCP (RFC 1035, section 4).
func (s *nameServer) serve(c net.Conn) {
	defer c.Close()
	query := make([]byte, 512)
	n, err := io.ReadAtLeast(c, query, 2)
	if err != nil {
		return
	}
	query = query[2:n]
	end := 12 // of the question, after the header
	for query[end] != 0 {
		end += 1 + int(query[end])
	}
	end += 5
	answer := append(query[:2:2], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0)
	answer = append(answer, query[12:end]...)
	if query[end-3] == 1 { // A, not AAAA
		for _, addr := range s.addrs.Load().([]string) {
			answer[7]++
			answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
			answer = append(answer, netip.MustParseAddr(addr).AsSlice()...)
		}
	}
	_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
}

// guarded returns what PublicOnly returns, with another resolver.
func guarded(t *testing.T, names *nameServer) *http.Transport {
	t.Helper()
	// 127.0.0.1 takes the role of a public address.
	allow := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	base := PublicOnly(allow...)
	t.Cleanup(base.CloseIdleConnections)
	base.DialContext = dialPublic(names.resolver(), allow)
	return base
}

// endpoint returns an endpoint, and its URL under a name.
func endpoint(t *testing.T) (named string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(s.Close)
	return strings.Replace(s.URL, "127.0.0.1", "hooks.example.com.", 1)
}

func attempt(t *testing.T, base http.RoundTripper, address string) awsretry.Attempt {
	t.Helper()
	a := (&delivery.Transport{Base: base}).Attempt(httpfake.Post(t, address, "hello"), 1)
	if a.Response != nil {
		a.Response.Body.Close()
	}
	return a
}

// refusal returns the address that was refused for good.
func refusal(a awsretry.Attempt) string {
	var refused *AddressError
	if !errors.As(a.Err, &refused) || a.Class != awsretry.Permanent || a.Stop != awsretry.StopPermanent {
		return ""
	}
	return refused.Addr.String()
}

// The name's second address is refused: the first has been checked, and the
// second has not.
func TestRebinding(t *testing.T) {
	t.Parallel()
	var names nameServer
	names.set("127.0.0.1")
	base := guarded(t, &names)
	base.DisableKeepAlives = true
	address := endpoint(t)
	if a := attempt(t, base, address); a.Class != awsretry.Success {
		t.Fatal(a.Err)
	}
	names.set("127.0.0.2")
	a := attempt(t, base, address)
	if refusal(a) != "127.0.0.2" {
		t.Errorf("%v, %v; want 127.0.0.2 to be refused", a.Class, a.Err)
	}
	text := a.Err.Error()
	if !strings.HasPrefix(text, "webhook: hooks.example.com.:") ||
		!strings.HasSuffix(text, ": 127.0.0.2 (loopback) is not a public address") {
		t.Error(text)
	}
}

// A delivery to a host that also has a public address is not given up because that
// address is down.
func TestSomeAddressesAreRefused(t *testing.T) {
	t.Parallel()
	var names nameServer
	names.set("127.0.0.2", "127.0.0.1")
	base := guarded(t, &names)
	if a := attempt(t, base, endpoint(t)); a.Class != awsretry.Success {
		t.Error(a.Err)
	}
	if a := attempt(t, base, "http://hooks.example.com.:1/"); a.Class != awsretry.Transient {
		t.Errorf("%v, %v; want a failure that is retried", a.Class, a.Err)
	}
	names.set("127.0.0.2", "127.0.0.3")
	if a := attempt(t, base, "http://hooks.example.com.:1/"); refusal(a) == "" {
		t.Errorf("%v, %v; want a refusal", a.Class, a.Err)
	}
}

// The environment's proxy would resolve the name itself, and is not used. The
// address of a proxy that is set is checked, and a delivery is retried until the
// setting is corrected.
func TestProxy(t *testing.T) {
	t.Parallel()
	base := PublicOnly()
	if base.Proxy != nil {
		t.Error("a proxy is used")
	}
	// Without pings, net/http keeps sending over an HTTP/2 connection that hangs.
	if c := base.HTTP2; c == nil || c.SendPingTimeout == 0 || c.PingTimeout == 0 {
		t.Errorf("HTTP/2 is configured with %+v", c)
	}
	base.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: "127.0.0.1:1"})
	a := attempt(t, base, "http://example.com/")
	if refused := (*AddressError)(nil); !errors.As(a.Err, &refused) || a.Class != awsretry.Transient {
		t.Errorf("%v, %v; want the proxy's address to be refused", a.Class, a.Err)
	}
}
