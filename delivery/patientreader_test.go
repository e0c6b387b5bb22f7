package delivery

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A slowBody gives one byte of text every so often, and hangs at its end if it
// is to. Its Close ends a Read unless it is deaf.
type slowBody struct {
	text   io.Reader
	pause  time.Duration
	hangs  bool
	deaf   bool
	atEnd  error // what a Read returns that Close ended
	closed chan struct{}
	freed  chan struct{} // ends a Read that Close does not end
}

func newSlowBody(text string, pause time.Duration) *slowBody {
	return &slowBody{text: strings.NewReader(text), pause: pause, atEnd: errHung, closed: make(chan struct{}), freed: make(chan struct{})}
}

func (b *slowBody) Read(p []byte) (int, error) {
	closed := b.closed
	if b.deaf {
		closed = b.freed
	}
	select {
	case <-time.After(b.pause):
	case <-closed:
		return 0, b.atEnd
	}
	n, err := b.text.Read(p[:min(len(p), 1)])
	if err == io.EOF && b.hangs {
		<-closed
		return 0, b.atEnd
	}
	return n, err
}

func (b *slowBody) Close() error {
	close(b.closed)
	return nil
}

// The body of a dead letter may be slow for as long as something comes.
func TestSlowBodiesOfDeadLetters(t *testing.T) {
	for _, test := range []struct {
		name  string
		body  func(*slowBody)
		pause time.Duration
		whole bool
		took  time.Duration
	}{
		{"steady", func(*slowBody) {}, 10 * time.Second, true, 6 * 10 * time.Second},
		{"nearly too slow", func(*slowBody) {}, 15*time.Second - 1, true, 6 * (15*time.Second - 1)},
		{"too slow", func(*slowBody) {}, 15*time.Second + 1, false, 15 * time.Second},
		{"hangs", func(b *slowBody) { b.hangs = true }, time.Second, false, (5 + 15) * time.Second},
		{"ends when it is closed", func(b *slowBody) { b.hangs, b.atEnd = true, io.EOF }, time.Second, false, (5 + 15) * time.Second},
		{"hangs even when it is closed", func(b *slowBody) { b.hangs, b.deaf = true, true }, time.Second, false, (5 + 15) * time.Second},
		{"endless", func(b *slowBody) { b.text = zeros{} }, 10 * time.Second, false, time.Hour},
	} {
		for _, getBody := range []bool{false, true} {
			t.Run(test.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					body := newSlowBody("hello", test.pause)
					test.body(body)
					defer close(body.freed)
					req := post(t, "http://a.example/", "")
					req.Body, req.GetBody, req.ContentLength = body, nil, -1
					if getBody {
						req.Body = io.NopCloser(strings.NewReader("unread"))
						req.GetBody = func() (io.ReadCloser, error) { return body, nil }
					}
					policy := testPolicy(t, `"numRetries":0`)
					dir := t.TempDir()
					start := time.Now()
					_, err := (&Transport{Policy: policy, Base: roundTripper(unread), DeadLetter: DirQueue(dir)}).RoundTrip(req)
					if took := time.Since(start); took != test.took {
						t.Errorf("it took %v, want %v", took, test.took)
					}
					if !errors.Is(err, errRefused) || errors.Is(err, ErrBody) == test.whole {
						t.Errorf("got %v", err)
					}
					if got := collect(t, dir); (got["hello"] == 1) != test.whole || len(got) > 1 || len(got) == 1 && !test.whole {
						t.Errorf("arrived: %q", got)
					}
					select {
					case <-body.closed:
					default:
						t.Error("the body was not closed")
					}
				})
			})
		}
	}
}

type panickingReader struct{}

func (panickingReader) Read([]byte) (int, error) { panic("boom") }

// A panic in the caller's reader stays on the caller's goroutine.
func TestPanicInTheRestOfABody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := &countedBody{Reader: panickingReader{}}
		req := post(t, "http://a.example/", "")
		req.Body, req.GetBody, req.ContentLength = body, nil, -1
		defer func() {
			if p := recover(); p != "boom" || body.closed.Load() != 1 {
				t.Errorf("recovered %v; the body was closed %d times", p, body.closed.Load())
			}
		}()
		(&Transport{Base: roundTripper(unread), DeadLetter: func(_ context.Context, dead DeadLetter) error {
			_, err := io.ReadAll(dead.Request.Body)
			return err
		}}).RoundTrip(req)
	})
}
