package interop

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
)

// A retry uses another connection than the attempt before it, or the same one,
// of the same protocol. The contract tests have more cases; here the HTTP/2 of
// golang.org/x/net is among the protocols.
func TestConnectionOfARetry(t *testing.T) {
	standard := func(*awsretry.Transport) {}
	for _, p := range protocols {
		for _, tt := range []struct {
			name    string
			failure http.HandlerFunc
			change  func(*awsretry.Transport)
			another bool
		}{
			{"transient failure", respond(503, "busy"), standard, true},
			{"throttling", respond(429, "busy"), standard, false},
			{"time-out", hang, standard, true},
			{
				"transient failure, revision 2026", respond(503, "busy"),
				func(tr *awsretry.Transport) { tr.Revision = awsretry.Revision2026 }, false,
			},
			{
				"transient failure, KeepConnections", respond(503, "busy"),
				func(tr *awsretry.Transport) { tr.KeepConnections = true }, false,
			},
		} {
			t.Run(p.name+"/"+tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var mu sync.Mutex
					var from []string // the addresses that the attempts came from
					srv := p.serve(t, func(w http.ResponseWriter, r *http.Request) {
						mu.Lock()
						from = append(from, r.RemoteAddr)
						first := len(from) == 1
						mu.Unlock()
						if first {
							tt.failure(w, r)
						}
					})
					tr := withTimeout(srv.Base)
					tt.change(tr)
					defer tr.CloseIdleConnections()
					resp, err := tr.RoundTrip(srv.Request(t, http.MethodGet, nil))
					if err != nil {
						t.Fatal(err)
					}
					resp.Body.Close()
					if len(from) != 2 || (from[0] != from[1]) != tt.another || resp.ProtoMajor != p.major {
						t.Errorf("%s, the attempts came from %q; want another connection: %t",
							resp.Proto, from, tt.another)
					}
				})
			})
		}
	}
}

// CloseIdleConnections closes the connections that failed and those that
// replaced them.
func TestCloseIdleConnections(t *testing.T) {
	for _, p := range protocols {
		for name, failure := range map[string]http.HandlerFunc{
			"503": respond(503, "busy"),
			"reset": func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor == 1 {
					dropConnection(w)
				}
				panic(http.ErrAbortHandler)
			},
			"time-out": hang,
		} {
			t.Run(p.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := p.serve(t, func(w http.ResponseWriter, r *http.Request) {
						if r.URL.Path == "/failing" && r.Header.Get("X-Attempt") == "1" {
							failure(w, r)
							return
						}
						io.WriteString(w, "{}")
					})
					conns := new(connCounter)
					srv.Base.DialContext = conns.dialing(srv.Base.DialContext)
					tr := withTimeout(srv.Base)
					tr.Prepare = func(req *http.Request, n int) error {
						req.Header.Set("X-Attempt", fmt.Sprint(n))
						return nil
					}
					client := &http.Client{Transport: tr}
					inParallel(8, 4, func(i int) {
						path := "/good"
						if i%2 == 0 {
							path = "/failing"
						}
						if _, err := getText(t.Context(), client, srv.URL+path); err != nil {
							t.Error(err)
						}
					})
					time.Sleep(time.Second) // connections that were dialed in vain become idle
					client.CloseIdleConnections()
					synctest.Wait()
					if n := conns.open.Load(); n != 0 || conns.opened.Load() == 0 {
						t.Errorf("%d of %d connections are open", n, conns.opened.Load())
					}
				})
			})
		}
	}
}
