package interop

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"github.com/PuerkitoBio/rehttp"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/hashicorp/go-retryablehttp"
	"golang.org/x/net/http2"
)

// A protocol is what a client and a server in memory speak.
type protocol struct {
	name  string
	major int    // of HTTP
	speak string // the protocol of httpfake.Serve
	xnet  bool   // the client has the HTTP/2 of golang.org/x/net
}

var protocols = []protocol{
	{name: "HTTP/1.1", major: 1, speak: "HTTP/1.1"},
	{name: "HTTP/2", major: 2, speak: "HTTP/2"},
	{name: "HTTP/2 without TLS", major: 2, speak: "h2c"},
	{name: "HTTP/2 of golang.org/x/net", major: 2, speak: "HTTP/2", xnet: true},
}

func (p protocol) serve(t *testing.T, handle http.HandlerFunc) *httpfake.Server {
	t.Helper()
	srv := httpfake.Serve(t, p.speak, handle)
	if p.xnet {
		pool := &http.Transport{DialContext: srv.Base.DialContext, TLSClientConfig: srv.Base.TLSClientConfig.Clone()}
		if _, err := http2.ConfigureTransports(pool); err != nil {
			t.Fatal(err)
		}
		srv.Base = pool
	}
	return srv
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// A connCounter counts the connections of a client.
type connCounter struct{ opened, open atomic.Int64 }

// dialing returns a dialFunc whose connections are counted.
func (c *connCounter) dialing(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c.opened.Add(1)
		c.open.Add(1)
		return &countedConn{Conn: conn, counter: c}, nil
	}
}

type countedConn struct {
	net.Conn
	counter *connCounter
	closed  atomic.Bool
}

func (c *countedConn) Close() error {
	if !c.closed.Swap(true) {
		c.counter.open.Add(-1)
	}
	return c.Conn.Close()
}

const attemptTimeout = time.Second // in virtual time

// withTimeout returns a Transport that makes four attempts, each with a
// time-out.
func withTimeout(base http.RoundTripper) *awsretry.Transport {
	tr := retrying(base)
	tr.AttemptTimeout = attemptTimeout
	tr.MaxAttempts = 4
	return tr
}

// The network loses everything that is sent over a connection, without a reset.
// The test compares how libraries send the next two requests.
func TestDeadConnection(t *testing.T) {
	const (
		recovers = "2 attempts → 200, then 1 attempt → 200"
		fails    = "4 attempts → error"
	)
	for _, tt := range []struct {
		library      string
		wrap         func(http.RoundTripper) http.RoundTripper
		http1, http2 string
	}{
		{"awsretry", func(b http.RoundTripper) http.RoundTripper { return withTimeout(b) }, recovers, recovers},
		{"rehttp", func(b http.RoundTripper) http.RoundTripper {
			retry := rehttp.RetryAll(rehttp.RetryMaxRetries(3), rehttp.RetryTimeoutErr())
			tr := rehttp.NewTransport(b, retry, rehttp.ConstDelay(time.Millisecond))
			tr.PerAttemptTimeout = attemptTimeout
			return tr
		}, recovers, fails},
		{"go-retryablehttp", func(b http.RoundTripper) http.RoundTripper {
			return retryablehttpOf(func(c *retryablehttp.Client) {
				c.HTTPClient.Timeout, c.RetryMax, c.RetryWaitMax = attemptTimeout, 3, time.Second
			})(b, nil)
		}, recovers, fails},
		{"failsafe-go", func(b http.RoundTripper) http.RoundTripper {
			retry := failsafeRetry(lastFailure, func(b retryBuilder) { b.WithMaxRetries(3) })
			return failsafehttp.NewRoundTripper(b, retry, timeout.New[*http.Response](attemptTimeout))
		}, recovers, fails},
	} {
		for _, p := range protocols {
			t.Run(tt.library+"/"+p.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := p.serve(t, echo)
					client := &http.Client{Transport: tt.wrap(srv.Base)}
					if got, err := tracedPut(client, srv.URL, p); err != nil || got != "1 attempt → 200" {
						t.Fatalf("before: %s, %v", got, err)
					}
					srv.Freeze()
					got, err := tracedPut(client, srv.URL, p)
					if err == nil {
						var later string
						later, err = tracedPut(client, srv.URL, p)
						got += ", then " + later
					}
					want := tt.http2
					if p.major == 1 {
						want = tt.http1
					}
					if got != want {
						t.Errorf("%s, want %s (%v)", got, want, err)
					}
				})
			})
		}
	}
}

// tracedPut sends a body. It returns how often a connection was used for it and
// the result.
func tracedPut(client *http.Client, url string, p protocol) (string, error) {
	attempts := 0
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { attempts++ },
	})
	sent := content[:1000]
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, bytes.NewReader(sent))
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	text, err := textOf(resp, err)
	if err != nil {
		return count(attempts) + " → error", err
	}
	if resp.ProtoMajor != p.major || text != string(sent) {
		err = fmt.Errorf("%s, %d bytes", resp.Proto, len(text))
	}
	return count(attempts) + " → 200", err
}

// Many requests are under way, with bodies of every kind, when their connection
// dies.
func TestDeadConnectionUnderWay(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const each = 2 // requests of a kind
				var underWay atomic.Int32
				frozen := make(chan struct{})
				srv := p.serve(t, func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					underWay.Add(1)
					<-frozen
					w.Write(body)
				})
				conns := new(connCounter)
				srv.Base.DialContext = conns.dialing(srv.Base.DialContext)
				client := &http.Client{Transport: withTimeout(srv.Base)}
				var callers sync.WaitGroup
				for _, kind := range bodyKinds {
					for range each {
						callers.Go(func() { sendTwice(t, client, srv.URL, p, kind) })
					}
				}
				synctest.Wait()
				if n := underWay.Load(); int(n) != each*len(bodyKinds) {
					t.Errorf("%d requests are under way, want %d", n, each*len(bodyKinds))
				}
				srv.Freeze()
				close(frozen)
				callers.Wait()
				time.Sleep(time.Second) // connections that were dialed in vain become idle
				client.CloseIdleConnections()
				synctest.Wait()
				if n := conns.open.Load(); n != 0 {
					t.Errorf("%d of %d connections are open", n, conns.opened.Load())
				}
			})
		})
	}
}

// sendTwice sends a request that must succeed in its second attempt.
func sendTwice(t *testing.T, client *http.Client, url string, p protocol, kind bodyKind) {
	var last awsretry.Attempt
	ctx := awsretry.WithObserver(t.Context(), func(a awsretry.Attempt) { last = a })
	req, body := kind.request(t, ctx, url)
	resp, err := client.Do(req)
	if err != nil {
		t.Errorf("%s: %v", kind.name, err)
		return
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.Equal(got, kind.content) || resp.ProtoMajor != p.major || last.Number != 2 {
		t.Errorf("%s: %s %s in attempt %d, %d bytes of %d, %v",
			kind.name, resp.Proto, resp.Status, last.Number, len(got), len(kind.content), err)
	}
	wantClosedOnce(t, body)
}
