package demo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"example.com/awsretry/cmd/internal/term"
)

// A server is a service that fails on purpose.
type server struct {
	http.Server
	address             string
	down                atomic.Bool   // of /orders: an outage
	limiter             *rate.Limiter // of /table
	admitted, throttled atomic.Int64  // requests to /table

	mu   sync.Mutex // guards seen
	seen map[string][]upload
}

// An upload is what the server has read of the body of one request.
type upload struct {
	size int64
	sum  [sha256.Size]byte
}

// A reply is the response to a request.
type reply struct {
	status int // 0: the connection closes without a response
	body   string
}

const (
	tableRate = 20 // requests that /table admits in a second
	tableTime = 10 * time.Millisecond
)

var (
	closed      = reply{}
	works       = reply{200, `{"orders": 17}`}
	created     = reply{201, ""}
	invalid     = reply{400, `{"__type":"com.amazon.coral.validate#ValidationException"}`}
	throttled   = reply{400, `{"__type":"com.amazon.coral.availability#ThrottlingException"}`}
	failed      = reply{500, `{"__type":"InternalServerError"}`}
	unavailable = reply{503, `<ErrorResponse><Error><Code>ServiceUnavailable</Code></Error></ErrorResponse>`}
)

// scripts have the replies to the requests to a path, one after the other, and then
// from the first again.
var scripts = map[string][]reply{
	"/flaky":   {closed, unavailable, works},
	"/invalid": {invalid},
	"/busy":    {throttled, works},
	"/upload":  {closed, created},
	"/stream":  {unavailable, created},
}

// shown are the paths that --serve prints.
var shown = [][2]string{
	{"/flaky", "closes the connection, responds with 503, and then with 200; and so on"},
	{"/busy", "throttles every other request, with status 400 and an error code"},
	{"/invalid", "responds with 400, which no retry mends"},
	{"/broken", "has 3.0 MB, and breaks off after 1.2 MB"},
	{"/table", fmt.Sprintf("admits %v requests a second, and throttles the rest", tableRate)},
}

func startServer(listener net.Listener) *server {
	s := &server{address: listener.Addr().String(), seen: make(map[string][]upload)}
	s.limiter = rate.NewLimiter(tableRate, tableRate/10)
	s.Server = http.Server{
		Handler: http.HandlerFunc(s.serve), ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute,
	}
	go func() { _ = s.Serve(listener) }() // it ends with Close
	return s
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/orders":
		if s.down.Load() {
			failed.send(w)
			return
		}
		works.send(w)
	case "/table": // admits requests up to its rate
		reply, count := throttled, &s.throttled
		if s.limiter.Allow() {
			reply, count = works, &s.admitted
		}
		time.Sleep(tableTime)
		count.Add(1)
		reply.send(w)
	case "/broken": // has a strong ETag; each response ends early, and the server then closes the connection
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("ETag", `"version-1"`)
		object := bytes.NewReader(bytes.Repeat([]byte("it breaks off. "), 200_000))
		http.ServeContent(w, r, "", time.Time{}, struct {
			io.Reader
			io.Seeker
		}{io.LimitReader(object, 1_200_000), object})
	default:
		s.follow(w, r)
	}
}

// wait prints the URLs, and waits until ctx or the time ends.
func (s *server) wait(ctx context.Context, streams term.Streams, duration time.Duration) error {
	out := &term.ErrWriter{Writer: streams.Out}
	fmt.Fprintf(out, "Serving for %v, or until Ctrl-C:\n\n", duration)
	table := term.Table{W: out, Width: streams.TableWidth(streams.Out), Columns: []term.Column{{Width: 30}, {}}}
	for _, p := range shown {
		table.Row("http://"+s.address+p[0], p[1])
	}
	if out.Err == nil {
		ctx, cancel := context.WithTimeout(ctx, duration)
		defer cancel()
		<-ctx.Done() // Ctrl-C is the user's way to end it, and no error
	}
	return out.Err
}

// uploads returns what has arrived at a path.
func (s *server) uploads(path string) []upload {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen[path])
}

// follow reads the body, but only 1 MiB before the connection closes, and sends the
// next reply of the path's script.
func (s *server) follow(w http.ResponseWriter, r *http.Request) {
	script := scripts[r.URL.Path]
	if script == nil {
		http.NotFound(w, r)
		return
	}
	reply, hash, body := script[len(s.uploads(r.URL.Path))%len(script)], sha256.New(), io.Reader(r.Body)
	if reply == closed {
		body = io.LimitReader(body, 1<<20)
	}
	size, _ := io.Copy(hash, body)
	s.mu.Lock()
	s.seen[r.URL.Path] = append(s.seen[r.URL.Path], upload{size, [sha256.Size]byte(hash.Sum(nil))})
	s.mu.Unlock()
	reply.send(w)
}

func (r reply) send(w http.ResponseWriter) {
	if r == closed {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(r.status)
	_, _ = io.WriteString(w, r.body)
}
