package laws_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/worlds"
)

// The law of what was never sent: a request that got no connection was not
// executed, so IdempotentOnly retries it, whatever it is and whatever refused the
// connection. A request that was sent may have been executed.

func TestLawOfTheUnsent(t *testing.T) {
	worlds.Each(t, 1000, lawOfTheUnsent)
}

// A fault is what happens to a connection. It gets the end of it that is not the
// client's, and closes it.
type fault struct {
	name  string
	proxy string // scheme of the proxy; "" for none
	sent  bool   // the request is sent
	run   func(conn net.Conn)
}

// refuses is a proxy that responds to CONNECT.
func refuses(response string) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			io.WriteString(conn, response)
		}
	}
}

// refusesSOCKS is a SOCKS5 proxy (RFC 1928) that replies with that code.
func refusesSOCKS(code byte) func(net.Conn) {
	return func(conn net.Conn) {
		if acceptSOCKS(conn) {
			conn.Write([]byte{5, code, 0, 1, 0, 0, 0, 0, 0, 0})
		}
	}
}

// acceptSOCKS reads a SOCKS5 request.
func acceptSOCKS(conn net.Conn) bool {
	buf := make([]byte, 256)
	if _, err := io.ReadFull(conn, buf[:2]); err != nil {
		return false
	}
	io.ReadFull(conn, buf[:buf[1]])
	conn.Write([]byte{5, 0})
	if _, err := io.ReadFull(conn, buf[:5]); err != nil {
		return false
	}
	rest := int(buf[4]) + 2 // of a name, and the port
	if buf[3] == 1 {
		rest = 3 + 2 // of an IPv4 address, and the port
	}
	_, err := io.ReadFull(conn, buf[:rest])
	return err == nil
}

var faults = []fault{
	{name: "CONNECT 407", proxy: "http", run: refuses("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")},
	{name: "CONNECT 502", proxy: "http", run: refuses("HTTP/1.1 502 Bad Gateway\r\n\r\n")},
	{name: "CONNECT 503", proxy: "http", run: refuses("HTTP/1.1 503 Service Unavailable\r\n\r\n")},
	{name: "CONNECT 504", proxy: "http", run: refuses("HTTP/1.1 504 Gateway Timeout\r\n\r\n")},
	{name: "CONNECT with a phrase of its own", proxy: "http", run: refuses("HTTP/1.1 503 No upstream today\r\n\r\n")},
	{name: "CONNECT is closed", proxy: "http", run: refuses("")},
	{name: "CONNECT breaks off", proxy: "http", run: refuses("HTTP/1.1 20")},
	{name: "SOCKS 1", proxy: "socks5", run: refusesSOCKS(1)},
	{name: "SOCKS 2", proxy: "socks5", run: refusesSOCKS(2)},
	{name: "SOCKS 5", proxy: "socks5", run: refusesSOCKS(5)},
	{name: "SOCKS 6", proxy: "socks5", run: refusesSOCKS(6)},
	{name: "SOCKS is closed", proxy: "socks5", run: func(net.Conn) {}},
	{name: "TLS is closed at once", run: func(net.Conn) {}},
	{name: "TLS is closed after the hello", run: func(conn net.Conn) { io.ReadFull(conn, make([]byte, 100)) }},
	{name: "TLS is cut off", run: func(conn net.Conn) {
		conn.Read(make([]byte, 16<<10))
		conn.Write([]byte{22, 3, 3})
	}},
	{name: "TLS hangs", run: func(conn net.Conn) { io.Copy(io.Discard, conn) }},
	{name: "a dial that hangs"},
	{name: "a dial that fails"},
	{name: "the server closes the connection", sent: true},
	{name: "the server says nothing", sent: true},
}

// throughProxy connects a client to a server as a proxy does.
func throughProxy(scheme string, conn net.Conn, dial func() (net.Conn, error)) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	if scheme == "http" {
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
	} else if acceptSOCKS(conn) {
		conn.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	}
	server, err := dial()
	if err != nil {
		return
	}
	go func() {
		io.Copy(server, r)
		server.Close()
	}()
	io.Copy(conn, server)
}

