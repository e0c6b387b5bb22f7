package delivery

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry/internal/httpfake"
)

// A slowBody gives one byte of text after each delay. Its Close must not come
// during a Read.
type slowBody struct {
	text    io.Reader
	delay   time.Duration
	reading atomic.Bool
	closed  chan struct{}
}

func (b *slowBody) Read(p []byte) (int, error) {
	b.reading.Store(true)
	defer b.reading.Store(false)
	time.Sleep(b.delay)
	return b.text.Read(p[:min(len(p), 1)])
}

func (b *slowBody) Close() error {
	if b.reading.Load() {
		panic("closed during a Read")
	}
	close(b.closed)
	return nil
}

// The body of a dead letter may be slow for as long as something comes. One that
// was given up stays lost, although its source goes on.
func TestSlowBodiesOfDeadLetters(t *testing.T) {
	const patience = defaultAttemptTimeout
	for _, tt := range []struct {
		name  string
		text  io.Reader
		delay time.Duration
		took  time.Duration
		why   string // it is lost; "": it is whole
	}{
		{"nearly too slow", strings.NewReader("hello"), patience - 1, 6 * (patience - 1), ""},
		{"too slow", strings.NewReader("hello"), patience + 1, patience, "nothing of it came for 15s"},
		{"endless", httpfake.Zeros, 10 * time.Second, maxReading, "it did not end within 1h0m0s"},
	} {
		run(t, tt.name, func(t *testing.T) {
			body := &slowBody{text: tt.text, delay: tt.delay, closed: make(chan struct{})}
			tr := &Transport{Policy: testPolicy(t, `"numRetries":0`), Base: httpfake.Base(unread)}
			tr.DeadLetter = func(_ context.Context, dead DeadLetter) error {
				start := time.Now()
				got, err := io.ReadAll(dead.Request.Body)
				if took := time.Since(start); took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
				if tt.why == "" {
					if string(got) != "hello" || err != nil {
						t.Errorf("got %q, %v", got, err)
					}
					return nil
				}
				if !errors.Is(err, ErrBody) || !strings.Contains(err.Error(), tt.why) {
					t.Errorf("got %v, want %q in it", err, tt.why)
				}
				time.Sleep(time.Hour)
				if n, again := dead.Request.Body.Read(make([]byte, 1)); n != 0 || again != err {
					t.Errorf("%v, then %d, %v", err, n, again)
				}
				return nil
			}
			tr.RoundTrip(stream(t, body))
			<-body.closed // or the bubble reports a deadlock
		})
	}
}
