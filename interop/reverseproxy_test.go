package interop

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// A proxied service has an httputil.ReverseProxy in front of it, whose Transport retries.
type proxied struct {
	name   string
	listen func(*httptest.Server)
	pool   func(testing.TB) *http.Transport
}

var overHTTP1 = proxied{"HTTP/1.1", (*httptest.Server).Start, newPool}

var proxiedByBoth = []proxied{overHTTP1, {"HTTP/2", unencryptedHTTP2, unencryptedHTTP2Pool}}

// start returns the proxy's URL, and a client for it that does not retry.
func (p proxied) start(t *testing.T, service http.Handler) (client *http.Client, address string) {
	backend := start(t, service, p.listen)
	pool := p.pool(t)
	pool.ExpectContinueTimeout = 10 * time.Second
	proxy := start(t, reverseProxy(t, backend.URL, retrying(pool)), p.listen)
	pool = p.pool(t)
	pool.ExpectContinueTimeout = 10 * time.Second
	return &http.Client{Transport: pool, Timeout: 20 * time.Second}, proxy.URL
}

// failOnce answers the first request with 503, without reading its body.
func failOnce(next http.HandlerFunc) http.Handler {
	var failed atomic.Bool
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !failed.Swap(true) {
			http.Error(w, `{"code": "busy"}`, http.StatusServiceUnavailable)
			return
		}
		next(w, r)
	})
}

// TestReverseProxyEvents has a service send an event only when the client has seen the one before it.
func TestReverseProxyEvents(t *testing.T) {
	for _, p := range proxiedByBoth {
		t.Run(p.name, func(t *testing.T) {
			seen := make(chan struct{})
			client, address := p.start(t, failOnce(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for i := range 5 {
					fmt.Fprintf(w, "data: %d\n\n", i)
					http.NewResponseController(w).Flush()
					select {
					case <-seen:
					case <-r.Context().Done():
						return
					}
				}
			}))
			resp, err := client.Get(address)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			events := bufio.NewScanner(resp.Body)
			for i := range 5 {
				if !events.Scan() || events.Text() != fmt.Sprint("data: ", i) || !events.Scan() {
					t.Fatalf("event %d is %q, %v", i, events.Text(), events.Err())
				}
				seen <- struct{}{}
			}
			if events.Scan() {
				t.Errorf("more than 5 events: %q", events.Text())
			}
		})
	}
}

// TestReverseProxyConversation has a client write a line only when the one before it has come back.
func TestReverseProxyConversation(t *testing.T) {
	for _, p := range proxiedByBoth {
		t.Run(p.name, func(t *testing.T) {
			client, address := p.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.NewResponseController(w).EnableFullDuplex()
				w.Header().Set("Content-Type", "text/event-stream") // the proxy flushes these at once
				http.NewResponseController(w).Flush()
				for lines := bufio.NewScanner(r.Body); lines.Scan(); {
					fmt.Fprintln(w, lines.Text())
					http.NewResponseController(w).Flush()
				}
			}))
			body, caller := io.Pipe()
			defer caller.Close()
			req, err := http.NewRequest(http.MethodPut, address, body)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			echo := bufio.NewScanner(resp.Body)
			for i := range 5 {
				fmt.Fprintf(caller, "line %d\n", i)
				if !echo.Scan() || echo.Text() != fmt.Sprint("line ", i) {
					t.Fatalf("line %d came back as %q, %v", i, echo.Text(), echo.Err())
				}
			}
			caller.Close()
			if echo.Scan() || echo.Err() != nil {
				t.Errorf("after the last line: %q, %v", echo.Text(), echo.Err())
			}
		})
	}
}

