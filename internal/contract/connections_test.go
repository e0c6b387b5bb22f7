package contract_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// serveInTurn starts a server that responds with one status after another, and
// with 200 from then on. It returns where each request comes from.
func serveInTurn(t *testing.T, protocol, body string, statuses ...int) (*httpfake.Server, func() []string) {
	var mu sync.Mutex
	var from []string
	srv := httpfake.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if from = append(from, r.RemoteAddr); len(from) <= len(statuses) {
			w.WriteHeader(statuses[len(from)-1])
			io.WriteString(w, body)
		}
	})
	return srv, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(from)
	}
}

// wantOK sends a GET to a server, and fails unless its response is a 200.
func wantOK(t *testing.T, tr *transport, srv *httpfake.Server) {
	t.Helper()
	r := send(tr, srv.Request(t, "GET", nil))
	if r.err != nil || r.StatusCode != 200 {
		t.Fatal(r)
	}
	r.wantBody(t, "")
}

// A retry uses the same connection after throttling, and in the 2026 revision.
// After a transient failure it uses another one.
func TestConnectionOfARetry(t *testing.T) {
	small, large := httpfake.Text(70_000), httpfake.Text(2_000_000)
	legacy := func(tr *transport) { tr.Mode = awsretry.Legacy }
	timeout := func(tr *transport) { tr.AttemptTimeout = time.Minute }
	revision2026 := func(tr *transport) { tr.Revision = awsretry.Revision2026 }
	for _, tt := range []struct {
		name   string
		change func(*transport)
		status int
		body   string
		same   bool
	}{
		{"standard", nil, 429, small, true},
		{"standard", nil, 429, large, false}, // reading it all would cost more than a connection
		{"timeout", timeout, 400, throttledJSON, true},
		{"standard", nil, 503, "", false},
		{"legacy", legacy, 500, large, false},
		{"timeout", timeout, 408, "broken", false},
		{"2026", revision2026, 500, small, true},
	} {
		for _, protocol := range httpfake.Protocols {
			name := fmt.Sprintf("%s, %d with %d bytes, %s", tt.name, tt.status, len(tt.body), protocol)
			inBubble(t, name, func(t *testing.T) {
				srv, requests := serveInTurn(t, protocol, tt.body, tt.status)
				tr := retryingOver(srv)
				if tt.change != nil {
					tt.change(tr)
				}
				defer tr.CloseIdleConnections()
				wantOK(t, tr, srv)
				synctest.Wait()
				same := tt.same || tt.status == 429 && protocol == "HTTP/2" // which resets the stream alone
				from := requests()
				if len(from) != 2 || (from[0] == from[1]) != same {
					t.Fatalf("the attempts came from %v, want the same: %v", from, same)
				}
				if !same && tt.status != 429 && !closed(srv)[from[1]] {
					t.Error("the retry's own connection stays open, although it is not used again")
				}
			})
		}
	}
}

// closed returns the connections that a server has closed since the last call.
func closed(srv *httpfake.Server) map[string]bool {
	addresses := make(map[string]bool)
	for len(srv.Closed) > 0 {
		addresses[<-srv.Closed] = true
	}
	return addresses
}

// Requests that need no retry share a connection, also after one that did.
func TestConnectionOfLaterRequests(t *testing.T) {
	for _, protocol := range httpfake.Protocols {
		inBubble(t, protocol, func(t *testing.T) {
			srv, requests := serveInTurn(t, protocol, "", 200, 503)
			tr := retryingOver(srv)
			for range 4 {
				wantOK(t, tr, srv)
			}
			// The second attempt failed, and the third was its retry.
			got := requests()
			if len(got) != 5 || got[0] != got[1] || got[2] == got[1] || got[3] == got[2] || got[4] != got[3] {
				t.Errorf("the attempts came from %v", got)
			}
		})
	}
}

