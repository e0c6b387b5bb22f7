package demo

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/time/rate"
)

// A server is a service that fails on purpose. It counts its requests.
type server struct {
	address string
	down    atomic.Bool // of /orders: an outage
	stop    func()

	limiter             *rate.Limiter // of /table
	admitted, throttled atomic.Int64  // requests to /table

	mu      sync.Mutex // guards the fields below
	seen    map[string]int
	uploads []upload
}

// An upload is the body of one request.
type upload struct {
	size int64
	sum  [sha256.Size]byte
	cut  bool // the server reset the connection
}

// The limits of the service.
const (
	tableRate   = 20 // requests that /table admits in a second
	tableBurst  = 2  // a tenth of a second's
	tableTime   = 10 * time.Millisecond
	uploadLimit = 1 << 20 // bytes that the server reads of the first /upload
)

// paths are the paths that --serve shows.
var paths = []struct{ path, about string }{
	{"/flaky", "resets the connection, responds with 503, and then with 200; and so on"},
	{"/busy", "throttles every other request, with status 400 and an error code"},
	{"/invalid", "responds with 400, which no retry mends"},
	{"/broken", fmt.Sprintf("has %s, and breaks off after %s",
		humanize.Bytes(brokenSize), humanize.Bytes(brokenAfter))},
	{"/table", fmt.Sprintf("admits %v requests a second, and throttles the rest", tableRate)},
}

// listen listens on a port of 127.0.0.1; 0 chooses a free one.
func listen(ctx context.Context, port int) (net.Listener, error) {
	var config net.ListenConfig
	return config.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

func startServer(listener net.Listener) *server {
	s := &server{
		address: listener.Addr().String(),
		limiter: rate.NewLimiter(tableRate, tableBurst),
		seen:    make(map[string]int),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/flaky", s.flaky)
	mux.HandleFunc("/invalid", s.invalid)
	mux.HandleFunc("/busy", s.busy)
	mux.HandleFunc("/upload", s.upload)
	mux.HandleFunc("/stream", s.upload)
	mux.HandleFunc("/orders", s.orders)
	mux.HandleFunc("/table", s.table)
	mux.HandleFunc("/broken", s.broken)
	server := &http.Server{Handler: mux, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	s.stop = func() {
		server.Close()
		<-served
	}
	return s
}

// count counts a request, and returns the number of those with its path.
func (s *server) count(r *http.Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[r.URL.Path]++
	return s.seen[r.URL.Path]
}

func (s *server) requests(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[path]
}

func (s *server) received() []upload {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.uploads)
}

func (s *server) add(u upload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uploads = append(s.uploads, u)
}

// flaky resets the connection of the first request, responds to the second with 503
// and to the third with 200, and starts over.
func (s *server) flaky(w http.ResponseWriter, r *http.Request) {
	switch s.count(r) % 3 {
	case 1:
		reset(w)
	case 2:
		respond(w, http.StatusServiceUnavailable, "application/xml",
			`<ErrorResponse><Error><Code>ServiceUnavailable</Code></Error></ErrorResponse>`)
	default:
		respond(w, http.StatusOK, "application/json", `{"orders": 17}`)
	}
}

func (s *server) invalid(w http.ResponseWriter, r *http.Request) {
	s.count(r)
	respond(w, http.StatusBadRequest, "application/x-amz-json-1.0",
		`{"__type":"com.amazon.coral.validate#ValidationException"}`)
}

// busy throttles every other request with status 400.
func (s *server) busy(w http.ResponseWriter, r *http.Request) {
	if s.count(r)%2 == 1 {
		respond(w, http.StatusBadRequest, "application/x-amz-json-1.0",
			`{"__type":"com.amazon.coral.availability#ThrottlingException"}`)
		return
	}
	respond(w, http.StatusOK, "application/json", `{}`)
}

// upload reads bodies. It reads a part of the first /upload and resets the
// connection; it reads all of the first /stream, and responds with 503.
func (s *server) upload(w http.ResponseWriter, r *http.Request) {
	first := s.count(r) == 1
	var (
		u      upload
		hash   = sha256.New()
		source io.Reader
	)
	source, u.cut = r.Body, first && r.URL.Path == "/upload"
	if u.cut {
		source = io.LimitReader(source, uploadLimit)
	}
	u.size, _ = io.Copy(hash, source)
	u.sum = [sha256.Size]byte(hash.Sum(nil))
	s.add(u)
	switch {
	case u.cut:
		reset(w)
	case first:
		respond(w, http.StatusServiceUnavailable, "application/xml", `<Error><Code>ServiceUnavailable</Code></Error>`)
	default:
		respond(w, http.StatusCreated, "text/plain", "")
	}
}

func (s *server) orders(w http.ResponseWriter, r *http.Request) {
	s.count(r)
	if s.down.Load() {
		respond(w, http.StatusInternalServerError, "application/json", `{"__type":"InternalServerError"}`)
		return
	}
	respond(w, http.StatusOK, "application/json", `{}`)
}

// table admits requests up to its rate, and throttles the rest.
func (s *server) table(w http.ResponseWriter, r *http.Request) {
	s.count(r)
	admitted := s.limiter.Allow()
	time.Sleep(tableTime)
	if !admitted {
		s.throttled.Add(1)
		respond(w, http.StatusBadRequest, "application/x-amz-json-1.0",
			`{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}`)
		return
	}
	s.admitted.Add(1)
	respond(w, http.StatusOK, "application/x-amz-json-1.0", `{}`)
}

func respond(w http.ResponseWriter, status int, contentType, body string) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// reset ends the connection like a crashed machine: without a response, and with a
// TCP reset.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	conn.Close()
}
