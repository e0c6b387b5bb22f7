package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/awsretry"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// TestHTTP2Faults goes to a server that is made of frames, so that it can do what a real one seldom does.
func TestHTTP2Faults(t *testing.T) {
	const payload = "the body, which must come whole every time"
	ok := func(s *h2Stream) { s.answer(200, string(s.body)) }
	for _, c := range []struct {
		name     string
		steps    []func(*h2Stream) // what is done with the streams, in turn
		early    bool              // with the first one when its headers are there; else when they are whole
		policy   awsretry.Policy   // nil: DefaultPolicy
		bytes    int               // attempts of the Transport's with a body that net/http can have again
		stream   int               // and with one that it cannot
		streams  int               // that the server is to see; 0: as many as there are steps
		fails    string            // "": the body comes back
		newConns int               // 0: all on one connection
	}{
		{name: "graceful GOAWAY before the request", steps: []func(*h2Stream){func(s *h2Stream) { s.goAway(s.id-2, http2.ErrCodeNo) }, ok}, bytes: 1, stream: 1, newConns: 1},
		{name: "GOAWAY over the request, and closed", steps: []func(*h2Stream){func(s *h2Stream) { s.goAway(s.id, http2.ErrCodeNo); s.hangUp() }, ok}, bytes: 2, stream: 2, newConns: 1},
		{name: "GOAWAY over the request, and answered", steps: []func(*h2Stream){func(s *h2Stream) { s.goAway(s.id, http2.ErrCodeNo); ok(s) }}, bytes: 1, stream: 1},
		{name: "GOAWAY ENHANCE_YOUR_CALM", steps: []func(*h2Stream){func(s *h2Stream) { s.goAway(0, http2.ErrCodeEnhanceYourCalm); s.hangUp() }, ok}, bytes: 2, stream: 2, newConns: 1},
		{name: "REFUSED_STREAM", steps: []func(*h2Stream){func(s *h2Stream) { s.reset(http2.ErrCodeRefusedStream) }, ok}, bytes: 1, stream: 1},
		{name: "REFUSED_STREAM before the body", early: true, steps: []func(*h2Stream){func(s *h2Stream) { s.reset(http2.ErrCodeRefusedStream) }, ok}, bytes: 1, stream: 1},
		{name: "REFUSED_STREAM of a POST that must not be made twice", policy: awsretry.IdempotentOnly(nil), steps: []func(*h2Stream){func(s *h2Stream) { s.reset(http2.ErrCodeRefusedStream) }, ok}, bytes: 1, stream: 1},
		{name: "GOAWAY before a POST that must not be made twice", policy: awsretry.IdempotentOnly(nil), steps: []func(*h2Stream){func(s *h2Stream) { s.goAway(s.id-2, http2.ErrCodeNo) }, ok}, bytes: 1, stream: 1, newConns: 1},
		{name: "INTERNAL_ERROR", steps: []func(*h2Stream){func(s *h2Stream) { s.reset(http2.ErrCodeInternal) }, func(s *h2Stream) { s.reset(http2.ErrCodeInternal) }, ok}, bytes: 3, stream: 3, newConns: 2},
		{name: "INTERNAL_ERROR of a POST that must not be made twice", policy: awsretry.IdempotentOnly(nil), steps: []func(*h2Stream){func(s *h2Stream) { s.reset(http2.ErrCodeInternal) }}, bytes: 1, stream: 1, fails: "INTERNAL_ERROR"},
		{name: "answered before the body, and reset", early: true, steps: []func(*h2Stream){func(s *h2Stream) { s.answer(503, "busy"); s.reset(http2.ErrCodeNo) }, ok}, bytes: 2, stream: 2, newConns: 1},
		{name: "closed in the middle of the answer", steps: []func(*h2Stream){func(s *h2Stream) { s.begin(200, "the first ha"); s.goAway(s.id, http2.ErrCodeNo); s.hangUp() }}, bytes: 1, stream: 1, fails: "GOAWAY"},
		{name: "reset in the middle of the answer", steps: []func(*h2Stream){func(s *h2Stream) { s.begin(200, "the first ha"); s.reset(http2.ErrCodeInternal) }}, bytes: 1, stream: 1, fails: "INTERNAL_ERROR"},
	} {
		for kind, attempts := range map[string]int{"bytes": c.bytes, "stream": c.stream} {
			t.Run(c.name+", "+kind, func(t *testing.T) {
				t.Parallel()
				server := startFrames(t, c.early, c.steps)
				made := 0
				transport := retrying(unencryptedHTTP2Pool(t))
				transport.Policy = c.policy
				transport.Observe = func(awsretry.Attempt) { made++ }

				ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
				defer cancel()
				var body io.Reader = strings.NewReader(payload)
				if kind == "stream" {
					body = struct{ io.Reader }{body}
				}
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.url(), body)
				if err != nil {
					t.Fatal(err)
				}
				var got []byte
				resp, err := (&http.Client{Transport: transport}).Do(req)
				if err == nil {
					got, err = io.ReadAll(resp.Body)
					resp.Body.Close()
				}
				switch {
				case c.fails == "" && (err != nil || string(got) != payload):
					t.Errorf("got %q, %v", got, err)
				case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
					t.Errorf("the error is %v, want one with %q", err, c.fails)
				}
				if made != attempts {
					t.Errorf("%d attempts, want %d", made, attempts)
				}
				// What the server says that it did not process costs nothing.
				host := server.listener.Addr().String()
				if state, ok := transport.State(host); attempts == 1 && (!ok || state.Tokens != 500) {
					t.Errorf("%d tokens are left of 500", state.Tokens)
				}
				bodies, conns := server.seen()
				if want := max(c.streams, len(c.steps)); len(bodies) != want {
					t.Errorf("the server saw %d streams, want %d", len(bodies), want)
				}
				whole := bodies
				if c.early {
					whole = bodies[1:]
				}
				if slices.ContainsFunc(whole, func(b string) bool { return b != payload }) {
					t.Errorf("the server received %q", bodies)
				}
				if conns != 1+c.newConns {
					t.Errorf("%d connections, want %d", conns, 1+c.newConns)
				}
			})
		}
	}
}

