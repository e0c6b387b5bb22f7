package interop

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// These tests have an httputil.ReverseProxy in front of a service. Its
// Transport retries.

// reverseProxy returns a reverse proxy to the server at to.
func reverseProxy(t testing.TB, to string, by http.RoundTripper) *httputil.ReverseProxy {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	return &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: by,
		ErrorLog:  quiet,
	}
}

// fullDuplex makes a reverse proxy read a request body after it has written to
// the response. By default, the server closes the body then, and sometimes
// the proxy's transport drops the response because of that.
func fullDuplex(proxy http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 {
			http.NewResponseController(w).EnableFullDuplex()
		}
		proxy.ServeHTTP(w, r)
	}
}

// serveProxied starts a service in memory, and a reverse proxy in front of it.
// The proxy's Transport is changed by change.
func serveProxied(
	t *testing.T, protocol string, service http.HandlerFunc, change func(*awsretry.Transport),
) *httpfake.Server {
	t.Helper()
	backend := httpfake.Serve(t, protocol, service)
	backend.Base.ExpectContinueTimeout = 10 * time.Second
	tr := retrying(backend.Base)
	change(tr)
	proxy := httpfake.Serve(t, protocol, fullDuplex(reverseProxy(t, backend.URL, tr)))
	proxy.Base.ExpectContinueTimeout = 10 * time.Second
	return proxy
}

func unchanged(*awsretry.Transport) {}

// forEachProxied runs a test with a proxied service for each protocol. The test
// runs in a bubble.
func forEachProxied(t *testing.T, service func() http.HandlerFunc, test func(*testing.T, *httpfake.Server)) {
	for _, protocol := range []string{"HTTP/1.1", "h2c"} {
		t.Run(protocol, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, serveProxied(t, protocol, service(), unchanged)) })
		})
	}
}

// The service sends an event only after the client has seen the one before it.
func TestReverseProxyEvents(t *testing.T) {
	const events = 5
	var seen chan struct{}
	service := func() http.HandlerFunc {
		seen = make(chan struct{})
		return failOnce(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range events {
				fmt.Fprintf(w, "data: %d\n\n", i)
				http.NewResponseController(w).Flush()
				select {
				case <-seen:
				case <-r.Context().Done():
					return
				}
			}
		})
	}
	forEachProxied(t, service, func(t *testing.T, proxy *httpfake.Server) {
		resp, err := proxy.Base.RoundTrip(proxy.Request(t, http.MethodGet, nil))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		for i := range events {
			if !lines.Scan() || lines.Text() != fmt.Sprint("data: ", i) || !lines.Scan() {
				t.Fatalf("event %d is %q, %v", i, lines.Text(), lines.Err())
			}
			seen <- struct{}{}
		}
		if lines.Scan() {
			t.Errorf("one event too many: %q", lines.Text())
		}
	})
}