// Retries of a scheme of RegisterProtocol go its way, and so does a request
// that Prepare sends there.
func TestRegisteredScheme(t *testing.T) {
	for by, want := range map[string]int{"the caller": 3, "Prepare": 2} {
		inBubble(t, "chosen by "+by, func(t *testing.T) {
			srv, _ := serveInTurn(t, "HTTP/1.1", "", 503)
			sends := 0
			srv.Base.RegisterProtocol("local", httpfake.Base(func(req *http.Request) (*http.Response, error) {
				sends++
				return httpfake.Empty(503, req), nil
			}))
			tr, req := retryingOver(srv), srv.Request(t, "GET", nil)
			if by == "the caller" {
				req.URL.Scheme = "local"
			} else {
				prepares(2, func(req *http.Request) error { req.URL.Scheme = "local"; return nil })(tr)
				want = 1 // and the third attempt reaches the server
			}
			if send(tr, req); sends != want {
				t.Errorf("%d attempts went to the scheme, want %d", sends, want)
			}
		})
	}
}

// With KeepConnections a retry goes the way of the attempt that failed, even
// over a protocol for https that only Base knows.
func TestKeepConnections(t *testing.T) {
	base := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		t.Error("the network is dialed")
		return nil, errReset
	}}
	base.RegisterProtocol("https", httpfake.Statuses(503, 503, 200))
	tr := &transport{Base: base, KeepConnections: true, Backoff: delayed(0)}
	req := httpfake.Request(t, t.Context(), "GET", nil)
	req.URL.Scheme = "https"
	send(tr, req).wantBody(t, "")
}

// CloseIdleConnections closes the connections that retries have made, and those
// that replaced a dead one.
func TestCloseIdleConnectionsOfRetries(t *testing.T) {
	for _, protocol := range append(httpfake.Protocols, "h2c") {
		inBubble(t, protocol, func(t *testing.T) {
			srv, requests := serveInTurn(t, protocol, "", 503, 200, 503, 200, 503)
			tr := retryingOver(srv)
			tr.AttemptTimeout = time.Second
			wantOK(t, tr, srv)
			before := len(requests())
			srv.Freeze()
			wantOK(t, tr, srv)
			wantOK(t, tr, srv)
			tr.CloseIdleConnections()
			synctest.Wait()
			closed := closed(srv)
			for _, address := range requests()[before:] {
				if !closed[address] {
					t.Errorf("the connection from %v is open", address)
				}
			}
		})
	}
}

// An idler is a Base that counts the calls of CloseIdleConnections.
type idler struct {
	httpfake.Base
	closed int
}

func (i *idler) CloseIdleConnections() { i.closed++ }

// CloseIdleConnections reaches Base, if that has such a method.
func TestCloseIdleConnectionsOfBase(t *testing.T) {
	base := new(idler)
	(&http.Client{Transport: &transport{Base: base}}).CloseIdleConnections()
	if base.closed != 1 {
		t.Errorf("reached Base %d times", base.closed)
	}
	(&transport{Base: httpfake.Statuses(200)}).CloseIdleConnections()
}

// The error for https spoken to an http server is found, as http.Client and as
// crypto/tls call it.
func TestSchemeMismatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, _ := serveInTurn(t, "HTTP/1.1", "")
		client := &http.Client{Transport: &transport{Base: srv.Base}}
		_, err := client.Get(strings.Replace(srv.URL, "http:", "https:", 1))
		if !errors.Is(err, http.ErrSchemeMismatch) || !strings.Contains(err.Error(), http.ErrSchemeMismatch.Error()) ||
			stopOf(nil, err) != awsretry.StopPermanent {
			t.Error(err)
		}
		if record := (tls.RecordHeaderError{}); !errors.As(err, &record) {
			t.Errorf("%v hides the error of crypto/tls", err)
		}
	})
}

