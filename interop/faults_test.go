package interop

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"example.com/awsretry/internal/httpfake"
)

// A fault is what goes wrong with a request.
type fault int

const (
	faultNone        fault = iota
	faultServerError       // 500, with the service's own code
	faultUnavailable       // 503, with the service's own code
	faultBare              // 502, with the web page of a gateway
	faultThrottling        // the service's own throttling response
	faultEarly             // 503 before the request body is read, and the connection is closed
	faultReset             // the connection is reset instead of a response
	faultLost              // the service does its work, and the connection is reset instead of its response
	faultCut               // the service does its work, and its response ends in the middle of the body
	faultHidden            // Amazon S3 only: 200 with an error in the body
	faultKinds
)

var faultNames = [...]string{
	"none", "500", "503", "502 page", "throttling", "early 503", "reset", "lost response", "cut response",
	"200 with error",
}

func (f fault) String() string { return faultNames[f] }

// A faultyService is a reverse proxy in front of a real service. It makes
// requests fail, and counts them.
type faultyService struct {
	pick func(*http.Request) fault
	fail func(w http.ResponseWriter, f fault) // responds as the service does
	next http.Handler                         // nil: the reverse proxy

	mu     sync.Mutex // guards the fields below
	count  map[string]int
	faults [faultKinds]int
}

// startFaulty starts a faultyService in front of the service at backend. It
// returns a client's connections to it and its address.
func startFaulty(t *testing.T, s *faultyService, backend string) (base *http.Transport, addr string) {
	t.Helper()
	s.count = make(map[string]int)
	srv := httpfake.ServeTCP(t, "HTTP/1.1", s.serve)
	srv.Base.MaxIdleConnsPerHost = 64
	srv.Base.ExpectContinueTimeout = time.Second // as http.DefaultTransport
	if s.next == nil {
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: backend})
		pool := newPool(t)
		pool.DisableCompression = true
		proxy.Transport, proxy.ErrorLog = pool, quiet
		s.next = proxy
	}
	return srv.Base, hostOf(t, srv.URL)
}

// callHeader names the operation that an attempt belongs to. The AWS SDKs set
// it.
const callHeader = "Amz-Sdk-Invocation-Id"

func (s *faultyService) serve(w http.ResponseWriter, r *http.Request) {
	f := s.pick(r)
	s.mu.Lock()
	s.count[r.Header.Get(callHeader)]++
	s.faults[f]++
	s.mu.Unlock()
	switch f {
	case faultNone:
		s.next.ServeHTTP(w, r)
	case faultEarly:
		w.Header().Set("Connection", "close")
		s.fail(w, faultUnavailable)
	case faultReset:
		io.CopyN(io.Discard, r.Body, 1000)
		dropConnection(w)
	case faultLost:
		s.next.ServeHTTP(httptest.NewRecorder(), r)
		dropConnection(w)
	case faultCut:
		rec := httptest.NewRecorder()
		s.next.ServeHTTP(rec, r)
		cutResponse(w, rec)
	case faultBare:
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadGateway)
		io.WriteString(w, "<html><body>Bad Gateway</body></html>")
	default:
		io.Copy(io.Discard, r.Body)
		s.fail(w, f)
	}
}

// dropConnection resets the connection. What is not sent yet is lost.
func dropConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}

// cutResponse sends a response up to the middle of its body. A response without
// a body is not sent at all.
func cutResponse(w http.ResponseWriter, rec *httptest.ResponseRecorder) {
	body := rec.Body.Bytes()
	if len(body) < 2 {
		dropConnection(w)
		return
	}
	for name, values := range rec.Header() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(rec.Code)
	w.Write(body[:len(body)/2])
	http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// attempts returns how many attempts the operation of a request has made.
func (s *faultyService) attempts(r *http.Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[r.Header.Get(callHeader)]
}

// figures returns how many operations there were, how many requests in all and
// at most for one of them, and the faults.
func (s *faultyService) figures() (calls, sent, most int, faults string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.count {
		sent += n
		most = max(most, n)
	}
	for f, n := range s.faults {
		if n > 0 && fault(f) != faultNone {
			faults += fmt.Sprintf(", %s %d", fault(f), n)
		}
	}
	return len(s.count), sent, most, faults
}

// failFirst makes the first n requests of each operation fail.
func failFirst(s *faultyService, n int, f fault) func(*http.Request) fault {
	return func(r *http.Request) fault {
		if s.attempts(r) < n {
			return f
		}
		return faultNone
	}
}

// randomFaults picks one of the kinds for a share of the requests. It picks the
// same ones in the same order each time.
func randomFaults(share float64, kinds ...fault) func(*http.Request) fault {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(1, 2)) // guarded by mu
	return func(*http.Request) fault {
		mu.Lock()
		defer mu.Unlock()
		if random.Float64() >= share {
			return faultNone
		}
		return kinds[random.IntN(len(kinds))]
	}
}
