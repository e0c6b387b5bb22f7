package awsretry_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
)

// TestConnections: after throttling the retry takes the same connection, after a transient failure another, but in the 2026
// revision.
func TestConnections(t *testing.T) {
	const throttled = `{"__type":"ThrottlingException"}`
	for _, c := range []struct {
		status int
		body   string
		kind   string
		same   bool
	}{
		{429, "", "", true},
		{429, "slow down", "", true},
		{429, letters(100_000), "", true},
		{429, letters(2_000_000), "", false}, // reading it all would cost more than a connection
		{400, throttled, "legacy", true},
		{400, throttled, "time-out", true},
		{503, "", "", false},
		{503, "broken", "", false},
		{500, letters(70_000), "", false},
		{500, letters(2_000_000), "legacy", false},
		{408, "broken", "time-out", false},
		{503, "", "2026", true},
		{503, "broken", "2026", true},
		{500, letters(100_000), "2026", true},
	} {
		for _, protocol := range wires {
			var mu sync.Mutex
			var from []string
			srv := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				from = append(from, r.RemoteAddr)
				n := len(from)
				mu.Unlock()
				if n == 1 {
					w.WriteHeader(c.status)
					io.WriteString(w, c.body)
				}
			})
			tr := &awsretry.Transport{Base: srv.base, Backoff: pauseOf(0)}
			switch c.kind {
			case "legacy":
				tr.Mode = awsretry.Legacy
			case "time-out":
				tr.AttemptTimeout = time.Minute
			case "2026":
				tr.Revision = awsretry.Revision2026
			}
			resp, err := tr.RoundTrip(srv.request(t, "GET", nil))
			if err != nil || resp.StatusCode != 200 {
				t.Fatal(resp, err)
			}
			whole(t, resp)
			mu.Lock()
			seen := slices.Clone(from)
			mu.Unlock()
			same := c.same || c.status == 429 && protocol == "HTTP/2" // which resets a stream alone
			if len(seen) != 2 || (seen[0] == seen[1]) != same {
				t.Errorf("%s, %d with %d bytes: attempts came from %v, want the same: %v", protocol, c.status, len(c.body), seen, same)
			}
			if same || c.status == 429 {
				continue
			}
			for closed := ""; closed != seen[1]; { // nobody would use the retry's own connection again
				select {
				case closed = <-srv.states:
				case <-time.After(5 * time.Second):
					t.Fatal("the retry's connection stays open")
				}
			}
		}
	}
}

// TestSlowAnswerOverTheWire: an error body that hangs is closed while it is being read ahead, and unpacked.
func TestSlowAnswerOverTheWire(t *testing.T) {
	for _, protocol := range wires[1:] {
		var sends atomic.Int32
		srv := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			if sends.Add(1) > 1 {
				return
			}
			w.Header().Set("Content-Encoding", "gzip") // which the client's transport undoes
			w.WriteHeader(503)
			z := gzip.NewWriter(w)
			io.WriteString(z, `{"__type":`)
			z.Flush()
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		tr := &awsretry.Transport{Base: srv.base, Backoff: pauseOf(0)}
		start := time.Now()
		resp, err := tr.RoundTrip(srv.request(t, "GET", nil))
		if d := time.Since(start); err != nil || resp.StatusCode != 200 || d > 5*time.Second {
			t.Fatalf("%v, %v after %v", resp, err, d)
		}
		whole(t, resp)
	}
}

// A relay is a TCP proxy on loopback whose connections can be made to lose every
// packet, as behind a firewall that forgot them.
type relay struct {
	listener net.Listener
	mu       sync.Mutex
	frozen   []chan struct{} // of the connections so far, closed to freeze one
	conns    []net.Conn
}

// relayTo puts a relay between a server and its Base.
func relayTo(t *testing.T, srv *wire) *relay {
	t.Helper()
	at, err := url.Parse(srv.url)
	if err != nil {
		t.Fatal(err)
	}
	r := newRelay(t, at.Host)
	srv.base.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, r.listener.Addr().String())
	}
	return r
}

func newRelay(t *testing.T, target string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				client.Close()
				continue
			}
			frozen := make(chan struct{})
			r.mu.Lock()
			r.frozen, r.conns = append(r.frozen, frozen), append(r.conns, client, server)
			r.mu.Unlock()
			go forward(server, client, frozen)
			go forward(client, server, frozen)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		r.cut()
	})
	return r
}

