package rows

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// A row is a client, which is measured alone with its own retries, and over a
// Transport with the settings that the page gives.
type row struct {
	client    string                    // the module, as in go.mod
	name      string                    // in the table; "" means client
	how       string                    // Markdown: how its own retries are switched off, and what the Transport needs
	transport func(*awsretry.Transport) // sets what the page says; nil means nothing
	timed     bool                      // it repeats for a time, after random delays, and not so many times
	repeats   string                    // how often the client repeats alone, if that is not one number; in the table
	keep      int                       // the MaxAttempts with which it has as many attempts as alone; 0: there is none
	calls     []call
	scenes    []scene                  // of the client's service
	failure   string                   // the body of a response that fails, in JSON
	once      func(*http.Request) bool // must not be executed twice; nil means a POST or PATCH without a key
	losses    []loss
}

// A call is one use of a client.
type call struct {
	name string

	// do makes the call. It returns an error unless it got what the server has. If
	// s.over is set, the client's own retries are switched off as the page says. If
	// s.limit is above 0 and s.over is not set, that is the client's own limit of the
	// time of an attempt.
	do func(ctx context.Context, s setting) error

	// server returns a server that is in its first state.
	server func() http.HandlerFunc

	// key names what a request asks for. Nil means its method and path.
	key func(*http.Request) string

	limited bool // do knows s.limit
}

// A setting is what do makes a client of.
type setting struct {
	*http.Client
	url   string
	over  bool
	limit time.Duration
}

// A loss is what a row does not have that the client alone has.
type loss struct {
	text  string // Markdown
	finds string // a regular expression for the findings that it explains
}

// A scene is what befalls the requests with one key.
type scene struct {
	name  string
	times int           // how many of the first requests; the others are served
	asked time.Duration // a delay that the failed responses ask for
	fault fault
	limit time.Duration // of an attempt; 0: none
	ends  time.Duration // the time of the call's context; 0: an hour
}

// A fault fails a request. serve executes it.
type fault func(w http.ResponseWriter, r *http.Request, n *network, serve http.HandlerFunc)

// status returns a fault that responds with a status.
func status(code int, header ...string) fault {
	return func(w http.ResponseWriter, r *http.Request, n *network, _ http.HandlerFunc) {
		if n.failure != "" {
			header = append([]string{"Content-Type", asJSON}, header...)
		}
		respond(code, "", n.failure, header...)(w, r)
	}
}

// hang responds after ten minutes, or when the client has gone.
func hang(w http.ResponseWriter, r *http.Request, _ *network, _ http.HandlerFunc) {
	select {
	case <-r.Context().Done():
	case <-time.After(10 * time.Minute):
	}
	panic(http.ErrAbortHandler)
}

// reset resets the connection before the request is executed.
func reset(w http.ResponseWriter, r *http.Request, n *network, _ http.HandlerFunc) { n.end(w, r, true) }

// closed closes the connection before the request is executed.
func closed(w http.ResponseWriter, r *http.Request, n *network, _ http.HandlerFunc) {
	n.end(w, r, false)
}

// lost executes the request, and resets the connection before the response.
func lost(w http.ResponseWriter, r *http.Request, n *network, serve http.HandlerFunc) {
	serve(discarding{http.Header{}}, r)
	n.end(w, r, true)
}

type discarding struct{ header http.Header }

func (d discarding) Header() http.Header         { return d.header }
func (d discarding) Write(p []byte) (int, error) { return len(p), nil }
func (d discarding) WriteHeader(int)             {}

// cut executes the request, and resets the connection in the middle of the
// response's body. A response without a body is lost.
func cut(w http.ResponseWriter, r *http.Request, n *network, serve http.HandlerFunc) {
	whole := &recorder{header: http.Header{}, code: http.StatusOK}
	serve(whole, r)
	if whole.body.Len() > 0 && r.Method != http.MethodHead {
		maps.Copy(w.Header(), whole.header)
		w.Header().Set("Content-Length", fmt.Sprint(whole.body.Len()))
		w.WriteHeader(whole.code)
		_, _ = w.Write(whole.body.Bytes()[:whole.body.Len()/2]) // fails if the client has gone
		_ = http.NewResponseController(w).Flush()
	}
	n.end(w, r, true)
}

type recorder struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }
func (r *recorder) WriteHeader(code int)        { r.code = code }

// A network is connections in memory that the server can reset.
type network struct {
	dial    func(context.Context, string, string) (net.Conn, error)
	failure string // see row

	mu    sync.Mutex
	conns map[string]*conn // by the client's address
}

