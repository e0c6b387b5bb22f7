package interop

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
)

// TestStacks sends bodies of every kind through every stack of clients, wrappers, protocols and proxies to a service that
// fails the first attempt, and wants them back whole.
func TestStacks(t *testing.T) {
	for name, build := range stacks() {
		t.Run(name, func(t *testing.T) {
			service := &failsFirst{attempts: make(map[string][]string)}
			client, url := build.start(t, service)
			for _, body := range bodyKinds {
				for _, early := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s, answered early %v", body.name, early), func(t *testing.T) {
						sendThrough(t, client, url, service, body, early, build)
					})
				}
			}
			client.CloseIdleConnections()
		})
	}
	if left := goroutinesOf("example.com/awsretry."); left != "" {
		t.Errorf("goroutines left behind:\n%s", left)
	}
}

func sendThrough(t *testing.T, client *http.Client, url string, service *failsFirst, kind bodyKind, early bool, through stack) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var attempts []string
	ctx = awsretry.WithObserver(ctx, func(a awsretry.Attempt) { attempts = append(attempts, describe(a)) })
	method, body := http.MethodPut, kind.open(t)
	if body == nil {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	var closes atomic.Int32
	if body != nil {
		kind.finish(req, &closes)
	}
	req.Header.Set("X-Call", t.Name())
	req.Header.Set("Content-Type", "application/octet-stream")
	if early {
		req.Header.Set("X-Early", "1")
	}

	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("reading the answer: %v after %d bytes", err, len(got))
	}
	want := kind.content
	if resp.StatusCode != 200 || !bytes.Equal(got, want) {
		t.Errorf("status %d and %d bytes, want 200 and the %d that were sent", resp.StatusCode, len(got), len(want))
	}
	if sum := resp.Trailer.Get("X-Sum"); sum != digestOf(want) {
		t.Errorf("the answer's trailer is %q, want %q", sum, digestOf(want))
	}
	seen := service.of(t.Name())
	received := func(i int) string {
		if through.losesTrailers {
			return strings.TrimSuffix(seen[i], sentTrailer)
		}
		return seen[i]
	}
	wanted := digestOf(want)
	if kind.trailer && !through.losesTrailers {
		wanted += sentTrailer
	}
	if len(seen) != 2 || received(1) != wanted || !early && !through.early && received(0) != wanted {
		t.Errorf("the service received %q, want twice %q", seen, wanted)
	}
	if body != nil && !eventually(func() bool { return closes.Load() > 0 }) || closes.Load() > 1 {
		t.Errorf("the caller's body was closed %d times", closes.Load())
	}
	// Where a service answers before it has the body, its HTTP/2 may end the connection over what still comes of it, and the
	// second attempt with it; that one was not answered and is made again.
	answered := slices.DeleteFunc(slices.Clone(attempts), func(a string) bool { return early && strings.Contains(a, "GOAWAY") })
	if !through.elsewhere && (len(answered) != 2 || len(attempts) > 3) {
		t.Errorf("the attempts were %q", attempts)
	}
}

func describe(a awsretry.Attempt) string {
	if a.Err != nil {
		return a.Err.Error()
	}
	return a.Response.Status
}

// failsFirst is a service that answers the first attempt of each call with 503, before it reads the body or after, and
// echoes the body of the second.
type failsFirst struct {
	mu       sync.Mutex          // guards attempts, which the handlers write
	attempts map[string][]string // what was received, by call
}

func (s *failsFirst) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := r.Header.Get("X-Call")
	first := len(s.of(call)) == 0
	if first && r.Header.Get("X-Early") != "" {
		s.note(call, "")
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return
	}
	body, err := io.ReadAll(r.Body)
	received := digestOf(body)
	if r.Trailer.Get("X-Sent") == "all" {
		received += sentTrailer
	}
	if err != nil {
		received = err.Error()
	}
	s.note(call, received)
	if first || err != nil {
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Trailer", "X-Sum")
	w.Write(body)
	w.Header().Set("X-Sum", digestOf(body))
}

func (s *failsFirst) note(call, received string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts[call] = append(s.attempts[call], received)
}

func (s *failsFirst) of(call string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempts[call]
}

const sentTrailer = " and the trailer"

func digestOf(b []byte) string { return fmt.Sprintf("%d bytes %x", len(b), sha256.Sum256(b)) }

// A bodyKind is a way to give a request its body.
type bodyKind struct {
	name    string
	content []byte
	open    func(testing.TB) io.Reader
	length  bool // is told where net/http cannot know it
	trailer bool
}

// content is 200 kB of which no two parts are alike.
var content = func() []byte {
	var b strings.Builder
	for i := 0; b.Len() < 200_000; i++ {
		fmt.Fprintf(&b, "line %d\n", i*i)
	}
	return []byte(b.String())
}()

func openStream(testing.TB) io.Reader { return struct{ io.Reader }{bytes.NewReader(content)} }

var bodyKinds = []bodyKind{
	{name: "no body", open: func(testing.TB) io.Reader { return nil }},
	{name: "bytes", content: content, open: func(testing.TB) io.Reader { return bytes.NewReader(content) }},
	{name: "stream", content: content, open: openStream},
	{name: "stream of known length", content: content, open: openStream, length: true},
	{name: "stream with a trailer", content: content, open: openStream, trailer: true},
	{name: "file", content: content, length: true, open: func(t testing.TB) io.Reader {
		path := filepath.Join(t.TempDir(), "body")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}},
}

// finish counts the closing of the body and says of it what net/http cannot know.
func (k bodyKind) finish(req *http.Request, closes *atomic.Int32) {
	if file, ok := req.Body.(*os.File); ok {
		req.Body = &closeCountingFile{file, closes}
	} else {
		req.Body = &closeCounter{req.Body, closes}
	}
	if k.length {
		req.ContentLength = int64(len(k.content))
	}
	if k.trailer {
		req.Trailer = http.Header{"X-Sent": nil}
		body := req.Body
		req.Body = &endWatcher{body, func() { req.Trailer.Set("X-Sent", "all") }}
	}
}

type closeCounter struct {
	io.ReadCloser
	closes *atomic.Int32
}

func (c *closeCounter) Close() error {
	c.closes.Add(1)
	return c.ReadCloser.Close()
}

// A closeCountingFile is still a file to who reads it at offsets.
type closeCountingFile struct {
	*os.File
	closes *atomic.Int32
}

func (c *closeCountingFile) Close() error {
	c.closes.Add(1)
	return c.File.Close()
}

// An endWatcher calls ended before its Read says io.EOF.
type endWatcher struct {
	io.ReadCloser
	ended func()
}

func (e *endWatcher) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	if err == io.EOF {
		e.ended()
	}
	return n, err
}

// goroutinesOf returns the stacks of the goroutines that run a package's code, once there are none or five seconds have passed.
func goroutinesOf(pkg string) string {
	var left []string
	eventually(func() bool {
		var all strings.Builder
		pprof.Lookup("goroutine").WriteTo(&all, 2)
		left = nil
		for stack := range strings.SplitSeq(all.String(), "\n\n") {
			if strings.Contains(stack, pkg) {
				left = append(left, stack)
			}
		}
		return len(left) == 0
	})
	return strings.Join(left, "\n\n")
}

// eventually asks until the answer is yes, five seconds long.
func eventually(ask func() bool) bool {
	deadline := time.NewTimer(5 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ask() {
		select {
		case <-tick.C:
		case <-deadline.C:
			return ask()
		}
	}
	return true
}
