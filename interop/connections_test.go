package interop

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
)

// TestMaxConnsPerHost has many requests fail and be retried at once, through a pool that may have two connections.
func TestMaxConnsPerHost(t *testing.T) {
	var serving, most, sent atomic.Int64
	server := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for now, max := serving.Add(1), most.Load(); now > max && !most.CompareAndSwap(max, now); {
			max = most.Load()
		}
		time.Sleep(5 * time.Millisecond)
		first := sent.Add(1)%2 == 1
		serving.Add(-1) // before the client can send anything else on this connection
		if first {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}), nil)
	pool := newPool(t)
	pool.MaxConnsPerHost = 2
	transport := retrying(pool)
	transport.MaxAttempts = 10
	client := &http.Client{Transport: transport}
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() {
			for range 4 {
				if _, err := getText(context.Background(), client, server.URL); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	if most.Load() > 2 {
		t.Errorf("%d requests were served at a time, each with a connection of its own; MaxConnsPerHost is 2", most.Load())
	}
}

// TestPreparedScheme has Prepare change the scheme: to one that the pool has from RegisterProtocol, and from one that nothing knows.
func TestPreparedScheme(t *testing.T) {
	for _, c := range []struct {
		name, from, to string
		fresh          bool // the retry has a connection of its own
	}{
		{"to a registered protocol", "http", "registered", false},
		{"from a name of the caller's", "service", "http", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			service := newThrottler(t, answer(503, "busy"), answer(200, "{}"))
			host := service.Listener.Addr().String()
			pool := newPool(t)
			inner := newPool(t)
			pool.RegisterProtocol("registered", serviceFunc(func(req *http.Request) (*http.Response, error) {
				req = req.Clone(req.Context())
				req.URL.Scheme = "http"
				return inner.RoundTrip(req)
			}))
			transport := retrying(pool)
			transport.Prepare = func(req *http.Request, _ int) error {
				req.URL.Scheme = c.to
				return nil
			}
			var used []string // the connections' own addresses
			ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
				used = append(used, info.Conn.LocalAddr().String())
			}})
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.from+"://"+host, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if len(used) != 2 || resp.StatusCode != 200 || c.fresh && used[0] == used[1] {
				t.Errorf("status %d, sent on %q", resp.StatusCode, used)
			}
		})
	}
}

// TestFreshConnections shows which retries get a connection that the attempt before did not use, and that it speaks the same
// protocol.
func TestFreshConnections(t *testing.T) {
	for _, p := range protocols {
		for _, c := range []struct {
			name     string
			failure  http.HandlerFunc
			revision awsretry.Revision
			fresh    bool
		}{
			{"after a transient failure", answer(503, "busy"), awsretry.Classic, true},
			{"after throttling", answer(429, "busy"), awsretry.Classic, false},
			{"after a time-out", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, awsretry.Classic, true},
			{"after a transient failure, revision 2026", answer(503, "busy"), awsretry.Revision2026, false},
		} {
			t.Run(p.name+", "+c.name, func(t *testing.T) {
				var sent atomic.Int64
				server, pool := p.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if sent.Add(1) == 1 {
						c.failure(w, r)
					}
				}))
				transport := retryingWithin(pool).(*awsretry.Transport)
				transport.Revision = c.revision
				var used []string // the connections' own addresses
				ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
					used = append(used, info.Conn.LocalAddr().String())
				}})
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := transport.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if len(used) != 2 || (used[0] != used[1]) != c.fresh || resp.ProtoMajor != p.major {
					t.Errorf("%s, sent on %q, want another connection for the retry: %t", resp.Proto, used, c.fresh)
				}
			})
		}
	}
}

// TestCloseIdleConnections wants no connection left when a Transport has closed the idle ones, whatever it retried: neither the
// ones that failed nor those that were made instead.
func TestCloseIdleConnections(t *testing.T) {
	fail := map[string]http.HandlerFunc{
		"503": answer(503, "busy"),
		"a reset": func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor == 1 {
				dropConnection(w)
			}
			panic(http.ErrAbortHandler)
		},
		"a time-out": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	}
	for _, p := range protocols {
		for name, failure := range fail {
			t.Run(p.name+", after "+name, func(t *testing.T) {
				service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/failing" && r.Header.Get("X-Attempt") == "1" {
						failure(w, r)
						return
					}
					io.WriteString(w, "{}")
				})
				server, pool := p.start(t, service)
				relay := startRelay(t, server)
				transport := retryingWithin(pool).(*awsretry.Transport)
				transport.AttemptTimeout = 200 * time.Millisecond
				transport.Prepare = func(req *http.Request, n int) error {
					req.Header.Set("X-Attempt", fmt.Sprint(n))
					return nil
				}
				client := &http.Client{Transport: transport}
				var callers sync.WaitGroup
				for i := range 8 {
					callers.Go(func() {
						path := "failing"
						if i%2 == 0 {
							path = "good"
						}
						for range 2 {
							if _, err := getText(context.Background(), client, relay.url()+path); err != nil {
								t.Error(err)
							}
						}
					})
				}
				callers.Wait()
				if !eventually(func() bool { client.CloseIdleConnections(); return relay.open() == 0 }) {
					t.Errorf("%d of %d connections are still open", relay.open(), len(relay.all()))
				}
			})
		}
	}
}
