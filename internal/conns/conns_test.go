package conns

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/httpfake"
)

func at(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// A copy supports the protocols of the original, however they were configured.
func TestProtocolsOfCopies(t *testing.T) {
	speaks := func(http1, http2, h2c bool) *http.Transport {
		p := new(http.Protocols)
		p.SetHTTP1(http1)
		p.SetHTTP2(http2)
		p.SetUnencryptedHTTP2(h2c)
		return &http.Transport{Protocols: p}
	}
	off := nothing()
	for _, tt := range []struct {
		name       string
		base       *http.Transport
		http2, h2c bool
	}{
		{"zero", &http.Transport{}, true, false},
		{"its own TLS settings", &http.Transport{TLSClientConfig: &tls.Config{}}, false, false},
		{"its own TLS settings, forced",
			&http.Transport{TLSClientConfig: &tls.Config{}, ForceAttemptHTTP2: true}, true, false},
		{"switched off", &http.Transport{TLSNextProto: off}, false, false},
		{"HTTP/1 alone", speaks(true, false, false), false, false},
		{"HTTP/2 alone", speaks(false, true, false), true, false},
		{"both", speaks(true, true, false), true, false},
		{"h2c", speaks(false, false, true), false, true},
		{"h2c and HTTP/1", speaks(true, false, true), false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := New(tt.base)
			single := c.Single(at(t, "https://h"))
			if c.http2 != tt.http2 || c.h2c != tt.h2c || New(single).http2 != tt.http2 {
				t.Errorf("HTTP/2 %v, of the copy %v, h2c %v", c.http2, New(single).http2, c.h2c)
			}
			if single == tt.base || single != c.Single(at(t, "https://h")) {
				t.Error("not one copy")
			}
			if tt.http2 != single.DisableKeepAlives {
				t.Errorf("DisableKeepAlives is %v", single.DisableKeepAlives)
			}
		})
	}
	if New(&http.Transport{MaxConnsPerHost: 1}) != nil {
		t.Error("copies of a transport with MaxConnsPerHost")
	}
}

// Settings of HTTP/2 that cannot be read are not lost in a copy: there is none.
func TestOtherHTTP2IsNotCopied(t *testing.T) {
	upgrade := func(string, *tls.Conn) http.RoundTripper { return nil }
	base := &http.Transport{TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{"h2": upgrade}}
	if New(base) != nil || New(base.Clone()) != nil {
		t.Error("a copy of a transport with an HTTP/2 of its own")
	}
	// The HTTP/2 of these is net/http's, which the first request or Clone sets.
	speaks := new(http.Protocols)
	speaks.SetHTTP2(true)
	used, withMap := &http.Transport{}, &http.Transport{Protocols: speaks, TLSNextProto: nothing()}
	used.Clone()
	for name, base := range map[string]*http.Transport{"used": used, "with a map": withMap} {
		if New(base) == nil || base.TLSNextProto["h2"] == nil {
			t.Errorf("%s: no copies", name)
		}
	}
}

// nothing returns a TLSNextProto without protocols.
func nothing() map[string]func(string, *tls.Conn) http.RoundTripper {
	return make(map[string]func(string, *tls.Conn) http.RoundTripper)
}

// Copies have the pings of the original, and all else that is in its HTTP2.
func TestCopiesKeepHTTP2Config(t *testing.T) {
	pings := http.HTTP2Config{SendPingTimeout: time.Second, PingTimeout: 2 * time.Second}
	c := New(&http.Transport{HTTP2: &pings})
	u := at(t, "https://h")
	c.Abandon(u, c.For(u))
	for name, copied := range map[string]*http.Transport{"of one request": c.Single(u), "of a host": c.For(u)} {
		if copied == c.base || copied.HTTP2 == nil || copied.HTTP2.SendPingTimeout != pings.SendPingTimeout ||
			copied.HTTP2.PingTimeout != pings.PingTimeout {
			t.Errorf("the copy %s has %+v", name, copied.HTTP2)
		}
	}
}