// forward copies until the end, and loses everything, the end too, once frozen.
func forward(to, from net.Conn, frozen <-chan struct{}) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		select {
		case <-frozen:
			if err != nil {
				return
			}
			continue
		default:
		}
		if n > 0 {
			to.Write(buf[:n])
		}
		if err != nil {
			to.Close()
			return
		}
	}
}

func (r *relay) freeze() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.frozen {
		close(c)
	}
	r.frozen = nil
}

func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
}

// TestDeadConnection: where nothing comes back over a connection any more, the
// retry takes another one of the same protocol, and so do later requests.
func TestDeadConnection(t *testing.T) {
	for _, protocol := range append(wires, "h2c") {
		for _, rev := range []awsretry.Revision{awsretry.Classic, awsretry.Revision2026} {
			t.Run(fmt.Sprint(protocol, rev), func(t *testing.T) {
				var protos []int
				var mu sync.Mutex
				srv := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
					mu.Lock()
					defer mu.Unlock()
					protos = append(protos, r.ProtoMajor)
				})
				relay := relayTo(t, srv)
				var attempts []int
				tr := &awsretry.Transport{
					Base: srv.base, Revision: rev, MaxAttempts: 4, AttemptTimeout: 300 * time.Millisecond, Backoff: pauseOf(0),
					Observe: func(a awsretry.Attempt) {
						if a.Stop != "" {
							attempts = append(attempts, a.Number)
						}
					},
				}
				defer tr.CloseIdleConnections()
				for i := range 4 {
					if i == 1 {
						relay.freeze()
					}
					resp, err := tr.RoundTrip(srv.request(t, "GET", nil))
					if err != nil {
						t.Fatal(err)
					}
					whole(t, resp)
				}
				if want := []int{1, 2, 1, 1}; !slices.Equal(attempts, want) {
					t.Errorf("the requests took %v attempts, want %v", attempts, want)
				}
				major := 1
				if protocol == "HTTP/2" || protocol == "h2c" {
					major = 2
				}
				mu.Lock()
				defer mu.Unlock()
				if want := []int{major, major, major, major}; !slices.Equal(protos, want) {
					t.Errorf("the server saw HTTP/%v, want %v", protos, want)
				}
			})
		}
	}
}

// TestMaxConnsPerHost: a retry makes no connection of its own where the
// connections of a host are limited.
func TestMaxConnsPerHost(t *testing.T) {
	var open, most, sends atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sends.Add(1)
		w.WriteHeader(503)
	}))
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			if n := open.Add(1); n > most.Load() {
				most.Store(n)
			}
		case http.StateClosed:
			open.Add(-1)
		}
	}
	srv.Start()
	defer srv.Close()
	base := srv.Client().Transport.(*http.Transport)
	base.MaxConnsPerHost = 2
	tr := &awsretry.Transport{Base: base, MaxAttempts: 4, Backoff: pauseOf(time.Millisecond)}
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			for range 3 {
				req, err := http.NewRequestWithContext(t.Context(), "GET", srv.URL, nil)
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Error(err)
					return
				}
				whole(t, resp)
			}
		})
	}
	all.Wait()
	if most.Load() > 2 || sends.Load() != 6*3*4 {
		t.Errorf("%d connections at a time, %d attempts", most.Load(), sends.Load())
	}
}

// TestRegisteredScheme: the connection pool has no part in it, and neither has a retry's own connection.
func TestRegisteredScheme(t *testing.T) {
	var sends atomic.Int32
	srv := serve(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
		if sends.Add(1) == 1 {
			w.WriteHeader(503)
		}
	})
	srv.base.RegisterProtocol("local", baseFunc(func(req *http.Request) (*http.Response, error) {
		req = req.Clone(req.Context())
		req.URL.Scheme = "http"
		return srv.base.RoundTrip(req)
	}))
	tr := &awsretry.Transport{Base: srv.base, Backoff: pauseOf(0)}
	req := srv.request(t, "GET", nil)
	req.URL.Scheme = "local"
	resp, err := tr.RoundTrip(req)
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	whole(t, resp)
}

// TestKeepConnections: a retry goes the way of the attempt that failed, as
// Base's own protocol for https needs it.
func TestKeepConnections(t *testing.T) {
	base := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		t.Error("the network is dialed")
		return nil, errReset
	}}
	sends := 0
	base.RegisterProtocol("https", baseFunc(func(req *http.Request) (*http.Response, error) {
		sends++
		return respond(req, 503, http.NoBody), nil
	}))
	tr := &awsretry.Transport{Base: base, KeepConnections: true, Backoff: pauseOf(0)}
	req := request(t, t.Context(), "GET", nil)
	req.URL.Scheme = "https"
	if resp, err := tr.RoundTrip(req); err != nil || resp.StatusCode != 503 || sends != 3 {
		t.Errorf("%v, %v after %d attempts", resp, err, sends)
	}
}

