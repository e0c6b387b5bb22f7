package contract_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
)

// A retry uses the same connection after throttling, and in the 2026 revision.
// After a transient failure it uses another one.
func TestConnectionOfARetry(t *testing.T) {
	const code = `{"__type":"ThrottlingException"}`
	standard := func(*transport) {}
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
		{"standard", standard, 429, "", true},
		{"standard", standard, 429, "slow down", true},
		{"standard", standard, 429, httpfake.Text(100_000), true},
		// Reading it all would cost more than a connection.
		{"standard", standard, 429, httpfake.Text(2_000_000), false},
		{"legacy", legacy, 400, code, true},
		{"time-out", timeout, 400, code, true},
		{"standard", standard, 503, "", false},
		{"standard", standard, 503, "broken", false},
		{"standard", standard, 500, httpfake.Text(70_000), false},
		{"legacy", legacy, 500, httpfake.Text(2_000_000), false},
		{"time-out", timeout, 408, "broken", false},
		{"2026", revision2026, 503, "", true},
		{"2026", revision2026, 503, "broken", true},
		{"2026", revision2026, 500, httpfake.Text(100_000), true},
	} {
		for _, protocol := range httpfake.Protocols {
			name := fmt.Sprintf("%s, %d with %d bytes, %s", tt.name, tt.status, len(tt.body), protocol)
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var mu sync.Mutex
					var from []string // the addresses of the attempts
					srv := httpfake.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
						mu.Lock()
						defer mu.Unlock()
						if from = append(from, r.RemoteAddr); len(from) == 1 {
							w.WriteHeader(tt.status)
							io.WriteString(w, tt.body)
						}
					})
					tr := &transport{Base: srv.Base, Backoff: contract.Delay(0)}
					tt.change(tr)
					defer tr.CloseIdleConnections()
					resp, err := tr.RoundTrip(srv.Request(t, "GET", nil))
					if err != nil || resp.StatusCode != 200 {
						t.Fatal(resp, err)
					}
					httpfake.ReadAll(t, resp)
					synctest.Wait()
					same := tt.same || tt.status == 429 && protocol == "HTTP/2" // which resets the stream alone
					if len(from) != 2 || (from[0] == from[1]) != same {
						t.Fatalf("the attempts came from %v, want the same: %v", from, same)
					}
					if same || tt.status == 429 {
						return
					}
					for closed := ""; closed != from[1]; { // the retry's own connection is not used again
						select {
						case closed = <-srv.Closed:
						default:
							t.Fatal("the retry's connection stays open")
						}
					}
				})
			})
		}
	}
}

// Requests that need no retry share a connection, also after one that did.
func TestConnectionOfLaterRequests(t *testing.T) {
	for _, protocol := range httpfake.Protocols {
		t.Run(protocol, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from := make(chan string, 9)
				srv := httpfake.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
					if from <- r.RemoteAddr; len(from) == 2 {
						w.WriteHeader(503)
					}
				})
				tr := &transport{Base: srv.Base, Backoff: contract.Delay(0)}
				for range 4 {
					resp, err := tr.RoundTrip(srv.Request(t, "GET", nil))
					if err != nil || resp.StatusCode != 200 {
						t.Fatal(resp, err)
					}
					httpfake.ReadAll(t, resp)
				}
				close(from)
				var got []string
				for address := range from {
					got = append(got, address)
				}
				// The second attempt failed, and the third was its retry.
				if len(got) != 5 || got[0] != got[1] || got[2] == got[1] || got[3] == got[2] || got[4] != got[3] {
					t.Errorf("the attempts came from %v", got)
				}
			})
		})
	}
}

// If Base limits the connections of a host, a retry makes no connection of its
// own.
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
	tr := &transport{Base: base, MaxAttempts: 4, Backoff: contract.Delay(time.Millisecond)}
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			for range 3 {
				req := httptest.NewRequestWithContext(t.Context(), "GET", srv.URL, nil)
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Error(err)
					return
				}
				httpfake.ReadAll(t, resp)
			}
		})
	}
	all.Wait()
	if most.Load() > 2 || sends.Load() != 6*3*4 {
		t.Errorf("%d connections at a time, %d attempts", most.Load(), sends.Load())
	}
}

// A scheme of RegisterProtocol goes its own way, and so do its retries.
func TestRegisteredScheme(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sends atomic.Int32
		srv := httpfake.Serve(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
			if sends.Add(1) == 1 {
				w.WriteHeader(503)
			}
		})
		srv.Base.RegisterProtocol("local", httpfake.Base(func(req *http.Request) (*http.Response, error) {
			req = req.Clone(req.Context())
			req.URL.Scheme = "http"
			return srv.Base.RoundTrip(req)
		}))
		tr := &transport{Base: srv.Base, Backoff: contract.Delay(0)}
		req := srv.Request(t, "GET", nil)
		req.URL.Scheme = "local"
		resp, err := tr.RoundTrip(req)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		httpfake.ReadAll(t, resp)
	})
}

