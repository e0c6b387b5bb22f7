package interop

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// An h2Fault is what an HTTP/2 server does with a POST.
type h2Fault struct {
	name     string
	steps    []func(*h2Stream) // with the streams in turn; the server must see no others
	once     bool              // the POST must not be made twice
	attempts int               // that the Transport makes
	fails    string            // in the error; "": the body comes back
	newConns int               // after the first connection
}

// The steps of an h2Fault.
var (
	echo2         = (*h2Stream).echo
	refuse        = (*h2Stream).refuse
	goAwayBefore  = (*h2Stream).goAwayBefore
	resetInternal = func(s *h2Stream) { s.reset(http2.ErrCodeInternal) }
	goAwayAfter   = func(s *h2Stream) { s.goAway(s.id, http2.ErrCodeNo); s.hangUp() }
)

type h2Steps = []func(*h2Stream)

var h2Faults = []h2Fault{
	{name: "graceful GOAWAY before the request", steps: h2Steps{goAwayBefore, echo2}, attempts: 1, newConns: 1},
	{name: "GOAWAY after the request, and closed", steps: h2Steps{goAwayAfter, echo2}, attempts: 2, newConns: 1},
	{name: "REFUSED_STREAM", steps: h2Steps{refuse, echo2}, attempts: 1},
	{name: "REFUSED_STREAM of a POST that must not be made twice", once: true, steps: h2Steps{refuse, echo2}, attempts: 1},
	// Over the same connection.
	{name: "INTERNAL_ERROR", steps: h2Steps{resetInternal, resetInternal, echo2}, attempts: 3},
	{name: "INTERNAL_ERROR of a POST that must not be made twice", once: true, steps: h2Steps{resetInternal},
		attempts: 1, fails: "INTERNAL_ERROR"},
}

// What a server does not process is sent again, and costs neither an attempt
// nor tokens. Other failures are retried on another connection.
func TestHTTP2Faults(t *testing.T) {
	for _, tt := range h2Faults {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { tt.run(t) })
		})
	}
}

func (f h2Fault) run(t *testing.T) {
	const payload = "the body, which must be whole every time"
	server := startFrames(t, false, f.steps...)
	tr := kit.Retrying(server.pool)
	if f.once {
		tr.Policy = awsretry.IdempotentOnly(nil)
	}
	attempts := 0
	tr.Observe = func(awsretry.Attempt) { attempts++ }

	var got []byte
	resp, err := tr.RoundTrip(kit.NewRequest(t, t.Context(), http.MethodPost, framesURL, kit.StreamOf(payload)))
	if err == nil {
		got, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	switch {
	case f.fails == "" && (err != nil || string(got) != payload):
		t.Errorf("got %q, %v", got, err)
	case f.fails != "" && (err == nil || !strings.Contains(err.Error(), f.fails)):
		t.Errorf("the error is %v, want one with %q", err, f.fails)
	}
	if attempts != f.attempts {
		t.Errorf("%d attempts, want %d", attempts, f.attempts)
	}
	state, ok := tr.State(framesHost)
	if attempts == 1 && (!ok || state.Tokens != 500) {
		t.Errorf("%d tokens are left of 500", state.Tokens)
	}
	bodies, conns := server.seen()
	if len(bodies) != len(f.steps) {
		t.Errorf("the server saw %d streams, want %d", len(bodies), len(f.steps))
	}
	if slices.ContainsFunc(bodies, func(b string) bool { return b != payload }) {
		t.Errorf("the server received %q", bodies)
	}
	if conns != 1+f.newConns {
		t.Errorf("%d connections, want %d", conns, 1+f.newConns)
	}
}

// A server refuses a stream, or goes away, while the caller is still writing
// the body. No byte of the body is lost.
func TestRefusedWhileWriting(t *testing.T) {
	for name, fault := range map[string]func(*h2Stream){
		"REFUSED_STREAM": refuse,
		"GOAWAY":         goAwayBefore,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := startFrames(t, true, fault, echo2)
				pr, caller := io.Pipe()
				body := httpfake.NewBody(pr)
				go func() {
					defer caller.Close()
					synctest.Wait() // the refusal has arrived
					if bodies, _ := server.seen(); len(bodies) == 0 || !body.Reading() {
						t.Error("no Read is under way")
					}
					for _, piece := range []string{"one ", "two ", "three ", "four"} {
						io.WriteString(caller, piece)
					}
				}()
				resp, err := kit.Retrying(server.pool).
					RoundTrip(kit.NewRequest(t, t.Context(), http.MethodPost, framesURL, body))
				if err != nil {
					t.Fatal(err)
				}
				if got := httpfake.ReadAll(t, resp); got != "one two three four" {
					t.Errorf("%q came back", got)
				}
			})
		})
	}
}

