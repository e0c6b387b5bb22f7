package interop

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
	"example.com/awsretry/interop/internal/peers"
	"github.com/PuerkitoBio/rehttp"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/hashicorp/go-retryablehttp"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"golang.org/x/net/http2"
)

// A protocol is what a client and a server in memory speak.
type protocol struct {
	name  string
	major int    // of HTTP
	speak string // the protocol of httpfake.Serve
	xnet  bool   // the client has the HTTP/2 of golang.org/x/net
	pings bool   // which ends a dead connection
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
		h2, err := http2.ConfigureTransports(pool)
		if err != nil {
			t.Fatal(err)
		}
		if p.pings {
			h2.ReadIdleTimeout, h2.PingTimeout = sendPing, pingTimeout
		}
		srv.Base = pool
	} else if p.pings {
		srv.Base.HTTP2 = &http.HTTP2Config{SendPingTimeout: sendPing, PingTimeout: pingTimeout}
	}
	return srv
}

// A dead connection is closed after these two.
const (
	sendPing    = 300 * time.Millisecond
	pingTimeout = 200 * time.Millisecond
)

const attemptTimeout = time.Second // in virtual time

// withTimeout returns a Transport that makes four attempts, each with a
// time-out.
func withTimeout(base http.RoundTripper) *awsretry.Transport {
	tr := kit.Retrying(base)
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
		xnet         string // "": as http2
	}{
		// A Base with the HTTP/2 of golang.org/x/net is not copied.
		{"awsretry", func(b http.RoundTripper) http.RoundTripper { return withTimeout(b) }, recovers, recovers, fails},
		{"rehttp", peers.Rehttp(3, rehttp.RetryTimeoutErr(), rehttp.ConstDelay(time.Millisecond),
			func(tr *rehttp.Transport) { tr.PerAttemptTimeout = attemptTimeout }), recovers, fails, ""},
		{"go-retryablehttp", peers.Retryablehttp(func(c *retryablehttp.Client) {
			c.HTTPClient.Timeout, c.RetryMax, c.RetryWaitMax = attemptTimeout, 3, time.Second
		}), recovers, fails, ""},
		{"failsafe-go", func(b http.RoundTripper) http.RoundTripper {
			retry := peers.FailsafeRetry(func(b peers.RetryBuilder) { b.ReturnLastFailure().WithMaxRetries(3) })
			return failsafehttp.NewRoundTripper(b, retry, timeout.New[*http.Response](attemptTimeout))
		}, recovers, fails, ""},
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
					} else if p.xnet {
						want = cmp.Or(tt.xnet, want)
					}
					if got != want {
						t.Errorf("%s, want %s (%v)", got, want, err)
					}
				})
			})
		}
	}
}

// Pings end a dead HTTP/2 connection, whichever HTTP/2 a Base has and whatever has
// failed before: also over otelhttp, which hides the connections, and for a long
// poll, which has no AttemptTimeout.
func TestPings(t *testing.T) {
	direct := func(b http.RoundTripper) http.RoundTripper { return b }
	spans := func(b http.RoundTripper) http.RoundTripper { return otelhttp.NewTransport(b) }
	for name, wrap := range map[string]func(http.RoundTripper) http.RoundTripper{"direct": direct, "otelhttp": spans} {
		for _, p := range protocols {
			if p.pings = true; p.major == 1 {
				continue
			}
			t.Run(name+"/"+p.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { p.poll(t, wrap) })
			})
		}
	}
}

// poll sends a request that times out, and then a long poll and a PUT, each over a
// connection that dies.
func (p protocol) poll(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) {
	srv := p.serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			hang(w, r)
		}
		echo(w, r)
	})
	tr := withTimeout(wrap(srv.Base))
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr}
	get := func(ctx context.Context) (took time.Duration, err error) {
		start := time.Now()
		resp, err := client.Do(kit.NewRequest(t, awsretry.WithMaxAttempts(ctx, 1), http.MethodGet, srv.URL, nil))
		if err == nil {
			resp.Body.Close()
		}
		return time.Since(start), err
	}
	if took, err := get(t.Context()); err == nil || took != attemptTimeout {
		t.Fatalf("AttemptTimeout: %v after %v", err, took)
	}
	const dies = 10 * time.Second
	time.AfterFunc(dies, srv.Freeze)
	ctx, cancel := context.WithTimeout(awsretry.WithAttemptTimeout(t.Context(), 0), time.Hour)
	defer cancel()
	if took, err := get(ctx); err == nil || took < dies || took > dies+2*(sendPing+pingTimeout) {
		t.Errorf("the long poll ended after %v: %v", took, err)
	}
	for _, want := range []string{"1 attempt → 200", "2 attempts → 200"} {
		if got, err := tracedPut(client, srv.URL, p); got != want {
			t.Errorf("%s, want %s: %v", got, want, err)
		}
		srv.Freeze()
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
	text, err := kit.Text(resp, err)
	if err != nil {
		return count(attempts) + " → error", err
	}
	if resp.ProtoMajor != p.major || text != string(sent) {
		err = fmt.Errorf("%s, %d bytes", resp.Proto, len(text))
	}
	return count(attempts) + " → 200", err
}

// count returns "1 attempt", or n and the plural.
func count(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprint(n, " attempts")
}