// With KeepConnections a retry goes the way of the attempt that failed, even
// over a protocol for https that only Base knows.
func TestKeepConnections(t *testing.T) {
	base := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		t.Error("the network is dialed")
		return nil, errReset
	}}
	sends := 0
	base.RegisterProtocol("https", httpfake.Base(func(req *http.Request) (*http.Response, error) {
		sends++
		return httpfake.Response(req, 503, http.NoBody), nil
	}))
	tr := &transport{Base: base, KeepConnections: true, Backoff: contract.Delay(0)}
	req := httpfake.Request(t, t.Context(), "GET", nil)
	req.URL.Scheme = "https"
	if resp, err := tr.RoundTrip(req); err != nil || resp.StatusCode != 503 || sends != 3 {
		t.Errorf("%v, %v after %d attempts", resp, err, sends)
	}
}

// CloseIdleConnections closes the connections that retries have made, and those
// that replaced a dead one.
func TestCloseIdleConnectionsOfRetries(t *testing.T) {
	for _, protocol := range append(httpfake.Protocols, "h2c") {
		t.Run(protocol, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sends atomic.Int32
				var open sync.Map // the addresses of requests
				srv := httpfake.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
					open.Store(r.RemoteAddr, true)
					if sends.Add(1)%2 == 1 {
						w.WriteHeader(503)
					}
				})
				tr := &transport{Base: srv.Base, Backoff: contract.Delay(0), AttemptTimeout: time.Second}
				for i := range 3 {
					if i == 1 {
						srv.Freeze()
						open.Clear()
					}
					resp, err := tr.RoundTrip(srv.Request(t, "GET", nil))
					if err != nil || resp.StatusCode != 200 {
						t.Fatal(resp, err)
					}
					httpfake.ReadAll(t, resp)
				}
				tr.CloseIdleConnections()
				synctest.Wait()
				for len(srv.Closed) > 0 {
					open.Delete(<-srv.Closed)
				}
				open.Range(func(address, _ any) bool {
					t.Errorf("the connection from %v is open", address)
					return true
				})
			})
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
	tr := &transport{Base: base}
	tr.CloseIdleConnections()
	(&http.Client{Transport: tr}).CloseIdleConnections()
	if base.closed != 2 {
		t.Errorf("reached Base %d times, want 2", base.closed)
	}
	(&transport{Base: httpfake.Statuses(200)}).CloseIdleConnections()
}

// A retry over a connection of its own speaks HTTP/1.1 like the attempt before
// it, even if the next node of the same name could speak HTTP/2.
func TestRetryKeepsTheProtocol(t *testing.T) {
	var conns atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(503)
	}))
	srv.EnableHTTP2, srv.TLS, srv.Config.ErrorLog = true, &tls.Config{}, log.New(io.Discard, "", 0)
	srv.TLS.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := srv.TLS.Clone()
		c.GetConfigForClient, c.NextProtos = nil, []string{"h2", "http/1.1"}
		if conns.Add(1) == 1 {
			c.NextProtos = []string{"http/1.1"}
		}
		return c, nil
	}
	srv.StartTLS()
	defer srv.Close()
	tr := &transport{Base: srv.Client().Transport, Backoff: contract.Delay(0)}
	resp, err := tr.RoundTrip(httptest.NewRequestWithContext(t.Context(), "GET", srv.URL, nil))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if conns.Load() != 3 || resp.StatusCode != 503 {
		t.Errorf("%s over %d connections", resp.Status, conns.Load())
	}
}

// The error for https spoken to an http server is found, as http.Client and as
// crypto/tls call it.
func TestSchemeMismatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := httpfake.Serve(t, "HTTP/1.1", func(http.ResponseWriter, *http.Request) {})
		client := &http.Client{Transport: &transport{Base: srv.Base}}
		_, err := client.Get(strings.Replace(srv.URL, "http:", "https:", 1))
		if !errors.Is(err, http.ErrSchemeMismatch) || !strings.Contains(err.Error(), http.ErrSchemeMismatch.Error()) {
			t.Error(err)
		}
		if contract.StopOf(nil, err) != awsretry.StopPermanent {
			t.Errorf("stopped by %q", contract.StopOf(nil, err))
		}
		if record := (tls.RecordHeaderError{}); !errors.As(err, &record) {
			t.Errorf("%v hides the error of crypto/tls", err)
		}
	})
}
