// Package conns keeps requests off the connections that failed.
package conns

import (
	"crypto/tls"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"
)

// Pools are the pools of connections of an *http.Transport and of copies of
// it. A request that must not use a connection that failed is sent through a
// copy.
//
// net/http closes an HTTP/1 connection that broke. It keeps one that carried an
// error response, and an HTTP/2 connection in nearly every case, in the pool.
// The next request to the host uses that connection, even if the host no longer
// responds.
type Pools struct {
	base  *http.Transport
	http2 bool // over TLS
	h2c   bool // without TLS

	// The copies that make a connection for each request, nil until the first use.
	// single2 may use HTTP/2. It needs DisableKeepAlives, which adds a Connection
	// header to HTTP/1 requests; single1 does not need it.
	single1, single2 atomic.Pointer[http.Transport]

	// detours are the pools that hosts use instead of base's, nil while there
	// are none. The map is never changed, only replaced, with mu held.
	detours atomic.Pointer[map[hostKey]*http.Transport]
	mu      sync.Mutex
	http1   map[hostKey]bool               // hosts that had a detour and turned out not to support HTTP/2
	retired []weak.Pointer[http.Transport] // detours that were replaced, but may still have connections
}

// maxHosts limits how many hosts are stored. When there would be more, all are
// forgotten.
const maxHosts = 1024

// idleTimeout is the IdleConnTimeout of copies whose original has none.
const idleTimeout = 90 * time.Second

// New returns the pools of t. It returns nil if t must not be
// copied: if it limits the connections of a host, which copies would exceed, or if
// its HTTP/2 is not net/http's own. That is golang.org/x/net's in most cases, whose
// settings, such as pings that end a dead connection, cannot be read.
func New(t *http.Transport) *Pools {
	if t.MaxConnsPerHost > 0 {
		return nil
	}
	t.Clone() // sets t.TLSNextProto, as the first request would
	h2 := t.TLSNextProto["h2"]
	if h2 != nil && !madeBy(h2, "net/http") {
		return nil
	}
	c := &Pools{base: t, http2: h2 != nil, http1: make(map[hostKey]bool)}
	if p := t.Protocols; p != nil {
		c.http2, c.h2c = p.HTTP2(), p.UnencryptedHTTP2() && !p.HTTP1()
	}
	return c
}

// Traces reports whether t calls the hooks of net/http/httptrace for each connection.
// A protocol of t.TLSNextProto may not, unless it is net/http's or golang.org/x/net's.
func Traces(t *http.Transport) bool {
	t.Clone() // sets t.TLSNextProto, as the first request would
	for _, protocol := range t.TLSNextProto {
		if !madeBy(protocol, "net/http", "golang.org/x/net/http2") {
			return false
		}
	}
	return true
}

// A protocol is a function of http.Transport.TLSNextProto.
type protocol = func(authority string, conn *tls.Conn) http.RoundTripper

// madeBy reports whether a protocol is of one of these packages, or of one in their
// folders.
func madeBy(p protocol, packages ...string) bool {
	f := runtime.FuncForPC(reflect.ValueOf(p).Pointer())
	return f != nil && slices.ContainsFunc(packages, func(name string) bool {
		return strings.HasPrefix(f.Name(), name+".") || strings.HasPrefix(f.Name(), name+"/")
	})
}

// clone returns a copy of base that shares no connections with it. It has the
// settings of base.HTTP2.
func (c *Pools) clone() *http.Transport {
	t := c.base.Clone()
	if t.TLSNextProto["h2"] != nil {
		t.TLSNextProto = nil // net/http's HTTP/2 of the original would use its connections
	}
	// Clone sets TLSClientConfig, which turns HTTP/2 off unless it is forced.
	t.ForceAttemptHTTP2 = t.ForceAttemptHTTP2 || c.http2
	if t.IdleConnTimeout == 0 {
		t.IdleConnTimeout = idleTimeout
	}
	return t
}

