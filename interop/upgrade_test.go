package interop

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"github.com/coder/websocket"
)

// Connections are upgraded after a failed attempt. AttemptTimeout ends with the
// header of the 101, so a conversation may take longer.

// upgradeWays are the ways to a service that upgrades. Each returns a client
// and where it sends to.
var upgradeWays = map[string]func(*testing.T, http.HandlerFunc) (http.RoundTripper, string){
	"Transport": func(t *testing.T, service http.HandlerFunc) (http.RoundTripper, string) {
		srv := httpfake.Serve(t, "HTTP/1.1", service)
		return retrying(srv.Base), srv.URL
	},
	"Transport with AttemptTimeout": func(t *testing.T, service http.HandlerFunc) (http.RoundTripper, string) {
		srv := httpfake.Serve(t, "HTTP/1.1", service)
		return withTimeout(srv.Base), srv.URL
	},
	"reverse proxy": func(t *testing.T, service http.HandlerFunc) (http.RoundTripper, string) {
		srv := serveProxied(t, "HTTP/1.1", service, func(tr *awsretry.Transport) { tr.AttemptTimeout = attemptTimeout })
		return srv.Base, srv.URL
	},
}

func TestUpgrade(t *testing.T) {
	const protocol = "echo-lines"
	upgrade := func(t *testing.T) http.HandlerFunc {
		return failOnce(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Upgrade") != protocol {
				t.Errorf("Upgrade is %q", r.Header.Get("Upgrade"))
			}
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", protocol)
			w.WriteHeader(http.StatusSwitchingProtocols)
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			for {
				line, err := rw.ReadString('\n')
				if err != nil {
					return
				}
				fmt.Fprintf(rw, "you said %s", line)
				rw.Flush()
			}
		})
	}
	for name, start := range upgradeWays {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, url := start(t, upgrade(t))
				req := newRequest(t, t.Context(), http.MethodGet, url, nil)
				req.Header.Set("Connection", "Upgrade")
				req.Header.Set("Upgrade", protocol)
				resp, err := client.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				conn, ok := resp.Body.(io.ReadWriteCloser)
				if resp.StatusCode != http.StatusSwitchingProtocols || !ok {
					t.Fatalf("status %d with a %T", resp.StatusCode, resp.Body)
				}
				lines := bufio.NewReader(conn)
				for i := range 3 {
					fmt.Fprintf(conn, "line %d\n", i)
					if got, err := lines.ReadString('\n'); err != nil || got != fmt.Sprintf("you said line %d\n", i) {
						t.Fatalf("line %d came back as %q, %v", i, got, err)
					}
					time.Sleep(attemptTimeout)
				}
			})
		})
	}
}

func TestWebSocket(t *testing.T) {
	service := func(t *testing.T) http.HandlerFunc {
		return failOnce(func(w http.ResponseWriter, r *http.Request) {
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
		})
	}
	for name, start := range upgradeWays {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, url := start(t, service(t))
				conn, _, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{
					HTTPClient: &http.Client{Transport: client},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer conn.CloseNow()
				for i := range 3 {
					sent := fmt.Sprint("message ", i)
					if err := conn.Write(t.Context(), websocket.MessageText, []byte(sent)); err != nil {
						t.Fatal(err)
					}
					if _, got, err := conn.Read(t.Context()); err != nil || string(got) != sent {
						t.Fatalf("%q came back as %q, %v", sent, got, err)
					}
					time.Sleep(attemptTimeout)
				}
				if err := conn.Close(websocket.StatusNormalClosure, ""); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
		})
	}
}
