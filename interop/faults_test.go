package interop

import (
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"testing"
)

// A fault is what goes wrong with one request.
type fault int

const (
	faultNone        fault = iota
	faultServerError       // 500, with the service's own code
	faultUnavailable       // 503, with the service's own code
	faultBare              // 502, with a web page from something in between
	faultThrottling        // the service's own throttling answer
	faultEarly             // 503 before the request body is read, and the connection closed
	faultReset             // the connection is closed instead of an answer
	faultLost              // the service does its work, and the connection is closed instead of its answer
	faultCut               // the service does its work, and its answer ends in the middle of the body
	faultHidden            // S3 alone: 200 with an error in the body
	faultKinds
)

var faultNames = [...]string{"none", "500", "503", "502 page", "throttling", "early 503", "reset", "answer lost", "answer cut",
	"200 with error"}

func (f fault) String() string { return faultNames[f] }

// A faultyService is a reverse proxy before a real service that lets requests fail, and counts them.
type faultyService struct {
	pick   func(*http.Request) fault
	answer func(w http.ResponseWriter, f fault) // the failures that are answers, in the service's protocol
	next   http.Handler

	mu     sync.Mutex // guards the fields below
	count  map[string]int
	faults [faultKinds]int
}

// startFaulty starts a faultyService before the service at backend, and returns its host and port.
func startFaulty(t testing.TB, s *faultyService, backend string) string {
	t.Helper()
	if backend != "" {
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: backend})
		pool := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
		proxy.Transport = pool
		proxy.ErrorLog = log.New(io.Discard, "", 0) // of requests that our faults cut off
		s.next = proxy
		t.Cleanup(pool.CloseIdleConnections)
	}
	s.count = make(map[string]int)
	server := httptest.NewUnstartedServer(s)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// callHeader names the request that an attempt belongs to. The AWS SDKs set it, one for each operation.
const callHeader = "Amz-Sdk-Invocation-Id"

func (s *faultyService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
		s.answer(w, faultUnavailable)
	case faultReset:
		io.CopyN(io.Discard, r.Body, 1000)
		dropConnection(w)
	case faultLost:
		s.next.ServeHTTP(httptest.NewRecorder(), r)
		dropConnection(w)
	case faultCut:
		rec := httptest.NewRecorder()
		s.next.ServeHTTP(rec, r)
		cutAnswer(w, rec)
	case faultBare:
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadGateway)
		io.WriteString(w, "<html><body>Bad Gateway</body></html>")
	default:
		io.Copy(io.Discard, r.Body)
		s.answer(w, f)
	}
}

// dropConnection resets the connection: what was not sent yet never is.
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

// cutAnswer sends an answer up to the middle of its body. One without a body is cut in its headers.
func cutAnswer(w http.ResponseWriter, rec *httptest.ResponseRecorder) {
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

// figures returns how many operations there were, what was sent for them in all and at most for one, and the faults.
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

// randomFaults picks one of the kinds for a share of the requests, the same ones in the same order each time.
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

// answerJSON is how DynamoDB fails.
func answerJSON(w http.ResponseWriter, f fault) {
	status, code := http.StatusInternalServerError, "InternalServerError"
	switch f {
	case faultUnavailable:
		status, code = http.StatusServiceUnavailable, "ServiceUnavailable"
	case faultThrottling:
		status, code = http.StatusBadRequest, "ProvisionedThroughputExceededException"
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"a fault of the test"}`, code)
}

// answerXML is how S3 fails.
func answerXML(w http.ResponseWriter, f fault) {
	status, code := http.StatusInternalServerError, "InternalError"
	switch f {
	case faultUnavailable:
		status, code = http.StatusServiceUnavailable, "ServiceUnavailable"
	case faultThrottling:
		status, code = http.StatusServiceUnavailable, "SlowDown"
	case faultHidden:
		status = http.StatusOK
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>%s</Code><Message>a fault of the test</Message></Error>", code)
}

// answerQueryJSON is how SQS fails: throttling, its code in a header as clients of its older protocol know it.
func answerQueryJSON(w http.ResponseWriter, f fault) {
	if f == faultThrottling {
		w.Header().Set("X-Amzn-Query-Error", "RequestThrottled;Sender")
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, `{"__type":"com.amazonaws.sqs#RequestThrottled","message":"a fault of the test"}`)
		return
	}
	answerJSON(w, f)
}
