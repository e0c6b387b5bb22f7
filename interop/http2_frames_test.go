package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

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
func (s *h2Stream) echo() { s.respond(200, string(s.body)) }

func (s *h2Stream) respond(status int, body string) {
	s.begin(status, body)
	s.framer.WriteData(s.id, true, nil)
}

// begin sends the header and a first piece of the body.
func (s *h2Stream) begin(status int, piece string) {
	var block bytes.Buffer
	hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: fmt.Sprint(status)})
	s.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: block.Bytes(), EndHeaders: true})
	s.framer.WriteData(s.id, false, []byte(piece))
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
