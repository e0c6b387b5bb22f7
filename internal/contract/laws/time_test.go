package laws_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/worlds"
)

// The law of the time: for any server, what RoundTrip returns is what net/http
// returns for the same response, and at most a second later, not counting the
// delays and the earlier attempts.

func TestLawOfTime(t *testing.T) {
	worlds.Each(t, 2000, lawOfTime)
}

// A scripted is what a server sends for one attempt.
type scripted struct {
	status  int
	header  [][2]string
	parts   []string // of the body, as they are sent
	pauses  []time.Duration
	length  bool // Content-Length is announced
	trailer bool
	end     ending
}

type ending string

const (
	whole  ending = "whole"
	breaks ending = "broken" // the connection or the stream is reset
	stalls ending = "stalls" // until the client is gone
)

const lawMargin = 10 * time.Millisecond // for what virtual time a call itself may take

func drawScripted(r *rand.Rand) *scripted {
	s := &scripted{
		status:  worlds.Pick(r, 200, 206, 301, 400, 403, 404, 413, 429, 500, 501, 503, 503, 529),
		length:  worlds.Chance(r, .3),
		trailer: worlds.Chance(r, .2),
		end:     worlds.Pick(r, whole, whole, breaks, stalls, stalls),
	}
	set := func(key, value string) { s.header = append(s.header, [2]string{key, value}) }
	set("Content-Type", worlds.Pick(r, "application/json", "text/xml", "text/plain", "application/octet-stream", "text/event-stream"))
	if worlds.Chance(r, .2) {
		set("Retry-After", worlds.Pick(r, "0", "1", "3600"))
	}
	for range r.IntN(4) {
		s.parts = append(s.parts, worlds.Pick(r, `{"__type":"`, `ThrottlingException"}`, `<Error><Code>SlowDown</Code></Error>`,
			httpfake.Text(1+r.IntN(2000)), httpfake.Text(100_000)))
		s.pauses = append(s.pauses, worlds.Pick(r, 0, 0, 400*time.Millisecond, 3*time.Second))
	}
	if s.trailer {
		s.length = false
		set("Trailer", "X-Sum")
	}
	if len(s.parts) > 0 && worlds.Chance(r, .3) {
		set("Content-Encoding", "gzip")
		s.parts = httpfake.Compressed("gzip", s.parts...)
		if worlds.Chance(r, .3) { // byte by byte
			text := strings.Join(s.parts, "")
			text = text[:min(len(text), 40)]
			s.parts, s.pauses, s.end = strings.Split(text, ""), nil, stalls
			for range s.parts {
				s.pauses = append(s.pauses, 400*time.Millisecond)
			}
		}
	}
	if s.status == 301 {
		set("Location", "/other")
	}
	return s
}

func (s *scripted) String() string {
	var sizes []int
	for _, part := range s.parts {
		sizes = append(sizes, len(part))
	}
	return fmt.Sprintf("%d %v, parts %v after %v, announced: %v, trailer: %v, %s",
		s.status, s.header, sizes, s.pauses, s.length, s.trailer, s.end)
}

// slowGzip reports whether the beginning of a compressed body is late.
func (s *scripted) slowGzip() bool {
	zipped := slices.Contains(s.header, [2]string{"Content-Encoding", "gzip"})
	return zipped && (s.pauses[0] > time.Second || len(s.parts[0]) < 10)
}