// If nothing comes back over a connection any more, the retry and later
// requests use another one of the same protocol, also if the attempt that found
// it dead was not retried, or was not classified as a timeout. An upgrade, which
// net/http sends over HTTP/1, does not make them use the dead HTTP/2 connection
// again.
func TestDeadConnection(t *testing.T) {
	transient := func(a *awsretry.Attempt) awsretry.Class {
		if a.Err != nil {
			return awsretry.Transient
		}
		return awsretry.DefaultPolicy(a)
	}
	for protocol, major := range map[string]int{"HTTP/1.1": 1, "HTTP/1.1 over TLS": 1, "HTTP/2": 2, "h2c": 2} {
		for name, tr := range map[string]*transport{
			"retried":                 {},
			"retried, 2026":           {Revision: awsretry.Revision2026},
			"one attempt":             {MaxAttempts: 1},
			"no tokens":               {Quota: awsretry.QuotaConfig{Capacity: 1}},
			"classified as transient": {Policy: transient},
		} {
			inBubble(t, protocol+", "+name, func(t *testing.T) {
				srv := httpfake.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Upgrade") != "" {
						acceptUpgrade(t, w)
					} else if r.ProtoMajor != major {
						t.Errorf("the server saw %s", r.Proto)
					}
				})
				tr.Base, tr.AttemptTimeout, tr.Backoff = srv.Base, time.Second, delayed(0)
				defer tr.CloseIdleConnections()
				wantOK(t, tr, srv)
				srv.Freeze()
				if r := send(tr, srv.Request(t, "GET", nil)); r.took != time.Second {
					t.Errorf("%v, want one timeout", r)
				} else if r.Response != nil {
					r.wantBody(t, "")
				}
				start := time.Now()
				if protocol != "h2c" {
					req := srv.Request(t, "GET", nil)
					req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}
					send(tr, req).response(t).Body.Close()
				}
				wantOK(t, tr, srv)
				if wantOK(t, tr, srv); time.Since(start) > 0 {
					t.Error("a later request met the dead connection")
				}
			})
		}
	}
}

// acceptUpgrade makes the connection of a request the client's own, and ends
// it.
func acceptUpgrade(t *testing.T, w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	conn.Close()
}

// A timeout over HTTP/1 closes its own connection, and the others stay in use:
// the response after the first timeout shows that they need not be left.
func TestTimeoutsKeepThePoolOfHTTP1(t *testing.T) {
	const parallel = 4
	for name, tr := range map[string]*transport{
		"one attempt":               {MaxAttempts: 1},
		"one attempt, with a limit": {MaxAttempts: 1, AttemptTimeout: time.Second},
		"retries":                   {MaxAttempts: 2, Backoff: delayed(0)},
	} {
		inBubble(t, name, func(t *testing.T) {
			srv := httpfake.Serve(t, "HTTP/1.1 over TLS", func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(time.Second / 2)
				if r.Method == "DELETE" {
					<-r.Context().Done()
				}
			})
			srv.Base.ForceAttemptHTTP2, srv.Base.MaxIdleConnsPerHost = true, parallel
			srv.Base.ResponseHeaderTimeout = 2 * time.Second
			var dials atomic.Int64
			dial := srv.Base.DialContext
			srv.Base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				dials.Add(1)
				return dial(ctx, network, address)
			}
			tr.Base = srv.Base
			defer tr.CloseIdleConnections()
			var got []int64
			for range 5 {
				dials.Store(0)
				var requests sync.WaitGroup
				for range parallel {
					requests.Go(func() { send(tr, srv.Request(t, "GET", nil)).wantBody(t, "") })
				}
				requests.Wait()
				got = append(got, dials.Load())
				if _, err := tr.RoundTrip(srv.Request(t, "DELETE", nil)); err == nil {
					t.Error("no timeout")
				}
			}
			if got[0] != parallel || got[1] < parallel || got[1] > parallel+1 || got[2]+got[3]+got[4] > 4 {
				t.Errorf("dialed %v connections for rounds of %d requests, each with a timeout after it", got, parallel)
			}
		})
	}
}