// A framesServer speaks HTTP/2 without TLS, frame by frame, so that it can do
// what a real server seldom does. It does with each stream what its step says.
// Its connections are in memory, for tests in virtual time.
type framesServer struct {
	pool  *http.Transport // reaches the server at framesURL
	early bool            // the first step begins with the header of its stream, others with the end of the body
	steps []func(*h2Stream)

	mu      sync.Mutex // guards the fields below
	closed  bool
	conns   []net.Conn
	streams []*h2Stream
}

const (
	framesHost = "frames.example"
	framesURL  = "http://" + framesHost + "/"
)

// startFrames starts a framesServer. The last step is repeated.
func startFrames(t testing.TB, early bool, steps ...func(*h2Stream)) *framesServer {
	s := &framesServer{early: early, steps: steps, pool: &http.Transport{Protocols: new(http.Protocols)}}
	s.pool.Protocols.SetUnencryptedHTTP2(true)
	var running sync.WaitGroup
	s.pool.DialContext = func(context.Context, string, string) (net.Conn, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed {
			return nil, net.ErrClosed // net/http may dial for a request that has found another connection
		}
		client, server := net.Pipe()
		s.conns = append(s.conns, server)
		running.Go(func() {
			defer server.Close()
			out := make(writeQueue, 100)
			defer close(out)
			running.Go(func() { out.writeTo(server) })
			if err := s.serve(server, out); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("the server's connection: %v", err)
			}
		})
		return client, nil
	}
	t.Cleanup(func() {
		s.pool.CloseIdleConnections()
		s.mu.Lock()
		s.closed = true
		for _, conn := range s.conns {
			conn.Close()
		}
		s.mu.Unlock()
		running.Wait()
	})
	return s
}

// seen returns the bodies of the streams, and how many connections they used.
func (s *framesServer) seen() (bodies []string, conns int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := make(map[writeQueue]bool)
	for _, stream := range s.streams {
		bodies = append(bodies, string(stream.body))
		used[stream.out] = true
	}
	return bodies, len(used)
}

// A writeQueue is what a server has written and its client has not read yet. A
// pipe has no buffer for that.
type writeQueue chan []byte // nil: close the connection

func (q writeQueue) Write(p []byte) (int, error) {
	q <- bytes.Clone(p)
	return len(p), nil
}

func (q writeQueue) writeTo(conn net.Conn) {
	for p := range q {
		if p == nil {
			conn.Close()
		}
		conn.Write(p)
	}
}

func (s *framesServer) serve(conn net.Conn, out writeQueue) error {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, preface); err != nil {
		return err
	}
	framer := http2.NewFramer(out, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := framer.WriteSettings(); err != nil {
		return err
	}
	open := make(map[uint32]*h2Stream)
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
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
			stream := &h2Stream{out: out, framer: framer, id: f.StreamID}
			open[f.StreamID] = stream
			s.add(stream)
			if f.StreamEnded() || stream.early {
				stream.step(stream)
			}
		case *http2.DataFrame:
			stream := open[f.StreamID]
			s.mu.Lock()
			stream.body = append(stream.body, f.Data()...)
			s.mu.Unlock()
			if f.StreamEnded() && !stream.early {
				stream.step(stream)
			}
		}
		if err != nil {
			return err
		}
	}
}

// add gives a new stream its step.
func (s *framesServer) add(stream *h2Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams = append(s.streams, stream)
	stream.early = s.early && len(s.streams) == 1
	stream.step = s.steps[min(len(s.streams), len(s.steps))-1]
}

// An h2Stream is one request. Its methods are for its step.
type h2Stream struct {
	out    writeQueue
	framer *http2.Framer
	id     uint32
	step   func(*h2Stream)
	early  bool
	body   []byte // written with the server's mu
}

// echo responds with the body.
func (s *h2Stream) echo() {
	var block bytes.Buffer
	hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	s.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: block.Bytes(), EndHeaders: true})
	s.framer.WriteData(s.id, true, s.body)
}

func (s *h2Stream) reset(code http2.ErrCode) { s.framer.WriteRSTStream(s.id, code) }

// refuse resets the stream as one that was not processed.
func (s *h2Stream) refuse() { s.reset(http2.ErrCodeRefusedStream) }

// goAway tells the client which stream was the last one to be processed. The
// connection stays open.
func (s *h2Stream) goAway(last uint32, code http2.ErrCode) { s.framer.WriteGoAway(last, code, nil) }

// goAwayBefore tells the client that this stream is not processed.
func (s *h2Stream) goAwayBefore() {
	last := uint32(0)
	if s.id > 2 {
		last = s.id - 2
	}
	s.goAway(last, http2.ErrCodeNo)
}

// hangUp closes the connection after what is written.
func (s *h2Stream) hangUp() { s.out <- nil }
