package interop

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
)

// TestKeepRegisteredProtocol has a pool whose http scheme is served by RegisterProtocol. That cannot be seen from outside,
// and a retry on a connection of its own would dial the network.
func TestKeepRegisteredProtocol(t *testing.T) {
	pool := newPool(t)
	pool.DialContext = func(context.Context, string, string) (net.Conn, error) {
		t.Error("the network was dialed")
		return nil, errors.New("no network")
	}
	served := 0
	pool.RegisterProtocol("http", serviceFunc(func(req *http.Request) (*http.Response, error) {
		served++
		status := http.StatusServiceUnavailable
		if served == 3 {
			status = http.StatusOK
		}
		return &http.Response{
			StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: make(http.Header), Request: req,
			Body: io.NopCloser(strings.NewReader("from memory")),
		}, nil
	}))
	transport := retrying(pool)
	transport.KeepConnections = true
	resp, err := transport.RoundTrip(httpGet(t, context.Background(), "http://in.memory/"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "from memory" || resp.StatusCode != 200 || served != 3 {
		t.Errorf("status %d with %q after %d attempts, %v", resp.StatusCode, body, served, err)
	}
}

// TestKeepConnections shows that a retry uses the connection of the attempt before it, where it is asked to.
func TestKeepConnections(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			var sent atomic.Int64
			server, pool := p.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if sent.Add(1) == 1 {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			}))
			transport := retrying(pool)
			transport.KeepConnections = true
			var used []string // the connections' own addresses
			ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
				used = append(used, info.Conn.LocalAddr().String())
			}})
			resp, err := transport.RoundTrip(httpGet(t, ctx, server.URL))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if len(used) != 2 || used[0] != used[1] || resp.StatusCode != 200 {
				t.Errorf("status %d, sent on %q", resp.StatusCode, used)
			}
		})
	}
}

func httpGet(t *testing.T, ctx context.Context, url string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}
