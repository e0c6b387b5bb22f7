package delivery

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/delivery/letters"
	"example.com/awsretry/internal/httpfake"
)

// A slowBody gives one byte of text after each delay. At its end it may hang
// until it is freed. Its Close must not come during a Read.
type slowBody struct {
	text    io.Reader
	delay   time.Duration
	hangs   bool
	reading atomic.Bool
	closed  chan struct{}
	freed   chan struct{}
}

func (b *slowBody) Read(p []byte) (int, error) {
	b.reading.Store(true)
	defer b.reading.Store(false)
	time.Sleep(b.delay)
	n, err := b.text.Read(p[:min(len(p), 1)])
	if err == io.EOF && b.hangs {
		<-b.freed
	}
	return n, err
}

func (b *slowBody) Close() error {
	if b.reading.Load() {
		panic("closed during a Read")
	}
	close(b.closed)
	return nil
}

// The body of a dead letter may be slow for as long as something comes.
func TestSlowBodiesOfDeadLetters(t *testing.T) {
	const patience = defaultAttemptTimeout
	for _, tt := range []struct {
		name  string
		body  *slowBody
		whole bool
		took  time.Duration
	}{
		{"steady", &slowBody{delay: 10 * time.Second}, true, 6 * 10 * time.Second},
		{"nearly too slow", &slowBody{delay: patience - 1}, true, 6 * (patience - 1)},
		{"too slow", &slowBody{delay: patience + 1}, false, patience},
		{"hangs", &slowBody{delay: time.Second, hangs: true}, false, 5*time.Second + patience},
		{"endless", &slowBody{delay: 10 * time.Second, text: httpfake.Zeros}, false, maxReading},
	} {
		for _, kind := range []string{"stream", "GetBody"} {
			run(t, tt.name+"/"+kind, func(t *testing.T) {
				body := &slowBody{text: tt.body.text, delay: tt.body.delay, hangs: tt.body.hangs}
				body.closed, body.freed = make(chan struct{}), make(chan struct{})
				if body.text == nil {
					body.text = strings.NewReader("hello")
				}
				req := stream(t, body)
				if kind == "GetBody" {
					req.Body = io.NopCloser(oneWay("unread"))
					req.GetBody = func() (io.ReadCloser, error) { return body, nil }
				}
				dir := t.TempDir()
				tr := &Transport{Policy: testPolicy(t, `"numRetries":0`), Base: httpfake.Base(unread),
					DeadLetter: (&letters.Dir{Path: dir}).Put}
				start := time.Now()
				_, err := tr.RoundTrip(req)
				if took := time.Since(start); took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
				if !errors.Is(err, errRefused) || errors.Is(err, ErrBody) == tt.whole {
					t.Errorf("got %v", err)
				}
				why := "nothing of it came for 15s"
				if tt.took == maxReading {
					why = "it did not end within 1h0m0s"
				}
				if strings.Contains(err.Error(), why) == tt.whole {
					t.Errorf("got %v, want %q in it", err, why)
				}
				healthy := responding(200)
				(&letters.Dir{Path: dir}).Redrive(t.Context(), healthy, letters.RedriveOptions{})
				if len(healthy.got) == 1 != tt.whole || tt.whole && healthy.got[0].Body != "hello" {
					t.Errorf("arrived: %v", healthy.got)
				}
				close(body.freed)
				<-body.closed // or the bubble reports a deadlock
			})
		}
	}
}

// A body that was given up stays lost, although its source goes on.
func TestGivenUpBodyStaysLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := &slowBody{delay: time.Minute, text: httpfake.Zeros, closed: make(chan struct{})}
		req := stream(t, body)
		tr := &Transport{Base: httpfake.Base(unread), DeadLetter: func(_ context.Context, dead DeadLetter) error {
			_, first := dead.Request.Body.Read(make([]byte, 1))
			time.Sleep(time.Hour)
			if n, err := dead.Request.Body.Read(make([]byte, 1)); n != 0 || err != first || !errors.Is(err, ErrBody) {
				t.Errorf("%v, then %d, %v", first, n, err)
			}
			return nil
		}}
		tr.RoundTrip(req)
	})
}

// A waitingBody hangs after its first bytes, and its Close waits for the Read.
// So does the body of a server's request whose client stalls.
type waitingBody struct {
	begin   io.Reader
	reading chan struct{} // a mutex that synctest can wait for
	freed   chan struct{} // ends the Read
}

func newWaitingBody() *waitingBody {
	return &waitingBody{strings.NewReader("begin"), make(chan struct{}, 1), make(chan struct{})}
}

func (b *waitingBody) Read(p []byte) (int, error) {
	b.reading <- struct{}{}
	defer func() { <-b.reading }()
	if n, err := b.begin.Read(p); err == nil {
		return n, nil
	}
	<-b.freed
	return 0, io.ErrUnexpectedEOF
}

func (b *waitingBody) Close() error {
	b.reading <- struct{}{}
	<-b.reading
	return nil
}

// RoundTrip returns although the body's Close waits for a Read that hangs.
func TestCloseThatWaitsForARead(t *testing.T) {
	fromGetBody := func(req *http.Request) {
		body := req.Body
		req.Body, req.GetBody = io.NopCloser(oneWay("x")), func() (io.ReadCloser, error) { return body, nil }
	}
	for _, tt := range []struct {
		name   string
		base   httpfake.Base
		change func(*http.Request)
		took   time.Duration
	}{
		{"Base reads it", hangingUp, nil, time.Second + defaultAttemptTimeout},
		{"DeadLetter reads it", unread, nil, defaultAttemptTimeout},
		{"DeadLetter reads it from GetBody", unread, fromGetBody, defaultAttemptTimeout},
	} {
		run(t, tt.name, func(t *testing.T) {
			body := newWaitingBody()
			free := sync.OnceFunc(func() { close(body.freed) })
			time.AfterFunc(time.Hour, free) // so that a RoundTrip that waits returns
			defer free()
			req := stream(t, body)
			if tt.change != nil {
				tt.change(req)
			}
			tr := &Transport{Policy: testPolicy(t, `"numRetries":0`), Base: tt.base, DeadLetter: readIt}
			start := time.Now()
			resp, err := tr.RoundTrip(req)
			if took := time.Since(start); resp != nil || !errors.Is(err, ErrBody) || took != tt.took {
				t.Errorf("got %v, %v in %v, want ErrBody in %v", resp, err, took, tt.took)
			}
		})
	}
}

// readIt is a DeadLetter that reads the request's body.
func readIt(_ context.Context, dead DeadLetter) error {
	_, err := receive(dead.Request)
	return err
}

// RoundTrip also returns with net/http's own body of a server's request.
func TestForwardedRequestThatStalls(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusBadRequest)
	}))
	defer refusing.Close()
	tr := &Transport{AttemptTimeout: 50 * time.Millisecond, DeadLetter: readIt}
	returned := make(chan error, 1)
	forwarding := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		req := post(t, refusing.URL, "")
		req.Body, req.GetBody, req.ContentLength = r.Body, nil, r.ContentLength
		_, err := tr.RoundTrip(req)
		returned <- err
	}))
	defer forwarding.Close()
	conn, err := net.Dial("tcp", forwarding.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 100\r\n\r\nbegin")
	select {
	case err := <-returned:
		if !errors.Is(err, ErrBody) {
			t.Errorf("got %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("RoundTrip has not returned after a minute")
	}
}
