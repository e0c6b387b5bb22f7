package laws_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/worlds"
)

// The law of the bytes: what the first attempt sent is what a retry sends, whatever
// made the body and whatever its GetBody returns. The first attempt sends what
// net/http sends.

func TestLawOfBytes(t *testing.T) {
	worlds.Each(t, 1500, lawOfBytes)
	for _, seed := range []uint64{2765, 5378} { // a GetBody that lies, and a response that comes before the body is sent
		worlds.One(t, seed, lawOfBytes)
	}
}

// A sender makes a request as somebody's code above the Transport makes it.
type sender struct {
	name  string
	make  func(t *testing.T, w bytesWorld, url string) *http.Request
	lies  bool // its GetBody does not return what it sends
	sized bool
}

// A bytesWorld is what a sender and a server do.
type bytesWorld struct {
	data  string
	read  func(io.Reader) io.Reader // how the source is read
	lie   string
	fault int // the source fails at this byte; -1: never
}

var errSource = errors.New("the source failed")

// source is the body as a stream.
func (w bytesWorld) source() io.ReadCloser {
	r := w.read(strings.NewReader(w.data))
	if w.fault >= 0 {
		r = io.MultiReader(w.read(strings.NewReader(w.data[:w.fault])), iotest.ErrReader(errSource))
	}
	return io.NopCloser(struct{ io.Reader }{r})
}

// A wrapper is a body that changes or counts the bytes of another.
type wrapper struct {
	io.ReadCloser
	key byte
	n   int
}

func (w *wrapper) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	for i := range p[:n] {
		p[i] ^= w.key
	}
	w.n += n
	return n, err
}

// clone is a request with another body, as RoundTrippers that change a body make it:
// GetBody is still that of the plain one.
func clone(req *http.Request, body io.ReadCloser, length int64) *http.Request {
	out := req.Clone(req.Context())
	out.Body, out.ContentLength = body, length
	return out
}

func (w bytesWorld) plain(t *testing.T, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "PUT", url, strings.NewReader(w.data))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

var senders = []sender{
	{name: "http.NewRequest", sized: true, make: func(t *testing.T, w bytesWorld, url string) *http.Request { return w.plain(t, url) }},
	{name: "stream", make: func(t *testing.T, w bytesWorld, url string) *http.Request {
		return clone(&http.Request{Method: "PUT", URL: w.plain(t, url).URL, Header: http.Header{}}, w.source(), -1).WithContext(t.Context())
	}},
	{name: "gzip in a pipe, with the GetBody of the plain body", lies: true, make: func(t *testing.T, w bytesWorld, url string) *http.Request {
		req := w.plain(t, url)
		body := req.Body
		pr, pw := io.Pipe()
		go func() {
			zip := gzip.NewWriter(pw)
			_, err := io.Copy(zip, body)
			pw.CloseWithError(errors.Join(err, zip.Close()))
		}()
		return clone(req, pr, -1)
	}},
	{name: "a wrapper that counts", sized: true, make: func(t *testing.T, w bytesWorld, url string) *http.Request {
		req := w.plain(t, url)
		return clone(req, &wrapper{ReadCloser: w.source()}, req.ContentLength)
	}},
	{name: "a wrapper that encrypts", sized: true, lies: true, make: func(t *testing.T, w bytesWorld, url string) *http.Request {
		req := w.plain(t, url)
		return clone(req, &wrapper{ReadCloser: w.source(), key: 42}, req.ContentLength)
	}},
	{name: "a GetBody of its own", sized: true, lies: true, make: func(t *testing.T, w bytesWorld, url string) *http.Request {
		req := w.plain(t, url)
		body := w.source()
		out := clone(req, body, req.ContentLength)
		out.GetBody = func() (io.ReadCloser, error) {
			other := w.data
			switch w.lie {
			case "shorter":
				other = other[:len(other)/2]
			case "longer":
				other += "x"
			case "other end":
				other = other[:len(other)-1] + "\x00"
			case "same reader":
				return body, nil
			case "fails":
				return nil, errSource
			case "nothing":
				return nil, nil
			}
			return io.NopCloser(struct{ io.Reader }{w.read(strings.NewReader(other))}), nil
		}
		return out
	}},
	{name: "a reader that GetBody rewinds", sized: true, make: func(t *testing.T, w bytesWorld, url string) *http.Request {
		req := w.plain(t, url)
		text := strings.NewReader(w.data)
		out := clone(req, io.NopCloser(struct{ io.Reader }{text}), req.ContentLength)
		out.GetBody = func() (io.ReadCloser, error) {
			text.Seek(0, io.SeekStart)
			return io.NopCloser(struct{ io.Reader }{text}), nil
		}
		return out
	}},
}

// A received is what the server has received of one attempt.
type received struct {
	body  []byte
	whole bool // the request was complete
}

// settle waits until the server has received what it gets.
func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

