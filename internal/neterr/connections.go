package neterr

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"
)

// Connections are those of an *http.Transport, and of the copies of it that send
// what must not go over a connection that failed.
//
// net/http closes an HTTP/1 connection that failed. One that carried an error,
// and an HTTP/2 connection in nearly every case, stays in the pool: what is sent
// next to the same host meets it again, even where nobody is there any more.
type Connections struct {
	base  *http.Transport
	http2 bool // over TLS
	h2c   bool // without TLS

	// The copies that make a connection for each request, nil until they are
	// used. Only HTTP/1 does without a Connection header.
	single1, single2 atomic.Pointer[http.Transport]

	// detours are the pools that hosts use in place of base's, nil while there
	// are none. The map is replaced, never changed, while mu is held.
	detours atomic.Pointer[map[hostKey]*http.Transport]
	mu      sync.Mutex
	http1   map[hostKey]bool               // hosts without HTTP/2, of those that had a detour
	retired []weak.Pointer[http.Transport] // detours that were replaced; one lives as long as it has connections
}

// maxHosts bounds how many hosts are remembered. Beyond it all are forgotten.
const maxHosts = 1024

// idleTimeout is for copies of a transport that keeps idle connections for ever.
const idleTimeout = 90 * time.Second

// NewConnections returns nil where t limits the connections of a host, which
// copies of it would exceed.
func NewConnections(t *http.Transport) *Connections {
	if t.MaxConnsPerHost > 0 {
		return nil
	}
	t.Clone() // t knows its own protocols from here on
	c := &Connections{base: t, http2: t.TLSNextProto["h2"] != nil, http1: make(map[hostKey]bool)}
	if p := t.Protocols; p != nil {
		c.http2, c.h2c = p.HTTP2(), p.UnencryptedHTTP2() && !p.HTTP1()
	}
	return c
}

// clone returns a copy of the transport with connections of its own.
func (c *Connections) clone() *http.Transport {
	t := c.base.Clone()
	if t.TLSNextProto["h2"] != nil {
		// Somebody else's HTTP/2 (golang.org/x/net/http2.ConfigureTransport),
		// which would use the connections of the original.
		t.TLSNextProto = nil
	}
	// Clone has a TLSClientConfig, where the original may have had none, and so
	// would not speak HTTP/2 by itself.
	t.ForceAttemptHTTP2 = t.ForceAttemptHTTP2 || c.http2
	if t.IdleConnTimeout == 0 {
		t.IdleConnTimeout = idleTimeout
	}
	return t
}

// Single returns a transport that makes a new connection for each request, and
// closes it afterwards.
func (c *Connections) Single(u *url.URL) *http.Transport {
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

// For returns the transport that requests to u's host use.
func (c *Connections) For(u *url.URL) *http.Transport {
	if detours := c.detours.Load(); detours != nil && u != nil {
		if t := (*detours)[keyOf(u)]; t != nil {
			return t
		}
	}
	return c.base
}

// Serves reports whether requests to u go over connections of the transport's.
// Other schemes are those of RegisterProtocol, which a copy does not know.
func Serves(u *url.URL) bool { return u != nil && (u.Scheme == "http" || u.Scheme == "https") }

// Abandon makes the requests to u's host use other connections than those of
// used, which For returned and over which nothing came back in time, and reports
// whether they do. Where the host is known to have no HTTP/2, net/http has
// closed the one connection.
func (c *Connections) Abandon(u *url.URL, used http.RoundTripper) bool {
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
		return true // somebody was faster
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

// Saw takes note of the protocol of a response to req. It costs one atomic load
// where no host has a detour.
func (c *Connections) Saw(req *http.Request, protoMajor int) {
	old, u := c.detours.Load(), req.URL
	if old == nil || protoMajor != 1 || !Serves(u) || (*old)[keyOf(u)] == nil ||
		req.Header.Get("Upgrade") != "" { // which goes over HTTP/1, whatever the host speaks
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

// CloseIdleConnections closes the idle connections of the copies.
func (c *Connections) CloseIdleConnections() {
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

// retire closes the idle connections of detours that are not used any more, now
// or with a later call. It requires that mu is held.
func (c *Connections) retire(detours ...*http.Transport) {
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

// maySpeakHTTP2 reports whether the transport and u leave HTTP/2 possible.
func (c *Connections) maySpeakHTTP2(u *url.URL) bool {
	if u.Scheme == "http" {
		return c.h2c
	}
	return c.http2
}

// A hostKey names a host as connections tell it from others.
type hostKey struct{ scheme, host string }

func keyOf(u *url.URL) hostKey { return hostKey{u.Scheme, strings.ToLower(u.Host)} }
