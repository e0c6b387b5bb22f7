package awsretry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
)

// A baseFunc is a Base.
type baseFunc func(*http.Request) (*http.Response, error)

func (f baseFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A tracked is a body that counts what is done to it.
type tracked struct {
	io.Reader
	reads, closes, readsClosed, overlaps, closedReading atomic.Int32
	reading                                             atomic.Bool
}

func track(r io.Reader) *tracked { return &tracked{Reader: r} }

func (b *tracked) Read(p []byte) (int, error) {
	b.reads.Add(1)
	if b.closes.Load() > 0 {
		b.readsClosed.Add(1)
		return 0, os.ErrClosed
	}
	if b.reading.Swap(true) {
		b.overlaps.Add(1)
	}
	defer b.reading.Store(false)
	return b.Reader.Read(p)
}

func (b *tracked) Close() error {
	b.closes.Add(1)
	if b.reading.Load() {
		b.closedReading.Add(1)
	}
	if c, ok := b.Reader.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// A readFunc is an io.Reader.
type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// pauseOf is a Backoff of equal pauses.
func pauseOf(d time.Duration) awsretry.Backoff {
	return awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return d })
}

// respond makes an answer. header is names and values in turn.
func respond(req *http.Request, status int, body io.ReadCloser, header ...string) *http.Response {
	resp := &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: body, ContentLength: -1, Request: req,
	}
	for i := 0; i < len(header); i += 2 {
		resp.Header.Add(header[i], header[i+1])
	}
	return resp
}

// useUp reads and closes the body of a request, as a Base has to.
func useUp(req *http.Request) (string, error) {
	if req.Body == nil {
		return "", nil
	}
	defer req.Body.Close()
	b, err := io.ReadAll(req.Body)
	return string(b), err
}

// answersWith is a Base that gives these statuses in turn, the last one for ever, with an empty body.
func answersWith(statuses ...int) baseFunc {
	var n atomic.Int32
	return func(req *http.Request) (*http.Response, error) {
		if _, err := useUp(req); err != nil {
			return nil, err
		}
		i := min(int(n.Add(1)), len(statuses)) - 1
		return respond(req, statuses[i], http.NoBody), nil
	}
}

func request(t testing.TB, ctx context.Context, method string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://service.example/path?secret=1", body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// stopOf is why the last attempt was the last; "" where neither the answer nor the error says so.
func stopOf(resp *http.Response, err error) awsretry.Stop {
	if e := new(awsretry.Error); errors.As(err, &e) {
		return e.Stop
	}
	record, _ := awsretry.Outcome(resp)
	return record.Stop
}

// tokensOf is the retry token bucket of the test requests' host.
func tokensOf(t testing.TB, tr *awsretry.Transport) int {
	t.Helper()
	state, ok := tr.State("service.example")
	if !ok {
		t.Fatal("no bucket for service.example")
	}
	return state.Tokens
}

// whole reads an answer to its end and closes it.
func whole(t testing.TB, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("reading the answer: %v after %d bytes", err, len(b))
	}
	if err := resp.Body.Close(); err != nil {
		t.Errorf("closing the answer: %v", err)
	}
	return string(b)
}

// letters is n bytes; the pattern's length is a prime, so that no two buffers of the usual sizes are alike.
func letters(n int) string {
	const length = 4093
	block := make([]byte, length)
	for i := range block {
		block[i] = byte('!' + (i*i+i/7)%90)
	}
	return strings.Repeat(string(block), n/length+1)[:n]
}
