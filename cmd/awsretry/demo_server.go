package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A demoServer is a service on loopback that fails on purpose. It counts what it is sent.
type demoServer struct {
	address string
	down    atomic.Bool // of /orders: an outage
	limited *admission  // of /table
	stop    func()

	mu      sync.Mutex // guards the fields below
	seen    map[string]int
	uploads []upload
}

// An upload is what one request brought.
type upload struct {
	size int64
	sum  [sha256.Size]byte
	cut  bool // the server reset the connection
}

// The service's limits.
const (
	tableRate   = 20.0 // requests that /table admits in a second
	tableBurst  = 2.0  // a tenth of a second's
	tableTime   = 10 * time.Millisecond
	uploadLimit = 1 << 20 // bytes of a /upload that the first request may bring
)

// demoPaths are the paths that --serve offers.
var demoPaths = []struct{ path, about string }{
	{"/flaky", "resets the connection, answers 503, and then 200; and so on"},
	{"/busy", "throttles every other request, with status 400 and an error code"},
	{"/invalid", "answers 400, which no retry mends"},
	{"/table", fmt.Sprintf("admits %v requests a second, and throttles the rest", tableRate)},
}

// startDemoServer starts a server on a port of 127.0.0.1; 0: one that is free.
func startDemoServer(ctx context.Context, port int) (*demoServer, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	s := &demoServer{
		address: listener.Addr().String(),
		limited: newAdmission(tableRate, tableBurst),
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
	server := &http.Server{Handler: mux, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Serve(listener)
	}()
	s.stop = func() {
		server.Close()
		<-served
	}
	return s, nil
}

// count counts a request, and returns how many of its path there were with it.
func (s *demoServer) count(r *http.Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[r.URL.Path]++
	return s.seen[r.URL.Path]
}

func (s *demoServer) requests(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[path]
}

func (s *demoServer) received() []upload {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]upload(nil), s.uploads...)
}

func (s *demoServer) add(u upload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uploads = append(s.uploads, u)
}

// flaky resets the first connection, answers the second request 503 and the
// third 200, and begins again.
func (s *demoServer) flaky(w http.ResponseWriter, r *http.Request) {
	switch s.count(r) % 3 {
	case 1:
		reset(w)
	case 2:
		answer(w, http.StatusServiceUnavailable, "application/xml", `<ErrorResponse><Error><Code>ServiceUnavailable</Code></Error></ErrorResponse>`)
	default:
		answer(w, http.StatusOK, "application/json", `{"orders": 17}`)
	}
}

func (s *demoServer) invalid(w http.ResponseWriter, r *http.Request) {
	s.count(r)
	answer(w, http.StatusBadRequest, "application/x-amz-json-1.0", `{"__type":"com.amazon.coral.validate#ValidationException"}`)
}

// busy throttles every other request with the status of a bad one.
func (s *demoServer) busy(w http.ResponseWriter, r *http.Request) {
	if s.count(r)%2 == 1 {
		answer(w, http.StatusBadRequest, "application/x-amz-json-1.0", `{"__type":"com.amazon.coral.availability#ThrottlingException"}`)
		return
	}
	answer(w, http.StatusOK, "application/json", `{}`)
}

// upload takes bodies. Of the first /upload it reads a part and resets the connection; the first /stream it reads whole, and
// answers 503.
func (s *demoServer) upload(w http.ResponseWriter, r *http.Request) {
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
		answer(w, http.StatusServiceUnavailable, "application/xml", `<Error><Code>ServiceUnavailable</Code></Error>`)
	default:
		answer(w, http.StatusCreated, "text/plain", "")
	}
}

func (s *demoServer) orders(w http.ResponseWriter, r *http.Request) {
	s.count(r)
	if s.down.Load() {
		answer(w, http.StatusInternalServerError, "application/json", `{"__type":"InternalServerError"}`)
		return
	}
	answer(w, http.StatusOK, "application/json", `{}`)
}

// table admits so many requests in a second, and throttles the rest.
func (s *demoServer) table(w http.ResponseWriter, r *http.Request) {
	s.count(r)
	admitted := s.limited.admit(time.Now())
	time.Sleep(tableTime)
	if !admitted {
		answer(w, http.StatusBadRequest, "application/x-amz-json-1.0",
			`{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}`)
		return
	}
	answer(w, http.StatusOK, "application/x-amz-json-1.0", `{}`)
}

func answer(w http.ResponseWriter, status int, contentType, body string) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	io.WriteString(w, body)
}

// reset ends the connection as a machine does that is gone: without an answer, and not even in good order.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}

// An admission is a token bucket on the server's side.
type admission struct {
	rate, burst float64

	mu                  sync.Mutex // guards the fields below
	tokens              float64
	at                  time.Time
	admitted, throttled int
}

func newAdmission(rate, burst float64) *admission {
	return &admission{rate: rate, burst: burst, tokens: burst, at: time.Now()}
}

func (a *admission) admit(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.After(a.at) {
		a.tokens = min(a.tokens+now.Sub(a.at).Seconds()*a.rate, a.burst)
		a.at = now
	}
	if a.tokens < 1 {
		a.throttled++
		return false
	}
	a.tokens--
	a.admitted++
	return true
}

// counts returns how many requests were admitted and throttled up to now.
func (a *admission) counts() (admitted, throttled int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.admitted, a.throttled
}