// TestWebSocket upgrades connections through a Transport: a client's own, and a reverse proxy's.
func TestWebSocket(t *testing.T) {
	service := func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		for {
			kind, message, err := conn.Read(r.Context())
			if err != nil {
				return
			}
			if err := conn.Write(r.Context(), kind, message); err != nil {
				return
			}
		}
	}
	for _, c := range []struct {
		name  string
		start func(*testing.T) (*http.Client, string)
	}{
		{"direct", func(t *testing.T) (*http.Client, string) {
			return &http.Client{Transport: retrying(newPool(t))}, start(t, failOnce(service), nil).URL
		}},
		{"direct, with a time-out", func(t *testing.T) (*http.Client, string) {
			transport := retrying(newPool(t))
			transport.AttemptTimeout = 500 * time.Millisecond // of the handshake, not of the conversation
			return &http.Client{Transport: transport}, start(t, failOnce(service), nil).URL
		}},
		{"reverse proxy", func(t *testing.T) (*http.Client, string) { return overHTTP1.start(t, failOnce(service)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			client, address := c.start(t)
			client.Timeout = 0 // it would end the conversation
			conn, _, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPClient: client})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.CloseNow()
			for i := range 5 {
				sent := fmt.Sprint("message ", i)
				if err := conn.Write(ctx, websocket.MessageText, []byte(sent)); err != nil {
					t.Fatal(err)
				}
				if _, got, err := conn.Read(ctx); err != nil || string(got) != sent {
					t.Fatalf("%q came back as %q, %v", sent, got, err)
				}
				time.Sleep(150 * time.Millisecond)
			}
			if err := conn.Close(websocket.StatusNormalClosure, ""); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
}

// TestReverseProxyTrailers shows that a client sees the trailers that a service announces before it has read the body, and
// all of them with their values after it. It must be so of the bodies that are read ahead, too.
func TestReverseProxyTrailers(t *testing.T) {
	trailers := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Trailer", "X-Announced")
			w.WriteHeader(status)
			io.WriteString(w, `{"message": "with trailers"}`)
			w.Header().Set("X-Announced", "one")
			w.Header().Set(http.TrailerPrefix+"X-Unannounced", "two")
		}
	}
	for _, p := range proxiedByBoth {
		for _, c := range []struct {
			name    string
			status  int
			service http.Handler
		}{
			{"success", 200, trailers(200)},
			{"success of a retry", 200, failOnce(trailers(200))},
			{"permanent failure", 418, trailers(418)},
			{"failure of every attempt", 503, trailers(503)},
		} {
			t.Run(p.name+", "+c.name, func(t *testing.T) {
				client, address := p.start(t, c.service)
				resp, err := client.Get(address)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				if _, ok := resp.Trailer["X-Announced"]; resp.StatusCode != c.status || !ok || len(resp.Trailer) != 1 {
					t.Errorf("before the body: status %d, want %d; trailers %v, want X-Announced alone", resp.StatusCode, c.status, resp.Trailer)
				}
				if body, err := io.ReadAll(resp.Body); err != nil || string(body) != `{"message": "with trailers"}` {
					t.Errorf("the body is %q, %v", body, err)
				}
				if resp.Trailer.Get("X-Announced") != "one" || resp.Trailer.Get("X-Unannounced") != "two" {
					t.Errorf("after the body: trailers %v", resp.Trailer)
				}
			})
		}
	}
}

// TestReverseProxyContinue has a client wait for 100 Continue. The service asks for the body in the second attempt alone.
// It is HTTP/1.1, because net/http's HTTP/2 server keeps the Expect header from its handlers.
func TestReverseProxyContinue(t *testing.T) {
	var asked, received, continued atomic.Int32
	client, address := overHTTP1.start(t, failOnce(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if body, err := io.ReadAll(r.Body); err != nil || !bytes.Equal(body, content) {
			t.Errorf("the service received %d bytes, %v", len(body), err)
		}
		received.Add(1)
	}))
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{Got100Continue: func() { continued.Add(1) }})
	body := &endWatcher{io.NopCloser(openStream(t)), func() {
		if asked.Load() != 1 {
			t.Error("the body was sent before the service asked for it")
		}
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, address, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Expect", "100-continue")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 || continued.Load() != 1 || received.Load() != 1 {
		t.Errorf("status %d after %d interim responses, and %d bodies", resp.StatusCode, continued.Load(), received.Load())
	}
}

// TestReverseProxyLateTrailer has a service send the headers of an error at once, and its trailer after more than the second
// for which a Transport reads ahead. The proxy goes through the trailers meanwhile. A Read in the background that fills them in
// would end the process with a fatal error, so it is a process of its own.
func TestReverseProxyLateTrailer(t *testing.T) {
	const child = "AWSRETRY_INTEROP_LATE_TRAILER"
	if os.Getenv(child) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestReverseProxyLateTrailer$")
		cmd.Env = append(os.Environ(), child+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("the proxy's process: %v\n%s", err, firstLines(out, 40))
		}
		return
	}
	for _, p := range proxiedByBoth {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			backend := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Trailer", "X-Sum")
				w.WriteHeader(http.StatusBadRequest)
				http.NewResponseController(w).Flush()
				time.Sleep(1100 * time.Millisecond)
				w.Header().Set("X-Sum", "late")
			}), p.listen)
			target, err := url.Parse(backend.URL)
			if err != nil {
				t.Fatal(err)
			}
			proxy := httputil.NewSingleHostReverseProxy(target)
			proxy.Transport = retrying(p.pool(t))
			proxy.ModifyResponse = func(resp *http.Response) error {
				for began := time.Now(); time.Since(began) < 300*time.Millisecond; {
					for name := range resp.Trailer {
						if resp.Trailer[name] != nil {
							return errors.New("the trailers are filled in before the body is read")
						}
					}
				}
				return nil
			}
			resp, err := http.Get(start(t, proxy, nil).URL)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 400 || resp.Trailer.Get("X-Sum") != "late" {
				t.Errorf("status %d, trailers %v, %v", resp.StatusCode, resp.Trailer, err)
			}
		})
	}
}

func firstLines(text []byte, n int) []byte {
	lines := bytes.SplitAfterN(text, []byte("\n"), n+1)
	return bytes.Join(lines[:min(len(lines), n)], nil)
}