// The client writes a line only after the one before it has come back.
func TestReverseProxyConversation(t *testing.T) {
	service := func() http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor == 1 {
				http.NewResponseController(w).EnableFullDuplex()
			}
			w.Header().Set("Content-Type", "text/event-stream") // the proxy flushes these at once
			http.NewResponseController(w).Flush()
			for lines := bufio.NewScanner(r.Body); lines.Scan(); {
				fmt.Fprintln(w, lines.Text())
				http.NewResponseController(w).Flush()
			}
		}
	}
	forEachProxied(t, service, func(t *testing.T, proxy *httpfake.Server) {
		body, caller := io.Pipe()
		defer caller.Close()
		resp, err := proxy.Base.RoundTrip(proxy.Request(t, http.MethodPut, body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		for i := range 5 {
			fmt.Fprintf(caller, "line %d\n", i)
			if !lines.Scan() || lines.Text() != fmt.Sprint("line ", i) {
				t.Fatalf("line %d came back as %q, %v", i, lines.Text(), lines.Err())
			}
		}
		caller.Close()
		if lines.Scan() || lines.Err() != nil {
			t.Errorf("after the last line: %q, %v", lines.Text(), lines.Err())
		}
	})
}

// A client sees the announced trailers before it has read the body, and all of
// them with their values afterwards. Bodies that are read ahead are no
// exception.
func TestReverseProxyTrailers(t *testing.T) {
	const text = `{"message": "with trailers"}`
	withTrailers := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Trailer", "X-Announced")
			w.WriteHeader(status)
			io.WriteString(w, text)
			w.Header().Set("X-Announced", "one")
			w.Header().Set(http.TrailerPrefix+"X-Unannounced", "two")
		}
	}
	for _, tt := range []struct {
		name    string
		status  int
		service func() http.HandlerFunc
	}{
		{"success", 200, func() http.HandlerFunc { return withTrailers(200) }},
		{"success of a retry", 200, func() http.HandlerFunc { return failOnce(withTrailers(200)) }},
		{"permanent failure", 418, func() http.HandlerFunc { return withTrailers(418) }},
		{"failure of every attempt", 503, func() http.HandlerFunc { return withTrailers(503) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			forEachProxied(t, tt.service, func(t *testing.T, proxy *httpfake.Server) {
				resp, err := proxy.Base.RoundTrip(proxy.Request(t, http.MethodGet, nil))
				if err != nil {
					t.Fatal(err)
				}
				if resp.StatusCode != tt.status {
					t.Errorf("status %d, want %d", resp.StatusCode, tt.status)
				}
				if _, ok := resp.Trailer["X-Announced"]; !ok || len(resp.Trailer) != 1 {
					t.Errorf("before the body: trailers %v, want only X-Announced", resp.Trailer)
				}
				if body := httpfake.ReadAll(t, resp); body != text {
					t.Errorf("the body is %q", body)
				}
				if resp.Trailer.Get("X-Announced") != "one" || resp.Trailer.Get("X-Unannounced") != "two" {
					t.Errorf("after the body: trailers %v", resp.Trailer)
				}
			})
		})
	}
}

// A service sends the header of an error at once, and its trailer after more
// than the second for which a Transport reads ahead. Nothing fills in the
// trailers while the proxy goes through them.
func TestReverseProxyLateTrailer(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "h2c"} {
		t.Run(protocol, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				backend := httpfake.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					w.Header().Set("Trailer", "X-Sum")
					w.WriteHeader(http.StatusBadRequest)
					http.NewResponseController(w).Flush()
					pause(r.Context(), 1100*time.Millisecond)
					w.Header().Set("X-Sum", "late")
				})
				proxy := reverseProxy(t, backend.URL, retrying(backend.Base))
				proxy.ModifyResponse = func(resp *http.Response) error {
					for range 100 {
						for name, values := range resp.Trailer {
							if values != nil {
								return fmt.Errorf("%s is filled in before the body is read", name)
							}
						}
						time.Sleep(20 * time.Millisecond)
					}
					return nil
				}
				front := httpfake.Serve(t, "HTTP/1.1", proxy.ServeHTTP)
				resp, err := front.Base.RoundTrip(front.Request(t, http.MethodGet, nil))
				if err != nil {
					t.Fatal(err)
				}
				httpfake.ReadAll(t, resp)
				if resp.StatusCode != 400 || resp.Trailer.Get("X-Sum") != "late" {
					t.Errorf("status %d, trailers %v", resp.StatusCode, resp.Trailer)
				}
			})
		})
	}
}

// A client waits for 100 Continue. Only in the second attempt the service asks
// for the body. The HTTP/2 server of net/http hides the Expect header from its
// handlers, so the test speaks HTTP/1.
func TestReverseProxyContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked, continued atomic.Int32
		proxy := serveProxied(t, "HTTP/1.1", failOnce(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			if body, err := io.ReadAll(r.Body); err != nil || !bytes.Equal(body, content) {
				t.Errorf("the service received %d bytes, %v", len(body), err)
			}
		}), unchanged)
		trace := &httptrace.ClientTrace{Got100Continue: func() { continued.Add(1) }}
		ctx := httptrace.WithClientTrace(t.Context(), trace)
		body := &endWatcher{io.NopCloser(openStream(t)), func() {
			if asked.Load() != 1 {
				t.Error("the body was sent before the service asked for it")
			}
		}}
		req := newRequest(t, ctx, http.MethodPut, proxy.URL, body)
		req.Header.Set("Expect", "100-continue")
		resp, err := proxy.Base.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 || continued.Load() != 1 || asked.Load() != 1 {
			t.Errorf("status %d after %d interim responses; the service asked %d times",
				resp.StatusCode, continued.Load(), asked.Load())
		}
	})
}