// A framesServer speaks HTTP/2 without TLS and does with each stream what its step says.
type framesServer struct {
	listener net.Listener
	early    bool // the first stream is acted on when its headers are there
	steps    []func(*h2Stream)
	closing  context.Context

	mu      sync.Mutex // guards the fields below, which the connections' goroutines write
	conns   int
	streams []*h2Stream
}

func startFrames(t testing.TB, early bool, steps []func(*h2Stream)) *framesServer {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closing, end := context.WithCancel(context.Background())
	s := &framesServer{listener: listener, early: early, steps: steps, closing: closing}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				defer context.AfterFunc(closing, func() { conn.Close() })()
				if err := s.serve(conn); err != nil && !errors.Is(err, net.ErrClosed) && closing.Err() == nil {
					t.Errorf("the server's connection: %v", err)
				}
			})
		}
	})
	t.Cleanup(func() { end(); listener.Close(); running.Wait() })
	return s
}

func (s *framesServer) url() string { return "http://" + s.listener.Addr().String() + "/" }

// seen returns the bodies of the streams and how many connections there were.
func (s *framesServer) seen() (bodies []string, conns int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stream := range s.streams {
		bodies = append(bodies, string(stream.body))
	}
	return bodies, s.conns
}

func (s *framesServer) serve(conn net.Conn) error {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, preface); err != nil {
		return err
	}
	s.mu.Lock()
	s.conns++
	s.mu.Unlock()
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := framer.WriteSettings(); err != nil {
		return err
	}
	open := make(map[uint32]*h2Stream)
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			if errors.Is(err, io.EOF) || isReset(err) {
				return nil // the client has closed
			}
			return err
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				err = framer.WritePing(true, f.Data)
			}
		case *http2.MetaHeadersFrame:
			stream := &h2Stream{conn: conn, framer: framer, id: f.StreamID}
			open[f.StreamID] = stream
			step, err := s.next(stream)
			if err != nil {
				return err
			}
			stream.step = step
			if f.StreamEnded() || stream.early {
				stream.act()
			}
		case *http2.DataFrame:
			stream := open[f.StreamID]
			s.mu.Lock()
			stream.body = append(stream.body, f.Data()...)
			s.mu.Unlock()
			if f.StreamEnded() && !stream.early {
				stream.act()
			}
		}
		if err != nil {
			return err
		}
	}
}

func isReset(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "read" && strings.Contains(err.Error(), "reset by peer")
}

// next books a stream and returns its step. When the steps are used up, the last one is repeated and the test sees too
// many streams.
func (s *framesServer) next(stream *h2Stream) (func(*h2Stream), error) {
	if len(s.steps) == 0 {
		return nil, errors.New("no steps")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams = append(s.streams, stream)
	stream.early = s.early && len(s.streams) == 1
	return s.steps[min(len(s.streams), len(s.steps))-1], nil
}

// An h2Stream is one request. Its methods are for its step.
type h2Stream struct {
	conn   net.Conn
	framer *http2.Framer
	id     uint32
	step   func(*h2Stream)
	early  bool
	body   []byte // written under the server's mu
}

func (s *h2Stream) act() { s.step(s) }

// begin sends headers and a first piece of the body.
func (s *h2Stream) begin(status int, piece string) {
	var block bytes.Buffer
	hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: fmt.Sprint(status)})
	s.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: block.Bytes(), EndHeaders: true})
	s.framer.WriteData(s.id, false, []byte(piece))
}

func (s *h2Stream) answer(status int, body string) {
	s.begin(status, body)
	s.framer.WriteData(s.id, true, nil)
}

func (s *h2Stream) reset(code http2.ErrCode) { s.framer.WriteRSTStream(s.id, code) }

// goAway says that streams above last are not looked at; the connection stays open.
func (s *h2Stream) goAway(last uint32, code http2.ErrCode) {
	if last > 1<<31-1 {
		last = 0 // there was none before the first
	}
	s.framer.WriteGoAway(last, code, nil)
}

// hangUp ends the connection behind what was written to it; what still comes from the client is read, so that it does not become a reset.
func (s *h2Stream) hangUp() { s.conn.(*net.TCPConn).CloseWrite() }
