package interop

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"github.com/PuerkitoBio/rehttp"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/hashicorp/go-retryablehttp"
	"golang.org/x/net/http2"
)

// A protocol is what a client and a server speak.
type protocol struct {
	name  string
	major int
	start func(*testing.T, http.Handler) (*httptest.Server, *http.Transport)
}

var protocols = []protocol{
	{"HTTP/1.1", 1, func(t *testing.T, h http.Handler) (*httptest.Server, *http.Transport) {
		return start(t, h, nil), newPool(t)
	}},
	{"HTTP/2", 2, func(t *testing.T, h http.Handler) (*httptest.Server, *http.Transport) {
		server := start(t, h, func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() })
		return server, trusting(t, server)
	}},
	{"HTTP/2 without TLS", 2, func(t *testing.T, h http.Handler) (*httptest.Server, *http.Transport) {
		return start(t, h, unencryptedHTTP2), unencryptedHTTP2Pool(t)
	}},
	{"HTTP/2 of golang.org/x/net", 2, func(t *testing.T, h http.Handler) (*httptest.Server, *http.Transport) {
		server := start(t, h, func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() })
		pool := trusting(t, server)
		pool.ForceAttemptHTTP2 = false
		if _, err := http2.ConfigureTransports(pool); err != nil {
			t.Fatal(err)
		}
		return server, pool
	}},
}

const deadConnTimeout = 600 * time.Millisecond // of an attempt; long enough for a busy machine

// retryingWithin is how a Transport meets a dead connection.
func retryingWithin(base http.RoundTripper) http.RoundTripper {
	transport := retrying(base)
	transport.AttemptTimeout = deadConnTimeout
	transport.MaxAttempts = 4
	return transport
}

// TestDeadConnection has the network drop all packets of a connection, without a reset, and compares what becomes of the next
// request, and of one after it. An attempt that timed out on a dead connection says nothing about the service.
func TestDeadConnection(t *testing.T) {
	const (
		recovers = "2 attempts → 200, then 1 attempt → 200"
		stuck    = "4 attempts → error"
	)
	for _, c := range []struct {
		library      string
		wrap         func(http.RoundTripper) http.RoundTripper
		http1, http2 string
	}{
		{"awsretry", retryingWithin, recovers, recovers},
		{"rehttp", func(b http.RoundTripper) http.RoundTripper {
			t := rehttp.NewTransport(b, rehttp.RetryAll(rehttp.RetryMaxRetries(3), rehttp.RetryTimeoutErr()), rehttp.ConstDelay(time.Millisecond))
			t.PerAttemptTimeout = deadConnTimeout
			return t
		}, recovers, stuck},
		{"go-retryablehttp", func(b http.RoundTripper) http.RoundTripper {
			client := retryablehttp.NewClient()
			client.HTTPClient = &http.Client{Transport: b, Timeout: deadConnTimeout}
			client.Logger, client.RetryMax, client.RetryWaitMin, client.RetryWaitMax = nil, 3, time.Millisecond, time.Millisecond
			return &retryablehttp.RoundTripper{Client: client}
		}, recovers, stuck},
		{"failsafe-go", func(b http.RoundTripper) http.RoundTripper {
			retry := failsafeRetry(lastFailure, func(b retryBuilder) { b.WithMaxRetries(3) })
			return failsafehttp.NewRoundTripper(b, retry, timeout.New[*http.Response](deadConnTimeout))
		}, recovers, stuck},
	} {
		for i, p := range protocols {
			want := c.http2
			if p.major == 1 {
				want = c.http1
			} else if i > 1 && c.library != "awsretry" {
				continue // as the other HTTP/2
			}
			t.Run(c.library+", "+p.name, func(t *testing.T) {
				t.Parallel()
				server, pool := p.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					w.Write(body)
				}))
				relay := startRelay(t, server)
				client := &http.Client{Transport: c.wrap(pool)}
				if got, err := tracedPut(client, relay.url(), p); err != nil || got != "1 attempt → 200" {
					t.Fatalf("before: %s, %v", got, err)
				}
				relay.drop()
				got, err := tracedPut(client, relay.url(), p)
				if err == nil {
					var later string
					later, err = tracedPut(client, relay.url(), p)
					got += ", then " + later
				}
				t.Log(got, err)
				if got != want {
					t.Errorf("%s, want %s", got, want)
				}
			})
		}
	}
}

// tracedPut sends a body, and says how many times a connection was used for it and what came back.
func tracedPut(client *http.Client, url string, p protocol) (string, error) {
	attempts := 0
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { attempts++ }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, bytes.NewReader(content[:1000]))
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return count(attempts) + " → error", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && (resp.ProtoMajor != p.major || !bytes.Equal(body, content[:1000])) {
		err = fmt.Errorf("%s, %d bytes", resp.Proto, len(body))
	}
	return fmt.Sprintf("%s → %d", count(attempts), resp.StatusCode), err
}

// TestDeadConnectionUnderWay has many requests under way, with bodies of every kind, when their connection dies.
func TestDeadConnectionUnderWay(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			var underWay atomic.Int64
			dropped := make(chan struct{})
			server, pool := p.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor != p.major {
					t.Errorf("a request came by %s", r.Proto)
				}
				body, _ := io.ReadAll(r.Body)
				underWay.Add(1)
				<-dropped
				w.Write(body)
			}))
			relay := startRelay(t, server)
			transport := retryingWithin(pool).(*awsretry.Transport)
			transport.AttemptTimeout = 2 * time.Second
			client := &http.Client{Transport: transport}

			var callers sync.WaitGroup
			for _, kind := range bodyKinds {
				for range 4 {
					callers.Go(func() {
						ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
						defer cancel()
						req, err := http.NewRequestWithContext(ctx, http.MethodPut, relay.url(), kind.open(t))
						if err != nil {
							t.Error(err)
							return
						}
						var closes atomic.Int32
						if req.Body != nil {
							kind.finish(req, &closes)
						}
						var last awsretry.Attempt
						req = req.WithContext(awsretry.WithObserver(ctx, func(a awsretry.Attempt) { last = a }))
						resp, err := client.Do(req)
						if err != nil {
							t.Errorf("%s: %v", kind.name, err)
							return
						}
						defer resp.Body.Close()
						if body, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(body, kind.content) || resp.ProtoMajor != p.major || last.Number != 2 {
							t.Errorf("%s: %s %s in attempt %d, %d bytes of %d, %v", kind.name, resp.Proto, resp.Status, last.Number, len(body), len(kind.content), err)
						}
						if req.Body != nil && (!eventually(func() bool { return closes.Load() > 0 }) || closes.Load() != 1) {
							t.Errorf("%s: the caller's body was closed %d times", kind.name, closes.Load())
						}
					})
				}
			}
			if all := int64(4 * len(bodyKinds)); !eventually(func() bool { return underWay.Load() == all }) {
				t.Errorf("%d requests of %d are under way", underWay.Load(), all)
			}
			relay.drop()
			close(dropped)
			callers.Wait()
			if !eventually(func() bool { client.CloseIdleConnections(); return relay.open() == 0 }) {
				t.Errorf("%d of %d connections are still open", relay.open(), len(relay.all()))
			}
		})
	}
}
