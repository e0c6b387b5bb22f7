package clients

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry/interop/internal/kit"
	"github.com/Shopify/toxiproxy/v2"
)

const (
	chaosMaxCalls = 1 << 20
	chaosMaxBody  = 96 << 10
	chaosSum      = "X-Sum" // the checksum of the body
)

func chaosSumOf(body []byte) string { return strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 16) }

// A chaosServer responds at random: well, with errors, slowly, in part, or not
// at all.
type chaosServer struct {
	*httptest.Server
	sent     []atomic.Int32 // requests that reached it, for each call
	requests atomic.Int64
	corrupt  atomic.Int64 // requests whose whole body is not what was sent
	conns    atomic.Int64 // open
}

func startChaosServer() *chaosServer {
	s := &chaosServer{sent: make([]atomic.Int32, chaosMaxCalls)}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = kit.Quiet
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			s.conns.Add(1)
		case http.StateClosed, http.StateHijacked: // a hijacked one is closed at once
			s.conns.Add(-1)
		}
	}
	s.Start()
	return s
}

func (s *chaosServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	call, err := strconv.Atoi(r.Header.Get("X-Call"))
	if err != nil || call >= len(s.sent) {
		s.corrupt.Add(1)
		return
	}
	s.sent[call].Add(1)
	dice := rand.IntN(100)
	if dice < 3 { // before the body is read
		s.fail(w, http.StatusServiceUnavailable, "ServiceUnavailable", 100)
		return
	}
	sum := crc32.NewIEEE()
	if _, err := io.Copy(sum, r.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
	if strconv.FormatUint(uint64(sum.Sum32()), 16) != r.Header.Get(chaosSum) {
		s.corrupt.Add(1)
	}
	switch {
	case dice < 6:
		s.fail(w, http.StatusInternalServerError, "InternalError", 80<<10) // more than is read ahead
	case dice < 9:
		s.fail(w, http.StatusBadGateway, "", 2000)
	case dice < 12:
		hangUp(w, r)
	case dice < 14:
		w.Header().Set("Retry-After", "0")
		s.fail(w, http.StatusTooManyRequests, "", 10)
	case dice < 16:
		s.fail(w, http.StatusBadRequest, "ThrottlingException", 300)
	case dice < 18:
		s.fail(w, http.StatusNotFound, "", 3000)
	default:
		if dice < 20 {
			kit.Pause(r.Context(), rand.N(100*time.Millisecond))
		}
		body := kit.Random(call+dice, rand.IntN(chaosMaxBody))
		w.Header().Set(chaosSum, chaosSumOf(body))
		if dice%2 == 0 {
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		}
		w.Write(body[:len(body)/2])
		if dice < 23 || dice%3 == 0 {
			http.NewResponseController(w).Flush()
		}
		if dice < 23 {
			panic(http.ErrAbortHandler)
		}
		w.Write(body[len(body)/2:])
	}
}

// fail responds with an error and a body of about size bytes.
func (s *chaosServer) fail(w http.ResponseWriter, status int, code string, size int) {
	body := fmt.Sprintf(`{"__type":%q,"padding":"%0*d"}`, code, size, 0)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set(chaosSum, chaosSumOf([]byte(body)))
	w.WriteHeader(status)
	io.WriteString(w, body)
}

// chaosToxics are the sets of toxics. One is in force at a time.
var chaosToxics = [][]string{
	nil,
	{toxic("latency", down, 1, `"latency": 5, "jitter": 5`)},
	{toxic("reset_peer", down, .3, `"timeout": 20`)},
	{toxic("reset_peer", up, .3, `"timeout": 0`)},
	{toxic("timeout", up, .3, `"timeout": 100`)},
	{toxic("timeout", down, .2, `"timeout": 0`)},
	{toxic("slow_close", down, .8, `"delay": 100`)},
	{toxic("limit_data", down, .5, `"bytes": 30000`)},
	{toxic("limit_data", up, .5, `"bytes": 20000`)},
	{toxic("bandwidth", down, .5, `"rate": 500`)},
	{
		toxic("slicer", down, 1, `"average_size": 700, "size_variation": 300, "delay": 20`),
		toxic("latency", up, .5, `"latency": 20`),
	},
}

// A chaosNet makes connections through the toxiproxy of the moment.
type chaosNet struct{ addr atomic.Pointer[string] }

func (n *chaosNet) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, *n.addr.Load())
}

// rotate changes the toxics until ctx ends. Connections keep their toxics for a
// second. Then their proxy ends with them.
func (n *chaosNet) rotate(t *testing.T, ctx context.Context, upstream string) {
	var alive []*toxiproxy.Proxy
	for sets := 0; ctx.Err() == nil; sets++ {
		p := startToxiproxy(t, upstream, chaosToxics[sets%len(chaosToxics)]...)
		n.addr.Store(&p.Listen)
		if alive = append(alive, p); len(alive) > 4 {
			alive[0].Stop()
			alive = alive[1:]
		}
		if sets%7 == 6 { // for a moment nobody listens
			p.Stop()
		}
		kit.Pause(ctx, 250*time.Millisecond)
	}
	for _, p := range alive {
		p.Stop()
	}
}

// hangUp resets the connection instead of responding. What is not sent yet is
// lost.
func hangUp(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	conn.Close()
}