// watch makes the connections of srv resettable.
func watch(srv *httpfake.Server) *network {
	n := &network{dial: srv.Base.DialContext, conns: make(map[string]*conn)}
	srv.Base.DialContext = n.dialContext
	return n
}

func (n *network) dialContext(ctx context.Context, kind, address string) (net.Conn, error) {
	n.mu.Lock() // the addresses are in the order of the calls
	defer n.mu.Unlock()
	c := &conn{}
	n.conns[fmt.Sprint("client:", len(n.conns)+1)] = c
	var err error
	c.Conn, err = n.dial(ctx, kind, address)
	return c, err
}

// end ends the connection of a request.
func (n *network) end(w http.ResponseWriter, r *http.Request, reset bool) {
	n.mu.Lock()
	c := n.conns[r.RemoteAddr]
	n.mu.Unlock()
	c.mu.Lock()
	c.reset = reset
	c.mu.Unlock()
	panic(http.ErrAbortHandler)
}

// A conn is the client's end of a connection.
type conn struct {
	net.Conn
	mu    sync.Mutex
	reset bool
}

func (c *conn) Read(p []byte) (int, error) {
	k, err := c.Conn.Read(p)
	return k, c.explain("read", err)
}

func (c *conn) Write(p []byte) (int, error) {
	k, err := c.Conn.Write(p)
	return k, c.explain("write", err)
}

// explain returns the error of a connection that was reset.
func (c *conn) explain(op string, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil || !c.reset {
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(op, syscall.ECONNRESET)}
}

// A run is what a call did.
type run struct {
	err      error
	keys     []string       // in the order of the first requests
	sent     map[string]int // requests by key
	executed map[string]int // of these, those that were executed and must not be twice
	took     time.Duration
	attempts int // MaxAttempts of the Transport
}

// run makes the call once. s befalls the requests with the key at.
func (r row) run(t *testing.T, c call, s scene, at string, over bool, attempts int) (result run) {
	synctest.Test(t, func(t *testing.T) {
		result = run{sent: make(map[string]int), executed: make(map[string]int)}
		var mu, serial sync.Mutex // serial is held while a request is executed
		serve, net := c.server(), (*network)(nil)
		srv := httpfake.Serve(t, "HTTP/1.1", func(w http.ResponseWriter, req *http.Request) {
			body, err := io.ReadAll(req.Body)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			req.Body = io.NopCloser(bytes.NewReader(body))
			key := c.keyOf(req)
			mu.Lock()
			if result.sent[key]++; result.sent[key] == 1 {
				result.keys = append(result.keys, key)
			}
			fails := key == at && result.sent[key] <= s.times
			mu.Unlock()
			execute := func(w http.ResponseWriter, req *http.Request) {
				if r.mustBeOnce(req) {
					mu.Lock()
					result.executed[key]++
					mu.Unlock()
				}
				serial.Lock()
				defer serial.Unlock()
				serve(w, req)
			}
			if fails {
				s.fault(w, req, net, execute)
			} else {
				execute(w, req)
			}
		})
		net = watch(srv)
		net.failure = r.failure
		with := setting{Client: &http.Client{Transport: srv.Base}, url: srv.URL, over: over, limit: s.limit}
		if over {
			tr := &awsretry.Transport{Base: srv.Base, MaxAttempts: attempts, AttemptTimeout: s.limit}
			if r.transport != nil {
				r.transport(tr)
			}
			defer tr.CloseIdleConnections()
			with.Transport, result.attempts = tr, cmp.Or(tr.MaxAttempts, 3)
		}
		longest := time.Hour
		if s.ends > 0 {
			longest = s.ends
		}
		ctx, cancel := context.WithTimeout(t.Context(), longest)
		defer cancel()
		start := time.Now()
		err := c.do(ctx, with)
		mu.Lock()
		defer mu.Unlock()
		result.err, result.took = err, time.Since(start)
		result.sent, result.executed = maps.Clone(result.sent), maps.Clone(result.executed)
		result.keys = slices.Clone(result.keys)
	})
	return result
}

func (r row) mustBeOnce(req *http.Request) bool {
	if r.once != nil {
		return r.once(req)
	}
	return (req.Method == http.MethodPost || req.Method == http.MethodPatch) && req.Header.Get("Idempotency-Key") == ""
}

func (c call) keyOf(req *http.Request) string {
	if c.key != nil {
		return c.key(req)
	}
	return req.Method + " " + req.URL.Path
}
