package interop

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"golang.org/x/net/http2"
)

// TestRefusedWhileWriting has an HTTP/2 server refuse a stream, or go away, while the caller is still writing its body.
// Nothing was processed, so the body goes to the next stream, and no byte of it is lost.
func TestRefusedWhileWriting(t *testing.T) {
	for _, c := range []struct {
		name   string
		refuse func(*h2Stream)
	}{
		{"REFUSED_STREAM", func(s *h2Stream) { s.reset(http2.ErrCodeRefusedStream) }},
		{"GOAWAY", func(s *h2Stream) { s.goAway(s.id-2, http2.ErrCodeNo) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := startFrames(t, true, []func(*h2Stream){c.refuse, func(s *h2Stream) { s.answer(200, string(s.body)) }})
			body, caller := io.Pipe()
			go func() {
				for _, piece := range []string{"one ", "two ", "three ", "four"} {
					time.Sleep(50 * time.Millisecond) // a Read is under way when the refusal comes
					io.WriteString(caller, piece)
				}
				caller.Close()
			}()
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.url(), body)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := retrying(unencryptedHTTP2Pool(t)).RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if got, err := io.ReadAll(resp.Body); err != nil || string(got) != "one two three four" {
				t.Errorf("the body came back as %q, %v", got, err)
			}
		})
	}
}

// TestClosedBeforeSending has a Base close the request body and send the request all the same, as net/http's HTTP/2 does when a
// connection turns out to be unusable.
func TestClosedBeforeSending(t *testing.T) {
	server := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }), unencryptedHTTP2)
	pool := unencryptedHTTP2Pool(t)
	for _, kind := range bodyKinds[2:] { // those without GetBody
		t.Run(kind.name, func(t *testing.T) {
			transport := retrying(serviceFunc(func(req *http.Request) (*http.Response, error) {
				req.Body.Close()
				return pool.RoundTrip(req)
			}))
			req, err := http.NewRequest(http.MethodPut, server.URL, kind.open(t))
			if err != nil {
				t.Fatal(err)
			}
			var closes atomic.Int32
			kind.finish(req, &closes)
			resp, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if got, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(got, kind.content) {
				t.Errorf("%d bytes came back of %d, %v", len(got), len(kind.content), err)
			}
			if !eventually(func() bool { return closes.Load() > 0 }) || closes.Load() != 1 {
				t.Errorf("the caller's body was closed %d times", closes.Load())
			}
		})
	}
}

// TestBrokenConversation has a caller write a message over HTTP/2 and wait for the answer before it writes more. The
// connection breaks. The body cannot be sent again, because a Read of it is under way, which may last for ever.
func TestBrokenConversation(t *testing.T) {
	for _, c := range []struct {
		name string
		body func(*testing.T) io.ReadCloser // begins with a message
	}{
		{"pipe", func(*testing.T) io.ReadCloser {
			body, caller := io.Pipe()
			go io.WriteString(caller, "a message")
			return body
		}},
		{"body whose Close does not end a Read", func(t *testing.T) io.ReadCloser {
			body, caller := io.Pipe()
			go io.WriteString(caller, "a message")
			t.Cleanup(func() { caller.Close() })
			return io.NopCloser(body)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			received, waiting := make(chan bool, 9), make(chan bool)
			server := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.ReadFull(r.Body, make([]byte, len("a message")))
				received <- true
				<-r.Context().Done()
			}), unencryptedHTTP2)
			relay := startRelay(t, server)
			var closes atomic.Int32
			body := &messageReader{&closeCounter{c.body(t), &closes}, waiting, 0}
			// It would hold up the test's end otherwise.
			ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, relay.url(), body)
			if err != nil {
				t.Fatal(err)
			}
			broken := make(chan time.Time, 1)
			go func() {
				<-received
				<-waiting
				broken <- time.Now()
				relay.cut()
			}()
			transport := retrying(unencryptedHTTP2Pool(t))
			_, err = transport.RoundTrip(req)
			took := time.Since(<-broken)
			var failure *awsretry.Error
			if !errors.As(err, &failure) || failure.Stop != awsretry.StopBody || failure.Attempts != 1 {
				t.Errorf("the error is %v, want one with StopBody after 1 attempt", err)
			}
			if errors.Is(err, context.DeadlineExceeded) || took > 2*time.Second {
				t.Errorf("RoundTrip returned %v after the connection broke", took)
			}
			if !eventually(func() bool { return closes.Load() > 0 }) || closes.Load() != 1 {
				t.Errorf("the caller's body was closed %d times", closes.Load())
			}
		})
	}
}

// A messageReader tells when the second Read begins, the one that comes after the message.
type messageReader struct {
	io.ReadCloser
	waiting chan bool
	reads   int
}

func (r *messageReader) Read(p []byte) (int, error) {
	if r.reads++; r.reads == 2 {
		close(r.waiting)
	}
	return r.ReadCloser.Read(p)
}