// TestPrepareChangesTheScheme: what Prepare sends elsewhere goes there.
func TestPrepareChangesTheScheme(t *testing.T) {
	srv := serve(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) })
	sends := 0
	srv.base.RegisterProtocol("local", baseFunc(func(req *http.Request) (*http.Response, error) {
		sends++
		return respond(req, 503, http.NoBody), nil
	}))
	tr := &awsretry.Transport{Base: srv.base, Backoff: pauseOf(0), Prepare: func(req *http.Request, n int) error {
		if n > 1 {
			req.URL.Scheme = "local"
		}
		return nil
	}}
	resp, err := tr.RoundTrip(srv.request(t, "GET", nil))
	if err != nil || sends != 2 {
		t.Fatalf("%v, %v; %d attempts went to the scheme of Prepare, want 2", resp, err, sends)
	}
	whole(t, resp)
}

// TestCloseIdleConnectionsOfRetries: no connection is left that a retry made.
func TestCloseIdleConnectionsOfRetries(t *testing.T) {
	for _, protocol := range wires {
		var sends atomic.Int32
		srv := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			if sends.Add(1)%2 == 1 {
				w.WriteHeader(503)
			}
		})
		tr := &awsretry.Transport{Base: srv.base, Backoff: pauseOf(0)}
		for range 3 {
			resp, err := tr.RoundTrip(srv.request(t, "GET", nil))
			if err != nil || resp.StatusCode != 200 {
				t.Fatal(resp, err)
			}
			whole(t, resp)
		}
		tr.CloseIdleConnections() // serve looks for goroutines that are left
	}
}

// TestDeadConnectionWithoutRetry: later requests take another connection too
// where the one that found out was not retried, or was not classified as a time-out.
func TestDeadConnectionWithoutRetry(t *testing.T) {
	transient := func(a *awsretry.Attempt) awsretry.Class {
		if a.Err != nil {
			return awsretry.Transient
		}
		return awsretry.DefaultPolicy(a)
	}
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2"} {
		for name, tr := range map[string]*awsretry.Transport{
			"one attempt": {MaxAttempts: 1},
			"no tokens":   {Quota: awsretry.QuotaConfig{Capacity: 1}},
			"a policy":    {Policy: transient},
		} {
			t.Run(protocol+" "+name, func(t *testing.T) {
				srv := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {})
				relay := relayTo(t, srv)
				timeouts := 0
				tr.Base, tr.AttemptTimeout, tr.Backoff = srv.base, 300*time.Millisecond, pauseOf(0)
				tr.Observe = func(a awsretry.Attempt) {
					if a.Err != nil {
						timeouts++
					}
				}
				defer tr.CloseIdleConnections()
				for i := range 4 {
					if i == 1 {
						relay.freeze()
					}
					if resp, err := tr.RoundTrip(srv.request(t, "GET", nil)); err == nil {
						whole(t, resp)
					}
				}
				if timeouts != 1 {
					t.Errorf("%d attempts met the dead connection, want 1", timeouts)
				}
			})
		}
	}
}

// TestDeadConnectionBesideWebSockets: an upgrade, which net/http sends over
// HTTP/1, does not bring the dead HTTP/2 connection back.
func TestDeadConnectionBesideWebSockets(t *testing.T) {
	srv := serve(t, "HTTP/2", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			return
		}
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		rw.Flush()
	})
	relay := relayTo(t, srv)
	var attempts []int
	tr := &awsretry.Transport{Base: srv.base, AttemptTimeout: 300 * time.Millisecond, Backoff: pauseOf(0), Observe: func(a awsretry.Attempt) {
		if a.Stop != "" {
			attempts = append(attempts, a.Number)
		}
	}}
	defer tr.CloseIdleConnections()
	for i := range 5 {
		req, want := srv.request(t, "GET", nil), 200
		switch i {
		case 1:
			relay.freeze()
		case 2:
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", "websocket")
			want = 101
		}
		resp, err := tr.RoundTrip(req)
		if err != nil || resp.StatusCode != want {
			t.Fatal(i, resp, err)
		}
		resp.Body.Close()
	}
	if want := []int{1, 2, 1, 1, 1}; !slices.Equal(attempts, want) {
		t.Errorf("the requests took %v attempts, want %v", attempts, want)
	}
}