// Single returns a transport that makes a new connection for each request, and
// closes it afterwards.
func (c *Pools) Single(u *url.URL) *http.Transport {
	single := &c.single1
	if c.maySpeakHTTP2(u) {
		single = &c.single2
	}
	if t := single.Load(); t != nil {
		return t
	}
	t := c.clone()
	if single == &c.single2 {
		t.DisableKeepAlives = true
	} else {
		t.MaxIdleConnsPerHost = -1
	}
	if !single.CompareAndSwap(nil, t) {
		return single.Load()
	}
	return t
}

// For returns the transport for requests to u's host.
func (c *Pools) For(u *url.URL) *http.Transport {
	if detours := c.detours.Load(); detours != nil && u != nil {
		if t := (*detours)[keyOf(u)]; t != nil {
			return t
		}
	}
	return c.base
}

// Serves reports whether requests to u go over connections of the transport.
// Other schemes come from RegisterProtocol, and copies do not have them.
func Serves(u *url.URL) bool { return u != nil && (u.Scheme == "http" || u.Scheme == "https") }

// Abandon makes later requests to u's host use other connections than those of
// used, a transport that For returned and through which a request timed out. It
// reports whether they do. They need not if the host is known not to support
// HTTP/2: net/http has closed the one connection that failed.
func (c *Pools) Abandon(u *url.URL, used http.RoundTripper) bool {
	if !Serves(u) || !c.maySpeakHTTP2(u) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	host := keyOf(u)
	if c.http1[host] || used == http.RoundTripper(c.single2.Load()) {
		return false
	}
	if used != http.RoundTripper(c.For(u)) {
		return true // another request was faster
	}
	detours := make(map[hostKey]*http.Transport)
	if old := c.detours.Load(); old != nil {
		if len(*old) < maxHosts {
			detours = maps.Clone(*old)
			c.retire(detours[host])
		} else {
			c.retire(slices.Collect(maps.Values(*old))...)
		}
	}
	detours[host] = c.clone()
	c.detours.Store(&detours)
	return true
}

// Saw is called with the protocol of each response. A host that responds over
// HTTP/1 uses its pool in base from then on. Otherwise each timeout
// would move it to an empty pool, although only one of its many connections
// failed. Saw costs one atomic load while no host has a detour.
func (c *Pools) Saw(req *http.Request, protoMajor int) {
	if c.detours.Load() != nil {
		c.saw(req, protoMajor)
	}
}

func (c *Pools) saw(req *http.Request, protoMajor int) {
	u := req.URL
	if protoMajor != 1 || !Serves(u) || (*c.detours.Load())[keyOf(u)] == nil ||
		req.Header.Get("Upgrade") != "" { // net/http sends an upgrade over HTTP/1 to any host
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	host := keyOf(u)
	detours := maps.Clone(*c.detours.Load())
	detour := detours[host]
	if detour == nil {
		return
	}
	delete(detours, host)
	c.retire(detour)
	c.detours.Store(&detours)
	if len(c.http1) >= maxHosts {
		clear(c.http1)
	}
	c.http1[host] = true
}

// CloseIdleConnections closes the idle connections of all copies.
func (c *Pools) CloseIdleConnections() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, single := range []*atomic.Pointer[http.Transport]{&c.single1, &c.single2} {
		if t := single.Load(); t != nil {
			t.CloseIdleConnections()
		}
	}
	if detours := c.detours.Load(); detours != nil {
		for _, t := range *detours {
			t.CloseIdleConnections()
		}
	}
	c.retire()
}

// retire closes the idle connections of detours that are no longer used, and of
// those that were retired before. It requires that mu is held.
func (c *Pools) retire(detours ...*http.Transport) {
	for _, t := range detours {
		if t != nil {
			c.retired = append(c.retired, weak.Make(t))
		}
	}
	c.retired = slices.DeleteFunc(c.retired, func(p weak.Pointer[http.Transport]) bool {
		t := p.Value()
		if t != nil {
			t.CloseIdleConnections()
		}
		return t == nil
	})
}

// maySpeakHTTP2 reports whether base may use HTTP/2 for u.
func (c *Pools) maySpeakHTTP2(u *url.URL) bool {
	if u.Scheme == "http" {
		return c.h2c
	}
	return c.http2
}

// A hostKey identifies a host in a connection pool.
type hostKey struct{ scheme, host string }

func keyOf(u *url.URL) hostKey { return hostKey{u.Scheme, strings.ToLower(u.Host)} }
