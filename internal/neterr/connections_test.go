package neterr

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"testing"
)

func at(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// A copy speaks the protocols of the original, however that came to speak them.
func TestProtocolsOfCopies(t *testing.T) {
	protocols := func(set ...func(*http.Protocols, bool)) *http.Protocols {
		p := new(http.Protocols)
		for _, s := range set {
			s(p, true)
		}
		return p
	}
	for _, tt := range []struct {
		name       string
		base       *http.Transport
		http2, h2c bool
	}{
		{"zero", &http.Transport{}, true, false},
		{"its own TLS settings", &http.Transport{TLSClientConfig: &tls.Config{}}, false, false},
		{"its own TLS settings, forced", &http.Transport{TLSClientConfig: &tls.Config{}, ForceAttemptHTTP2: true}, true, false},
		{"switched off", &http.Transport{TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}, false, false},
		{"HTTP/1 alone", &http.Transport{Protocols: protocols((*http.Protocols).SetHTTP1)}, false, false},
		{"both", &http.Transport{Protocols: protocols((*http.Protocols).SetHTTP1, (*http.Protocols).SetHTTP2)}, true, false},
		{"h2c", &http.Transport{Protocols: protocols((*http.Protocols).SetUnencryptedHTTP2)}, false, true},
		{"h2c and HTTP/1", &http.Transport{Protocols: protocols((*http.Protocols).SetUnencryptedHTTP2, (*http.Protocols).SetHTTP1)}, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := NewConnections(tt.base)
			single := c.Single(at(t, "https://h"))
			if c.http2 != tt.http2 || c.h2c != tt.h2c || NewConnections(single).http2 != tt.http2 {
				t.Errorf("HTTP/2 %v, of the copy %v, h2c %v", c.http2, NewConnections(single).http2, c.h2c)
			}
			if single == tt.base || single != c.Single(at(t, "https://h")) {
				t.Error("not one copy")
			}
			if tt.http2 != single.DisableKeepAlives {
				t.Errorf("DisableKeepAlives is %v", single.DisableKeepAlives)
			}
		})
	}
	if NewConnections(&http.Transport{MaxConnsPerHost: 1}) != nil {
		t.Error("copies of a transport with MaxConnsPerHost")
	}
}

// A host leaves a pool once for all that fail in it, keeps what it had over
// HTTP/1, and only so many hosts are remembered.
func TestAbandon(t *testing.T) {
	base := &http.Transport{}
	c := NewConnections(base)
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
	c.Saw(u, 2)
	if c.For(u) == base {
		t.Error("HTTP/2 leads back")
	}
	c.Saw(u, 1)
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