func lawOfTheUnsent(t *testing.T, r *rand.Rand) {
	f := worlds.Pick(r, faults...)
	protocol := worlds.Pick(r, "HTTP/1.1 over TLS", "HTTP/2")
	var executed, dials atomic.Int64
	srv := httpfake.Serve(t, protocol, func(w http.ResponseWriter, req *http.Request) {
		io.Copy(io.Discard, req.Body)
		if executed.Add(1) == 1 && f.sent {
			if f.name == "the server says nothing" {
				<-req.Context().Done()
			}
			panic(http.ErrAbortHandler)
		}
	})
	dial := srv.Base.DialContext
	faulty := int64(1 + r.IntN(2)) // how many dials have the fault
	srv.Base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		fails := dials.Add(1) <= faulty && !f.sent
		switch {
		case fails && f.name == "a dial that hangs":
			<-ctx.Done()
			return nil, &net.OpError{Op: "dial", Err: ctx.Err()}
		case fails && f.name == "a dial that fails":
			return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
		case !fails && f.proxy == "":
			return dial(ctx, network, addr)
		}
		client, peer := net.Pipe()
		go func() {
			defer peer.Close()
			if fails {
				f.run(peer)
				return
			}
			throughProxy(f.proxy, peer, func() (net.Conn, error) { return dial(context.Background(), network, addr) })
		}()
		return client, nil
	}
	if f.proxy != "" {
		srv.Base.Proxy = http.ProxyURL(&url.URL{Scheme: f.proxy, Host: "proxy.example:3128"})
	}
	srv.Base.TLSHandshakeTimeout = worlds.Pick(r, 0, 10*time.Second)
	tr := &awsretry.Transport{
		Base: srv.Base, Policy: awsretry.IdempotentOnly(nil), MaxAttempts: 1 + r.IntN(3), Backoff: delayed(time.Second),
		Mode: worlds.Pick(r, awsretry.Standard, awsretry.Adaptive),
	}
	if worlds.Chance(r, .3) {
		tr.Base = httpfake.Base(srv.Base.RoundTrip)
	}
	if strings.Contains(f.name, "hangs") || f.name == "the server says nothing" || worlds.Chance(r, .3) {
		tr.AttemptTimeout = 5 * time.Second
	}
	if worlds.Chance(r, .3) {
		tr.Observe = func(awsretry.Attempt) {}
	}
	if worlds.Chance(r, .3) {
		tr.KeepConnections = true
	}
	var body io.Reader = strings.NewReader("pay 10")
	if worlds.Chance(r, .3) {
		body = struct{ io.Reader }{body}
	}
	req := srv.Request(t, worlds.Pick(r, "POST", "PATCH"), body)
	resp, err := tr.RoundTrip(req)
	defer tr.CloseIdleConnections()
	if resp != nil {
		resp.Body.Close()
	}
	synctest.Wait()
	what := fmt.Sprintf("%s, %s, %d dials fail, %d attempts over %T: executed %d times, %v", f.name, protocol, faulty,
		tr.MaxAttempts, tr.Base, executed.Load(), err)
	failed := new(awsretry.Error)
	errors.As(err, &failed)
	permanent := f.name == "CONNECT 407" // the proxy's status has its class
	switch {
	case f.sent:
		if err == nil || executed.Load() != 1 || !failed.MaybeExecuted {
			t.Errorf("it was sent, and MaybeExecuted is %v\n%s", failed.MaybeExecuted, what)
		}
	case int64(tr.MaxAttempts) > faulty && !permanent:
		if err != nil || executed.Load() != 1 {
			t.Errorf("not retried\n%s", what)
		}
	case err == nil || failed.MaybeExecuted || executed.Load() > 0:
		t.Errorf("MaybeExecuted is %v\n%s", failed.MaybeExecuted, what)
	}
}