func lawOfBytes(t *testing.T, r *rand.Rand) {
	s := worlds.Pick(r, senders...)
	size := worlds.Pick(r, 1, 10, 1000, 16<<10, 64<<10-1, 64<<10, 64<<10+1, 100_000, 300_000)
	if worlds.Chance(r, .05) {
		size = 1<<20 + r.IntN(3) - 1
	}
	w := bytesWorld{
		data: httpfake.Text(size), fault: -1,
		read: worlds.Pick(r, func(r io.Reader) io.Reader { return r }, iotest.HalfReader, iotest.DataErrReader),
		lie:  worlds.Pick(r, "honest", "shorter", "longer", "other end", "same reader", "fails", "nothing"),
	}
	if worlds.Chance(r, .1) {
		w.fault = r.IntN(size)
	}
	var reads []int // how many bytes of each attempt the server reads before it responds
	for range 2 {
		reads = append(reads, worlds.Pick(r, 0, 1, 1000, 70_000, size/2, 1<<30))
	}
	resets, duplex := worlds.Chance(r, .3), worlds.Chance(r, .3) // its last response begins before it reads
	protocol := worlds.Pick(r, "HTTP/1.1", "h2c")

	var mu sync.Mutex
	serve := func(got *[]*received, failing bool) *httpfake.Server {
		return httpfake.Serve(t, protocol, func(rw http.ResponseWriter, req *http.Request) {
			this := new(received)
			mu.Lock() // the handler of an attempt that was given up may still run
			*got = append(*got, this)
			n := len(*got)
			mu.Unlock()
			limit := 1 << 30
			if duplex && (!failing || n > len(reads)) {
				response := http.NewResponseController(rw)
				_ = response.EnableFullDuplex() // HTTP/2 always is
				_ = response.Flush()
				time.Sleep(time.Millisecond) // the call ends meanwhile
			}
			if failing && n <= len(reads) {
				limit = reads[n-1]
			}
			body, err := io.ReadAll(io.LimitReader(req.Body, int64(limit)))
			this.body, this.whole = body, err == nil && len(body) < limit
			switch {
			case err != nil:
				panic(http.ErrAbortHandler)
			case failing && n <= len(reads) && resets:
				panic(http.ErrAbortHandler)
			case failing && n <= len(reads):
				rw.WriteHeader(503)
			}
		})
	}

	// What net/http sends.
	var bare []*received
	alone := serve(&bare, false)
	if resp, err := alone.Base.RoundTrip(s.make(t, w, alone.URL)); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	alone.Base.CloseIdleConnections()
	settle()
	if len(bare) == 0 {
		t.Skip("net/http sent nothing")
	}
	want := bare[0]

	var got []*received
	srv := serve(&got, true)
	tr := &awsretry.Transport{Base: srv.Base, Backoff: delayed(worlds.Pick(r, 0, time.Second))}
	tr.MaxBodyBuffer = worlds.Pick[int64](r, 0, 0, 0, -1, 100, 64<<10, 1<<22)
	if worlds.Chance(r, .2) {
		tr.Policy = awsretry.IdempotentOnly(nil)
	}
	if worlds.Chance(r, .2) {
		tr.Base = httpfake.Base(srv.Base.RoundTrip)
	}
	var last awsretry.Attempt
	tr.Observe = func(a awsretry.Attempt) { last = a }
	resp, err := tr.RoundTrip(s.make(t, w, srv.URL))
	if resp != nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	settle()
	describe := func() string {
		var sizes []string
		for _, a := range got {
			sizes = append(sizes, fmt.Sprintf("%d %v", len(a.body), a.whole))
		}
		return fmt.Sprintf("%s, %s, %d bytes, lie %q, fault at %d, MaxBodyBuffer %d, the server reads %v, resets: %v: %v, %v, stop %q, %v",
			s.name, protocol, size, w.lie, w.fault, tr.MaxBodyBuffer, reads, resets, sizes, err, last.Stop, last.BodyErr)
	}
	if (resp == nil) == (err == nil) {
		t.Fatalf("%v and %v\n%s", resp, err, describe())
	}
	own := s.name == "a GetBody of its own"
	var seen []byte // the most that the server has seen
	all := false    // it has seen the whole body
	for i, a := range got {
		if len(a.body) > len(seen) && bytes.HasPrefix(want.body, a.body) {
			seen = a.body
		}
		switch {
		case a.whole && (own || w.fault >= 0 && s.sized):
			// What nobody has read before GetBody was called, it alone knows.
			if !bytes.HasPrefix(a.body, seen) || all && len(a.body) > len(seen) || w.fault >= 0 && !bytes.HasPrefix(a.body, want.body) {
				t.Errorf("attempt %d sent another body\n%s", i+1, describe())
			}
		case a.whole && !bytes.Equal(a.body, want.body):
			t.Errorf("attempt %d sent another body: %d bytes, want %d\n%s", i+1, len(a.body), len(want.body), describe())
		case a.whole && !want.whole:
			t.Errorf("attempt %d is complete, and net/http's was not\n%s", i+1, describe())
		case !s.lies && w.fault < 0 && !bytes.HasPrefix(want.body, a.body):
			t.Errorf("attempt %d began another body\n%s", i+1, describe())
		}
		all = all || a.whole && bytes.Equal(a.body, want.body)
	}
	// A body that is kept, or whose GetBody is honest, is sent to the end.
	kept := int64(len(want.body)) <= keptOf(tr, s.sized) && keptOf(tr, s.sized) > 0
	if want.whole && (kept || !s.lies || own && w.lie == "honest") && (s.name != "stream" || kept) {
		if resp == nil || resp.StatusCode != 200 {
			t.Errorf("not sent to the end\n%s", describe())
		}
	}
	if last.Stop == awsretry.StopBody && last.BodyErr == nil {
		t.Errorf("it does not say why\n%s", describe())
	}
	tr.CloseIdleConnections()
}

// keptOf returns how much of a body is kept.
func keptOf(tr *awsretry.Transport, sized bool) int64 {
	limit := tr.MaxBodyBuffer
	if limit == 0 {
		limit = 1 << 20
	}
	if sized {
		limit = min(limit, 64<<10)
	}
	return max(limit, 0)
}
