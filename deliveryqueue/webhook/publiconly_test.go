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
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/delivery"
	"example.com/awsretry/deliveryqueue"
)

// These tests dial loopback addresses only: 127.0.0.1 is in allow where a
// connection is to succeed, and stands for a public address.
var local = netip.MustParsePrefix("127.0.0.1/32")

// A nameServer resolves every name to its IPv4 addresses.
type nameServer struct{ addrs atomic.Value }

func resolvesTo(addrs ...string) *nameServer {
	s := new(nameServer)
	s.set(addrs...)
	return s
}

func (s *nameServer) set(addrs ...string) { s.addrs.Store(addrs) }

func (s *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go s.serve(server)
		return client, nil
	}}
}

// serve responds to queries as DNS over TCP (RFC 1035, section 4).
func (s *nameServer) serve(c net.Conn) {
	defer c.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
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
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

// guarded returns what PublicOnly returns, with another resolver.
func guarded(t *testing.T, names *nameServer, allow ...netip.Prefix) *http.Transport {
	t.Helper()
	base := PublicOnly(allow...)
	t.Cleanup(base.CloseIdleConnections)
	base.DialContext = (&guard{dialer: net.Dialer{Resolver: names.resolver()}, allow: allow}).dial
	return base
}

// endpoint returns an endpoint, and its URL under a name.
func endpoint(t *testing.T, serve http.HandlerFunc) (named string) {
	t.Helper()
	s := httptest.NewServer(serve)
	t.Cleanup(s.Close)
	return strings.Replace(s.URL, "127.0.0.1", "hooks.example.com.", 1)
}

func attempt(t *testing.T, base http.RoundTripper, address string) awsretry.Attempt {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", address, strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	a := (&delivery.Transport{Base: base}).Attempt(req, 1)
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
	names := resolvesTo("127.0.0.1")
	base := guarded(t, names, local)
	base.DisableKeepAlives = true
	address := endpoint(t, func(http.ResponseWriter, *http.Request) {})
	if a := attempt(t, base, address); a.Class != awsretry.Success {
		t.Fatal(a.Err)
	}
	names.set("127.0.0.2")
	a := attempt(t, base, address)
	if refusal(a) != "127.0.0.2" {
		t.Errorf("%v, %v; want 127.0.0.2 to be refused", a.Class, a.Err)
	}
	if want := "hooks.example.com.:"; !strings.Contains(a.Err.Error(), want) {
		t.Errorf("%v does not name the host", a.Err)
	}
}

// These forms would reach this machine.
func TestAddressesInURLs(t *testing.T) {
	t.Parallel()
	base := PublicOnly()
	defer base.CloseIdleConnections()
	for host, want := range map[string]string{
		"127.0.0.1": "127.0.0.1", "0.0.0.0": "0.0.0.0", "[::]": "::", "[::1]": "::1",
		"[::ffff:127.0.0.1]": "127.0.0.1", "[::ffff:7f00:1]": "127.0.0.1", "[64:ff9b::7f00:1]": "127.0.0.1",
	} {
		if a := attempt(t, base, "http://"+host+":1/"); refusal(a) != want {
			t.Errorf("%s: %v, %v; want %s to be refused", host, a.Class, a.Err, want)
		}
	}
}

// A host that has a public address too is not given up because that address is
// down.
func TestSomeAddressesAreRefused(t *testing.T) {
	t.Parallel()
	names := resolvesTo("127.0.0.2", "127.0.0.1")
	base := guarded(t, names, local)
	if a := attempt(t, base, endpoint(t, func(http.ResponseWriter, *http.Request) {})); a.Class != awsretry.Success {
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

// An http.Client follows the redirect, through the same dialer.
func TestRedirectIsRefused(t *testing.T) {
	t.Parallel()
	names := resolvesTo("127.0.0.1")
	address := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://[::ffff:127.0.0.2]:1/", http.StatusFound)
	})
	client := &http.Client{Transport: guarded(t, names, local)}
	_, err := client.Get(address)
	if refused := (*AddressError)(nil); !errors.As(err, &refused) || refused.Addr.String() != "127.0.0.2" {
		t.Errorf("%v; want 127.0.0.2 to be refused", err)
	}
}

// The environment's proxy would resolve the name itself. The address of one
// that is set is checked, and a delivery is retried until the setting is
// corrected.
func TestProxy(t *testing.T) {
	t.Parallel()
	base := PublicOnly()
	if base.Proxy != nil {
		t.Error("a proxy is used")
	}
	base.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: "127.0.0.1:1"})
	a := attempt(t, base, "http://example.com/")
	if refused := (*AddressError)(nil); !errors.As(a.Err, &refused) || a.Class != awsretry.Transient {
		t.Errorf("%v, %v; want the proxy's address to be refused", a.Class, a.Err)
	}
}

// Without pings, net/http keeps sending over an HTTP/2 connection that hangs.
func TestConnectionsArePinged(t *testing.T) {
	t.Parallel()
	if c := PublicOnly().HTTP2; c == nil || c.SendPingTimeout == 0 || c.PingTimeout == 0 {
		t.Errorf("HTTP/2 is configured with %+v", c)
	}
}

// A refused address is a dead letter after one attempt, which says why.
func TestRefusedDeliveryIsDead(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request was sent") }))
	defer s.Close()
	base := PublicOnly()
	defer base.CloseIdleConnections()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	q, err := deliveryqueue.Open(ctx, filepath.Join(t.TempDir(), "db"), deliveryqueue.Config{
		Base:    base,
		Observe: func(awsretry.Attempt) { stop() },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	req, err := http.NewRequest("POST", s.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Enqueue(ctx, req, deliveryqueue.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := q.Run(ctx); err != nil {
		t.Fatal(err)
	}
	for d, err := range q.List(t.Context(), deliveryqueue.Filter{}) {
		if want := ": 127.0.0.1 (loopback) is not a public address"; err != nil || d.State != deliveryqueue.Dead ||
			d.Attempts != 1 || d.Reason != "permanent" || !strings.HasSuffix(d.Err, want) {
			t.Errorf("%+v, %v; want a dead letter with %q", d, err, want)
		}
	}
}