// serve sends the response.
func (s *scripted) serve(w http.ResponseWriter, r *http.Request) {
	for _, field := range s.header {
		w.Header().Set(field[0], field[1])
	}
	if s.length {
		length := len(strings.Join(s.parts, ""))
		if s.end != whole {
			length++
		}
		w.Header().Set("Content-Length", fmt.Sprint(length))
	}
	w.WriteHeader(s.status)
	if s.end != whole || len(s.parts) > 0 {
		w.(http.Flusher).Flush()
	}
	for i, part := range s.parts {
		if s.pauses[i] > 0 {
			select {
			case <-time.After(s.pauses[i]):
			case <-r.Context().Done():
				panic(http.ErrAbortHandler)
			}
		}
		io.WriteString(w, part)
		w.(http.Flusher).Flush()
	}
	switch s.end {
	case breaks:
		panic(http.ErrAbortHandler)
	case stalls:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	if s.trailer {
		w.Header().Set("X-Sum", "42")
	}
}

// A reading is how a caller reads a response: so many bytes, and then it closes
// the body, after a pause.
type readPlan struct {
	bytes int
	pause time.Duration
}

// A seenBody is what a caller sees of a response.
type seenBody struct {
	status  int
	header  string
	body    string
	end     string // "EOF", "error", or "closed" by the caller
	trailer string
}

// see reads a response as planned. It closes the body when a Read hangs.
func see(resp *http.Response, plan readPlan, close func()) seenBody {
	s := seenBody{status: resp.StatusCode, end: "closed"}
	h := resp.Header.Clone()
	h.Del("Date")
	for _, key := range slices.Sorted(maps.Keys(h)) {
		s.header += key + "=" + strings.Join(h[key], ",") + "\n"
	}
	time.Sleep(plan.pause)
	var closing atomic.Bool
	timer := time.AfterFunc(time.Minute, func() { closing.Store(true); close() })
	var got []byte
	buf := make([]byte, 4<<10)
	for len(got) < plan.bytes {
		n, err := resp.Body.Read(buf[:min(len(buf), plan.bytes-len(got))])
		if closing.Load() {
			s.end = "closed"
			break
		}
		got = append(got, buf[:n]...)
		if err == nil {
			continue
		}
		if s.end = "error"; err == io.EOF {
			s.end = "EOF"
			s.trailer = resp.Trailer.Get("X-Sum")
		}
		break
	}
	timer.Stop()
	close()
	s.body = string(got)
	return s
}

func lawOfTime(t *testing.T, r *rand.Rand) {
	protocol := worlds.Pick(r, "HTTP/1.1", "h2c")
	var scripts []*scripted
	for range 3 {
		scripts = append(scripts, drawScripted(r))
	}
	var sent []time.Time // when the headers of a response were sent
	var mu sync.Mutex    // guards sent
	var open atomic.Int64
	handler := func(w http.ResponseWriter, req *http.Request) {
		open.Add(1)
		defer open.Add(-1)
		io.Copy(io.Discard, req.Body)
		mu.Lock()
		sent = append(sent, time.Now())
		script := scripts[min(len(sent), len(scripts))-1]
		mu.Unlock()
		script.serve(w, req)
	}
	srv := httpfake.Serve(t, protocol, handler)
	method := worlds.Pick(r, "GET", "GET", "POST", "PUT")
	encoding := worlds.Chance(r, .3)
	newRequest := func(ctx context.Context, srv *httpfake.Server) *http.Request {
		var body io.Reader
		if method != "GET" {
			body = struct{ io.Reader }{strings.NewReader("a one-shot body")}
		}
		req := srv.Request(t, method, body).WithContext(ctx)
		if encoding {
			req.Header.Set("Accept-Encoding", "gzip")
		}
		return req
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer time.AfterFunc(10*time.Hour, cancel).Stop() // a RoundTrip that never returns is a finding, not a deadlock
	if worlds.Chance(r, .2) {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, time.Hour)
		defer end()
	}
	tr := &awsretry.Transport{
		Base:        srv.Base,
		MaxAttempts: 1 + r.IntN(3),
		Mode:        worlds.Pick(r, awsretry.Standard, awsretry.Standard, awsretry.Adaptive, awsretry.Legacy),
		Backoff:     delayed(worlds.Pick(r, 0, time.Second)),
		Resume:      worlds.Chance(r, .2),
	}
	switch r.IntN(4) {
	case 0:
		tr.Base = httpfake.Base(srv.Base.RoundTrip)
	case 1:
		tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) { // as a layer that counts
			resp, err := srv.Base.RoundTrip(req)
			if resp != nil {
				resp.Body = struct{ io.ReadCloser }{resp.Body}
			}
			return resp, err
		})
	}
	if worlds.Chance(r, .2) {
		tr.Quota.Capacity = -1 + r.IntN(3)
	}
	if worlds.Chance(r, .2) {
		tr.AttemptTimeout = worlds.Pick(r, 500*time.Millisecond, 5*time.Second, time.Hour)
	}
	if worlds.Chance(r, .2) {
		tr.Policy = awsretry.IdempotentOnly(nil)
	}
	if worlds.Chance(r, .2) {
		tr.MaxBodyBuffer = -1
	}
	if worlds.Chance(r, .2) {
		tr.Prepare = func(req *http.Request, _ int) error { req.Header.Set("X-Signed", "yes"); return nil }
	}
	if worlds.Chance(r, .1) {
		tr.RetryAfter = func(*http.Response, []byte) (time.Duration, bool) { return 0, false }
	}
	plan := readPlan{bytes: worlds.Pick(r, 0, 10, 1<<30), pause: worlds.Pick(r, 0, 0, 5*time.Second)}

	for _, s := range scripts {
		if !encoding && s.slowGzip() {
			// Known limit: until the gzip header has come, Close of the body waits for the
			// Read of net/http's decompressor, which no clock of a bubble sees.
			s.status, plan.bytes = 404, 1<<30
		}
	}

	resp, err := tr.RoundTrip(newRequest(ctx, srv))
	synctest.Wait() // no time passes, and the server does nothing meanwhile
	took := time.Since(sent[len(sent)-1])
	last := scripts[min(len(sent), len(scripts))-1]
	describe := func() string {
		return fmt.Sprintf("%s %s over %T, attempt %d of %d, AttemptTimeout %v, Mode %s, Resume %v: %v; %+v",
			protocol, method, tr.Base, len(sent), tr.MaxAttempts, tr.AttemptTimeout, tr.Mode, tr.Resume, last, plan)
	}
	if err != nil {
		t.Fatalf("%v, although the server sent a response\n%s", err, describe())
	}
	if took > time.Second+lawMargin {
		t.Errorf("returned %v after the headers\n%s", took, describe())
	}
	got := see(resp, plan, func() {
		resp.Body.Close()
		if _, ok := ctx.Deadline(); ok {
			cancel() // as http.Client does with its Timeout
		}
	})
	if last.end != whole || plan.bytes < 1<<30 {
		time.Sleep(300 * time.Millisecond)
		if n := open.Load(); n > 0 {
			t.Errorf("%d exchanges continue after Close\n%s", n, describe())
		}
	}
	tr.CloseIdleConnections()

	// The same response over net/http alone.
	alone := httpfake.Serve(t, protocol, func(w http.ResponseWriter, req *http.Request) {
		io.Copy(io.Discard, req.Body)
		last.serve(w, req)
	})
	bare, err := alone.Base.RoundTrip(newRequest(t.Context(), alone))
	if err != nil {
		t.Fatalf("net/http alone: %v\n%s", err, describe())
	}
	plan.pause += took // AttemptTimeout aside, what arrives does not depend on it
	want := see(bare, plan, func() { bare.Body.Close() })
	if timed := tr.AttemptTimeout > 0 && got.end == "error"; timed &&
		(strings.HasPrefix(want.body, got.body) || want.end == "closed" && strings.HasPrefix(got.body, want.body)) {
		want.body, want.end, want.trailer = got.body, got.end, got.trailer // the timeout ended it
	}
	if got != want {
		t.Errorf("got  %.300q\nwant %.300q\n%s", fmt.Sprint(got), fmt.Sprint(want), describe())
	}
}