// A host leaves a pool once for all requests that fail in it, a host with HTTP/1
// keeps its pool, and the number of stored hosts is limited.
func TestAbandon(t *testing.T) {
	base := &http.Transport{}
	c := New(base)
	u := at(t, "https://host:1/path")
	if c.For(u) != base || !c.Abandon(u, base) {
		t.Fatal("not abandoned")
	}
	detour := c.For(at(t, "https://HOST:1/other"))
	if detour == base || c.For(at(t, "https://host:2/")) != base || c.For(at(t, "http://host:1/")) != base {
		t.Error("the detour is not that of the host alone")
	}
	if !c.Abandon(u, base) || c.For(u) != detour {
		t.Error("a second failure in the same pool leads elsewhere")
	}
	if c.Abandon(u, c.Single(u)) || c.For(u) != detour {
		t.Error("a failure outside the pool leads elsewhere")
	}
	if !c.Abandon(u, detour) || c.For(u) == detour || c.For(u) == base {
		t.Error("the detour is not left")
	}
	c.Saw(&http.Request{URL: u}, 2)
	c.Saw(&http.Request{URL: u, Header: http.Header{"Upgrade": {"websocket"}}}, 1)
	if c.For(u) == base {
		t.Error("HTTP/2 or an upgrade leads back")
	}
	c.Saw(&http.Request{URL: u}, 1)
	if c.For(u) != base || c.Abandon(u, base) || c.For(u) != base {
		t.Error("HTTP/1 has a detour")
	}
	if c.Abandon(at(t, "http://host/"), base) || c.Abandon(at(t, "file:///x"), base) {
		t.Error("what has no HTTP/2 has a detour")
	}
	for i := range maxHosts + 10 {
		c.Abandon(at(t, fmt.Sprintf("https://h%d", i)), base)
	}
	if n := len(*c.detours.Load()); n > maxHosts {
		t.Errorf("%d hosts are remembered", n)
	}
	c.CloseIdleConnections()
}

// Once any host has a detour, every request calls For.
func TestForCostsNoAllocation(t *testing.T) {
	c := New(&http.Transport{})
	u := &url.URL{Scheme: "https", Host: "dynamodb.eu-central-1.amazonaws.com"}
	if !c.Abandon(u, c.For(u)) {
		t.Fatal("not abandoned")
	}
	if n := testing.AllocsPerRun(100, func() { c.For(u) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// CloseIdleConnections also reaches the copies that were replaced, or forgotten,
// while they had a connection in use.
func TestCloseIdleConnectionsReachesEveryCopy(t *testing.T) {
	for name, replace := range map[string]func(c *Pools, u *url.URL){
		"forgotten": func(c *Pools, _ *url.URL) {
			for i := range maxHosts {
				other := &url.URL{Scheme: "http", Host: fmt.Sprint("host", i)}
				c.Abandon(other, c.For(other))
			}
		},
		"replaced": func(c *Pools, u *url.URL) {
			for range 3 {
				c.Abandon(u, c.For(u))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan bool)
				srv := httpfake.Serve(t, "h2c", func(w http.ResponseWriter, r *http.Request) {
					http.NewResponseController(w).Flush()
					<-end
				})
				c, req := New(srv.Base), srv.Request(t, "GET", nil)
				c.Abandon(req.URL, c.For(req.URL))
				resp, err := c.For(req.URL).RoundTrip(req)
				if err != nil || resp.ProtoMajor != 2 {
					t.Fatal(resp, err)
				}
				replace(c, req.URL)
				close(end)
				httpfake.ReadAll(t, resp)
				synctest.Wait()
				before := len(srv.Closed)
				c.CloseIdleConnections()
				synctest.Wait()
				if n := len(srv.Closed); before != 0 || n != 1 {
					t.Errorf("%d connections are closed before and %d after, want 0 and 1", before, n)
				}
			})
		})
	}
}

func TestTraces(t *testing.T) {
	foreign := func(string, *tls.Conn) http.RoundTripper { return nil }
	for _, tt := range []struct {
		transport *http.Transport
		want      bool
	}{
		{&http.Transport{}, true},
		{&http.Transport{ForceAttemptHTTP2: true}, true},
		{&http.Transport{TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{"h2": foreign}}, false},
	} {
		if got := Traces(tt.transport); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.transport.TLSNextProto, got, tt.want)
		}
	}
}
