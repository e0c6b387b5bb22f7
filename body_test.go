package awsretry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"github.com/google/go-cmp/cmp"
)

// A sentBody is a request body that counts how often it, and each copy that its GetBody made, is closed.
type sentBody struct {
	reader  io.ReadCloser // nil and http.NoBody too
	getBody func() (io.ReadCloser, error)
	closes  []*atomic.Int32
}

func (b *sentBody) counter() *atomic.Int32 {
	n := new(atomic.Int32)
	b.closes = append(b.closes, n)
	return n
}

type (
	countedFile struct {
		*os.File
		n *atomic.Int32
	}
	countedSection struct {
		*io.SectionReader
		n *atomic.Int32
	}
	countedReader struct {
		io.Reader
		n *atomic.Int32
	}
)

func (f countedFile) Close() error    { f.n.Add(1); return f.File.Close() }
func (s countedSection) Close() error { s.n.Add(1); return nil }
func (r countedReader) Close() error  { r.n.Add(1); return nil }

// bodyKinds are the ways in which a request can have a body.
var bodyKinds = map[string]func(t *testing.T, data string) *sentBody{
	"nil":    func(*testing.T, string) *sentBody { return &sentBody{} },
	"NoBody": func(*testing.T, string) *sentBody { return &sentBody{reader: http.NoBody} },
	"GetBody": func(_ *testing.T, data string) *sentBody {
		b := &sentBody{}
		b.getBody = func() (io.ReadCloser, error) { return countedReader{strings.NewReader(data), b.counter()}, nil }
		b.reader, _ = b.getBody()
		return b
	},
	"file": func(t *testing.T, data string) *sentBody {
		b := &sentBody{}
		b.reader = countedFile{fileAt(t, "skipped "+data, len("skipped ")), b.counter()}
		return b
	},
	"section": func(_ *testing.T, data string) *sentBody {
		b := &sentBody{}
		b.reader = countedSection{io.NewSectionReader(strings.NewReader("<"+data+">"), 1, int64(len(data))), b.counter()}
		return b
	},
	"stream": func(_ *testing.T, data string) *sentBody {
		b := &sentBody{}
		b.reader = countedReader{io.MultiReader(strings.NewReader(data[:3]), strings.NewReader(data[3:])), b.counter()}
		return b
	},
}

// fileAt makes a file and opens it at an offset.
func fileAt(t *testing.T, data string, offset int) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.Seek(int64(offset), io.SeekStart); err != nil {
		t.Fatal(err)
	}
	return f
}

// An answerFunc gives an attempt's answer, with the body that it is handed.
type answerFunc func(*http.Request, io.ReadCloser) (*http.Response, error)

func says(status int, header ...string) answerFunc {
	return func(req *http.Request, body io.ReadCloser) (*http.Response, error) {
		return respond(req, status, body, header...), nil
	}
}

func breaks(err error) answerFunc {
	return func(*http.Request, io.ReadCloser) (*http.Response, error) { return nil, err }
}

func hangs(req *http.Request, _ io.ReadCloser) (*http.Response, error) {
	<-req.Context().Done()
	return nil, context.Cause(req.Context())
}

func panics(*http.Request, io.ReadCloser) (*http.Response, error) { panic("base") }

func endsWithin(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
	return func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		if d == 0 {
			cancel()
		} else {
			time.AfterFunc(d, cancel)
		}
		return ctx, cancel
	}
}

type transport = awsretry.Transport

var errReset = errors.New("connection reset by a test")

func hookPanics(on int) func(*transport) {
	return func(tr *transport) {
		tr.Prepare = func(_ *http.Request, n int) error {
			if n == on {
				panic("prepare")
			}
			return nil
		}
	}
}

func hookFails(on int) func(*transport) {
	return func(tr *transport) {
		tr.Prepare = func(_ *http.Request, n int) error {
			if n == on {
				return errors.New("no key to sign with")
			}
			return nil
		}
	}
}

// wayOut is one of the ways in which RoundTrip ends.
type wayOut struct {
	name    string
	change  func(*transport)
	ctx     func(context.Context) (context.Context, context.CancelFunc)
	header  string       // name=value
	before  []answerFunc // to a request that goes first
	answers []answerFunc
	sends   int
	stop    awsretry.Stop
	panics  bool
}

var waysOut = []wayOut{
	{name: "success", answers: []answerFunc{says(200)}, sends: 1},
	{name: "permanent", answers: []answerFunc{says(400)}, sends: 1},
	{name: "retried", answers: []answerFunc{says(503), says(200)}, sends: 2, stop: awsretry.StopSuccess},
	{name: "exhausted", answers: []answerFunc{says(503), says(429), says(503)}, sends: 3, stop: awsretry.StopMaxAttempts},
	{name: "transport errors", answers: []answerFunc{breaks(errReset), breaks(errReset), breaks(errReset)}, sends: 3, stop: awsretry.StopMaxAttempts},
	{name: "neither answer nor error", answers: []answerFunc{breaks(nil), says(200)}, sends: 2, stop: awsretry.StopSuccess},
	{name: "answer and error", answers: []answerFunc{func(req *http.Request, body io.ReadCloser) (*http.Response, error) {
		return respond(req, 200, body), errReset
	}, says(200)}, sends: 2, stop: awsretry.StopSuccess},
	{name: "canceled before", ctx: endsWithin(0), stop: awsretry.StopCanceled},
	{name: "canceled in the attempt", ctx: endsWithin(10 * time.Millisecond), answers: []answerFunc{hangs}, sends: 1, stop: awsretry.StopCanceled},
	{name: "canceled in the pause", ctx: endsWithin(10 * time.Millisecond), answers: []answerFunc{says(503)}, sends: 1, stop: awsretry.StopCanceled,
		change: func(tr *transport) { tr.Backoff = pauseOf(time.Hour) }},
	{name: "canceled waiting for retry tokens", ctx: endsWithin(10 * time.Millisecond), before: []answerFunc{says(503), says(400)}, answers: []answerFunc{says(503)}, sends: 1,
		stop: awsretry.StopCanceled, change: func(tr *transport) {
			tr.Quota = awsretry.QuotaConfig{Capacity: 10, RetryCost: 10, RefillPerSecond: 1e-3, Wait: true}
		}},
	{name: "canceled waiting for a send token", ctx: endsWithin(10 * time.Millisecond), before: []answerFunc{says(429), says(400)},
		stop: awsretry.StopCanceled, change: func(tr *transport) { tr.Mode = awsretry.Adaptive }},
	{name: "no tokens", answers: []answerFunc{says(503)}, sends: 1, stop: awsretry.StopQuota,
		change: func(tr *transport) { tr.Quota.Capacity = 1 }},
	{name: "no tokens for a first attempt", before: []answerFunc{says(400)}, stop: awsretry.StopQuota,
		change: func(tr *transport) { tr.Quota = awsretry.QuotaConfig{Capacity: 10, InitialCost: 10} }},
	{name: "invalid configuration", change: func(tr *transport) { tr.MaxAttempts = -1 }},
	{name: "Prepare fails", change: hookFails(1), stop: awsretry.StopPermanent},
	{name: "Prepare fails later", change: hookFails(2), answers: []answerFunc{says(503)}, sends: 1, stop: awsretry.StopPermanent},
	{name: "Retry-After", answers: []answerFunc{says(503, "Retry-After", "3600")}, sends: 1, stop: awsretry.StopRetryAfter},
	{name: "deadline", answers: []answerFunc{says(503)}, sends: 1, stop: awsretry.StopDeadline,
		change: func(tr *transport) { tr.Backoff = pauseOf(time.Hour) },
		ctx: func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Minute)
		}},
	{name: "outer loop", header: "Amz-Sdk-Request=attempt=1; max=3", answers: []answerFunc{says(503)}, sends: 1, stop: awsretry.StopOuterRetry},
	{name: "WithoutRetry", answers: []answerFunc{says(503)}, sends: 1, stop: awsretry.StopDisabled,
		ctx: func(ctx context.Context) (context.Context, context.CancelFunc) {
			return awsretry.WithoutRetry(ctx), func() {}
		}},
	{name: "attempt time-out", answers: []answerFunc{hangs, says(200)}, sends: 2, stop: awsretry.StopSuccess,
		change: func(tr *transport) { tr.AttemptTimeout = time.Minute }},
	{name: "FailFast", before: []answerFunc{says(429)}, stop: awsretry.StopRateLimit, change: failFast},
	{name: "FailFast at a retry", answers: []answerFunc{says(429)}, sends: 1, stop: awsretry.StopRateLimit, change: failFast},
	{name: "Base panics", answers: []answerFunc{panics}, sends: 1, panics: true},
	{name: "Base panics later", answers: []answerFunc{says(503), panics}, sends: 2, panics: true},
	{name: "Prepare panics", change: hookPanics(1), panics: true},
	{name: "Prepare panics later", change: hookPanics(2), answers: []answerFunc{says(503)}, sends: 1, panics: true},
	{name: "Partition panics", change: func(tr *transport) { tr.Partition = func(*http.Request) string { panic("partition") } }, panics: true},
	{name: "Policy panics", change: func(tr *transport) { tr.Policy = func(*awsretry.Attempt) awsretry.Class { panic("policy") } },
		answers: []answerFunc{says(503)}, sends: 1, panics: true},
	{name: "Observe panics before the pause", change: func(tr *transport) { tr.Observe = func(awsretry.Attempt) { panic("observe") } },
		answers: []answerFunc{says(503)}, sends: 1, panics: true},
	{name: "Observe panics at the end", change: func(tr *transport) { tr.Observe = func(awsretry.Attempt) { panic("observe") } },
		answers: []answerFunc{says(200)}, sends: 1, panics: true},
	{name: "Backoff panics", change: func(tr *transport) {
		tr.Backoff = awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { panic("backoff") })
	}, answers: []answerFunc{says(503)}, sends: 1, panics: true},
}

func failFast(tr *transport) { tr.Mode, tr.RateLimit.FailFast = awsretry.Adaptive, true }

// bodyUses are the ways in which Base treats a request body.
var bodyUses = []struct {
	name   string
	read   int           // bytes, -1: all
	late   time.Duration // how long after its return Base closes the body
	change func(*transport)
}{
	{name: "read whole", read: -1},
	{name: "unread and closed late", late: 50 * time.Millisecond},
	{name: "read in part and closed late", read: 4, late: 50 * time.Millisecond},
	{name: "read in part under a time-out", read: 4, change: func(tr *transport) {
		if tr.AttemptTimeout == 0 {
			tr.AttemptTimeout = time.Hour
		}
	}},
}

// TestBodiesAreClosed is about every way out, with every kind of body.
func TestBodiesAreClosed(t *testing.T) {
	for _, way := range waysOut {
		for kind := range bodyKinds {
			for i, use := range bodyUses {
				t.Run(way.name+"/"+kind+"/"+use.name, func(t *testing.T) {
					sent := bodyKinds[kind](t, "the request's body")
					synctest.Test(t, func(t *testing.T) { way.test(t, sent, i) })
				})
			}
		}
	}
}

func (way wayOut) test(t *testing.T, sent *sentBody, use int) {
	var answers []answerFunc
	var given []*tracked // bodies of answers
	sends := 0
	tr := &awsretry.Transport{Backoff: pauseOf(0)}
	if way.change != nil {
		way.change(tr)
	}
	if change := bodyUses[use].change; change != nil {
		change(tr)
	}
	tr.Base = baseFunc(func(req *http.Request) (*http.Response, error) {
		sends++
		if req.Body != nil {
			if n := bodyUses[use].read; n < 0 {
				io.Copy(io.Discard, req.Body)
			} else {
				io.CopyN(io.Discard, req.Body, int64(n))
			}
			if late := bodyUses[use].late; late > 0 {
				time.AfterFunc(late, func() { req.Body.Close() })
			} else {
				req.Body.Close()
			}
		}
		next := answers[0]
		answers = answers[1:]
		body := track(strings.NewReader("an answer"))
		resp, err := next(req, body)
		if resp != nil {
			given = append(given, body)
		}
		return resp, err
	})
	if way.before != nil {
		answers = way.before
		resp, err := tr.RoundTrip(request(t, t.Context(), "GET", nil))
		if err != nil {
			t.Fatal("the request before:", err)
		}
		resp.Body.Close()
		given, sends = nil, 0
	}
	answers = way.answers

	ctx := t.Context()
	if way.ctx != nil {
		var cancel context.CancelFunc
		ctx, cancel = way.ctx(ctx)
		defer cancel()
	}
	req := request(t, ctx, "PUT", nil)
	req.Body, req.GetBody = sent.reader, sent.getBody
	if name, value, ok := strings.Cut(way.header, "="); ok {
		req.Header.Set(name, value)
	}
	resp, err, panicked := tryRoundTrip(tr, req)

	switch {
	case panicked != way.panics:
		t.Fatalf("panicked: %v", panicked)
	case panicked:
	case (resp == nil) == (err == nil):
		t.Fatalf("RoundTrip = %v, %v; it must be exactly one of them", resp, err)
	case stopOf(resp, err) != way.stop:
		t.Errorf("stopped by %q, want %q; %v", stopOf(resp, err), way.stop, err)
	}
	if sends != way.sends {
		t.Errorf("%d attempts, want %d", sends, way.sends)
	}
	if resp != nil {
		last := given[len(given)-1]
		given = given[:len(given)-1]
		if last.closes.Load() > 0 {
			t.Error("the last answer is closed")
		}
		if got := whole(t, resp); got != "an answer" || last.closes.Load() != 1 {
			t.Errorf("the last answer is %q, closed %d times by Close", got, last.closes.Load())
		}
	}
	for i, body := range given {
		if body.closes.Load() == 0 {
			t.Errorf("answer %d is open", i+1)
		}
	}
	time.Sleep(time.Second) // Base may close late
	for i, n := range sent.closes {
		if n.Load() != 1 {
			t.Errorf("request body %d was closed %d times", i+1, n.Load())
		}
	}
}

func tryRoundTrip(rt http.RoundTripper, req *http.Request) (resp *http.Response, err error, panicked bool) {
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(error); ok {
				panic(p) // the runtime's: a fault of the code
			}
			panicked = true
		}
	}()
	resp, err = rt.RoundTrip(req)
	return resp, err, false
}

// TestRetriesSendTheSameBytes is about every kind of body, of which the first attempts read some.
func TestRetriesSendTheSameBytes(t *testing.T) {
	data := letters(10_000)
	for kind, make := range bodyKinds {
		if kind == "nil" || kind == "NoBody" {
			continue
		}
		for _, first := range []int{0, 1, 3, 4999, len(data), len(data) + 1} {
			for _, known := range []bool{true, false} {
				sent := make(t, data)
				var got []string
				tr := &awsretry.Transport{Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
					defer req.Body.Close()
					if want := int64(len(data)); known && req.ContentLength != want || !known && req.ContentLength > 0 {
						t.Errorf("%s: ContentLength %d at attempt %d", kind, req.ContentLength, len(got)+1)
					}
					if len(got) < 2 {
						b, _ := io.ReadAll(io.LimitReader(req.Body, int64(first>>len(got))))
						got = append(got, string(b))
						return respond(req, 503, http.NoBody), nil
					}
					b, err := io.ReadAll(req.Body)
					if err != nil {
						return nil, err
					}
					got = append(got, string(b))
					return respond(req, 200, http.NoBody), nil
				})}
				req := request(t, t.Context(), "POST", nil)
				req.Body, req.GetBody = sent.reader, sent.getBody
				if known {
					req.ContentLength = int64(len(data))
				}
				if _, err := tr.RoundTrip(req); err != nil {
					t.Fatal(err)
				}
				n := min(first, len(data))
				if want := []string{data[:n], data[:first/2], data}; !slices.Equal(got, want) {
					t.Errorf("%s, %d bytes first: %s", kind, first, cmp.Diff(want, got))
				}
			}
		}
	}
}

func TestMaxBodyBuffer(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		max        int64
		size, read int
		known      bool
		sends      int
	}{
		{0, mib, mib + 1, false, 2},
		{0, mib, mib + 1, true, 2},
		{0, mib + 1, mib + 2, false, 1},
		{0, mib + 1, mib + 2, true, 1},
		{0, 5 * mib, mib, false, 2}, // what was read fits
		{0, 5 * mib, mib, true, 1},  // the rest would not
		{0, 5 * mib, 0, true, 2},
		{100, 99, 100, false, 2},
		{100, 100, 101, false, 2},
		{100, 101, 102, false, 1},
		{100, 101, 100, false, 2},
		{-1, 1, 2, false, 1},
		{-1, 1, 0, false, 2},
		{-1, 0, 1, false, 2},
		{3 * mib, 3 * mib, 3*mib + 1, false, 2},
	} {
		for _, mode := range []awsretry.Mode{awsretry.Standard, awsretry.Legacy} {
			data := letters(c.size)
			sends := 0
			answer := track(strings.NewReader(data))
			tr := &awsretry.Transport{Mode: mode, MaxBodyBuffer: c.max, Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
				defer req.Body.Close()
				sends++
				if sends == 1 {
					if got, err := io.ReadAll(io.LimitReader(req.Body, int64(c.read))); err != nil || string(got) != data[:min(c.read, c.size)] {
						t.Errorf("%+v: first attempt: %d bytes, %v", c, len(got), err)
					}
					return respond(req, 503, answer), nil
				}
				if got, err := io.ReadAll(req.Body); err != nil || string(got) != data {
					t.Errorf("%+v: retry: %d bytes, %v", c, len(got), err)
				}
				return respond(req, 200, http.NoBody), nil
			})}
			source := track(io.MultiReader(strings.NewReader(data)))
			req := request(t, t.Context(), "POST", source)
			if c.known {
				req.ContentLength = int64(c.size)
			}
			resp, err := tr.RoundTrip(req)
			if err != nil || sends != c.sends {
				t.Errorf("%+v: %d attempts; %v", c, sends, err)
				continue
			}
			if sends == 1 {
				if stop := stopOf(resp, nil); stop != awsretry.StopBody {
					t.Errorf("%+v: stopped by %q", c, stop)
				}
				if answer.closes.Load() > 0 || whole(t, resp) != data {
					t.Errorf("%+v: the answer is not whole", c)
				}
			}
			if source.closes.Load() != 1 {
				t.Errorf("%+v: closed %d times", c, source.closes.Load())
			}
		}
	}
}

// TestRetryWaitsForBaseToClose is about a Base that still reads the body when its answer is there.
func TestRetryWaitsForBaseToClose(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			data := letters(40)
			rest := strings.NewReader(data)
			source := track(readFunc(func(p []byte) (int, error) {
				time.Sleep(time.Second)
				return rest.Read(p[:min(len(p), 7)])
			}))
			start := time.Now()
			var got string
			var retried time.Duration
			tr := &awsretry.Transport{Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
				if got == "" {
					io.ReadFull(req.Body, make([]byte, 3))
					go func() {
						io.Copy(io.Discard, req.Body) // ends with the Read that is under way
						if n, err := req.Body.Read(make([]byte, 1)); n > 0 || err == nil {
							t.Error("the first attempt could read on")
						}
						time.Sleep(4 * time.Second)
						req.Body.Close()
					}()
					time.Sleep(time.Second / 2)
					got = "-"
					return respond(req, 503, http.NoBody), nil
				}
				retried = time.Since(start)
				var err error
				got, err = useUp(req)
				return respond(req, 200, http.NoBody), err
			})}
			cause := errors.New("enough")
			ctx, cancel := context.WithCancelCause(t.Context())
			if cancelled {
				time.AfterFunc(3*time.Second, func() { cancel(cause) })
			}
			resp, err := tr.RoundTrip(request(t, ctx, "POST", source))
			cancel(nil)
			switch {
			case !cancelled && (err != nil || resp.StatusCode != 200 || got != data || retried != 6*time.Second):
				t.Errorf("RoundTrip = %v, %v; the retry came after %v with %q", resp, err, retried, got)
			case cancelled && (!errors.Is(err, cause) || time.Since(start) != 3*time.Second || !strings.Contains(err.Error(), "503")):
				t.Errorf("error %v after %v", err, time.Since(start))
			case cancelled && (source.closes.Load() != 0 || tokensOf(t, tr) != 500):
				t.Errorf("closed %d times while Base has it; %d tokens", source.closes.Load(), tokensOf(t, tr))
			}
			time.Sleep(time.Minute)
			if source.overlaps.Load() > 0 || source.readsClosed.Load() > 0 || source.closes.Load() != 1 {
				t.Errorf("%d overlapping reads, %d after Close, %d times closed", source.overlaps.Load(), source.readsClosed.Load(), source.closes.Load())
			}
		})
	}
}

func TestFileIsReadInPlace(t *testing.T) {
	data := letters(3 << 20)
	for _, wrap := range []func(*os.File) io.Reader{
		func(f *os.File) io.Reader { return f },
		func(f *os.File) io.Reader { return io.NopCloser(f) },
	} {
		file := fileAt(t, data, 1000)
		sends := 0
		tr := &awsretry.Transport{Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
			sends++
			if at, err := file.Seek(0, io.SeekCurrent); err != nil || at != 1000 {
				t.Errorf("attempt %d: the file is at %d, %v", sends, at, err)
			}
			again, err := req.GetBody()
			if err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(again); err != nil || string(b) != data[1000:] {
				t.Errorf("GetBody: %d bytes, %v", len(b), err)
			}
			again.Close()
			if got, err := useUp(req); err != nil || got != data[1000:] {
				t.Errorf("attempt %d: %d bytes, %v", sends, len(got), err)
			}
			return respond(req, 500, http.NoBody), nil
		})}
		body := wrap(file)
		if resp, err := tr.RoundTrip(request(t, t.Context(), "PUT", body)); err != nil || resp.StatusCode != 500 || sends != 3 {
			t.Errorf("%v, %v, %d attempts", resp, err, sends)
		}
		if _, nop := body.(*os.File); nop && !errors.Is(file.Close(), os.ErrClosed) {
			t.Error("the file is open")
		}
	}
}

// TestUnsizedFilesAreRecorded is about files whose size says nothing of what can be read.
func TestUnsizedFilesAreRecorded(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() { io.WriteString(w, "from a pipe"); w.Close() }()
	var got []string
	tr := &awsretry.Transport{Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
		b, err := useUp(req)
		got = append(got, b)
		return respond(req, 503, http.NoBody), err
	})}
	if _, err := tr.RoundTrip(request(t, t.Context(), "PUT", r)); err != nil || !slices.Equal(got, []string{"from a pipe", "from a pipe", "from a pipe"}) {
		t.Errorf("sent %q; %v", got, err)
	}
	if !errors.Is(r.Close(), os.ErrClosed) {
		t.Error("the pipe is open")
	}
}

// TestFailingReader: the reader's own failure is terminal where it is known to be that, and else an error like any other.
func TestFailingReader(t *testing.T) {
	broken := errors.New("disk broken")
	reader := func() io.Reader {
		return io.MultiReader(strings.NewReader("half"), readFunc(func([]byte) (int, error) { return 0, broken }))
	}
	for _, recorded := range []bool{true, false} {
		sends := 0
		tr := &awsretry.Transport{Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
			sends++
			got, err := useUp(req)
			if got != "half" {
				t.Errorf("attempt %d sent %q", sends, got)
			}
			return nil, err
		})}
		req := request(t, t.Context(), "PUT", reader())
		want, stop := 1, awsretry.StopPermanent
		if !recorded {
			req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(reader()), nil }
			want, stop = 3, awsretry.StopMaxAttempts
		}
		_, err := tr.RoundTrip(req)
		if sends != want || !errors.Is(err, broken) || stopOf(nil, err) != stop {
			t.Errorf("recorded %v: %d attempts, %v", recorded, sends, err)
		}
	}
}

func TestFailingGetBody(t *testing.T) {
	for name, getBody := range map[string]func() (io.ReadCloser, error){
		"error": func() (io.ReadCloser, error) { return nil, errors.New("gone") },
		"nil":   func() (io.ReadCloser, error) { return nil, nil },
	} {
		source := track(strings.NewReader("x"))
		req := request(t, t.Context(), "PUT", source)
		req.GetBody = getBody
		answer := track(strings.NewReader("busy"))
		tr := &awsretry.Transport{Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
			useUp(req)
			return respond(req, 503, answer), nil
		})}
		resp, err := tr.RoundTrip(req)
		if err != nil || stopOf(resp, nil) != awsretry.StopBody || whole(t, resp) != "busy" || source.closes.Load() != 1 || tokensOf(t, tr) != 500 {
			t.Errorf("%s: %v, %v; closed %d times, %d tokens", name, resp, err, source.closes.Load(), tokensOf(t, tr))
		}
	}
}

// TestCallersRequestIsNotChanged compares all of a request with a copy.
func TestCallersRequestIsNotChanged(t *testing.T) {
	for kind, make := range bodyKinds {
		sent := make(t, "the body")
		req := request(t, t.Context(), "PUT", nil)
		req.Body, req.GetBody = sent.reader, sent.getBody
		req.Header = http.Header{"X-Own": {"1", "2"}, "Amz-Sdk-Request": {"attempt=1; max=1"}}
		req.Trailer = http.Header{"X-Sum": nil}
		req.TransferEncoding = []string{"chunked"}
		req.Cancel = make_chan()
		before, deep := *req, req.Clone(t.Context())
		tr := &awsretry.Transport{SDKHeaders: true, AttemptTimeout: time.Hour, Backoff: pauseOf(0),
			Prepare: func(out *http.Request, n int) error {
				out.Header.Set("X-Own", "changed")
				out.Header.Set("Date", "now")
				out.URL.Host, out.URL.RawQuery, out.Host, out.Method = "elsewhere", "", "elsewhere", "GET"
				return nil
			},
			Base: baseFunc(func(out *http.Request) (*http.Response, error) {
				if out == req || out.URL == req.URL {
					t.Errorf("%s: Base gets what is the caller's", kind)
				}
				if out.Header.Get("X-Own") != "changed" || out.Cancel != req.Cancel || out.Trailer == nil {
					t.Errorf("%s: Base gets %+v", kind, out)
				}
				useUp(out)
				return respond(out, 503, http.NoBody), nil
			})}
		if _, err := tr.RoundTrip(req); err != nil {
			t.Fatal(err)
		}
		shallow := reflect.ValueOf(before)
		for i := range shallow.NumField() {
			was, is := shallow.Field(i), reflect.ValueOf(req).Elem().Field(i)
			switch was.Kind() {
			case reflect.Func, reflect.Map, reflect.Pointer, reflect.Chan:
				if was.Pointer() != is.Pointer() {
					t.Errorf("%s: %s is another one", kind, shallow.Type().Field(i).Name)
				}
			}
		}
		if req.Body != before.Body || req.Method != deep.Method || req.Host != deep.Host || req.ContentLength != deep.ContentLength ||
			req.Context() != before.Context() {
			t.Errorf("%s: the request is changed: %+v", kind, req)
		}
		if d := cmp.Diff([]any{deep.URL, deep.Header, deep.Trailer, deep.TransferEncoding}, []any{req.URL, req.Header, req.Trailer, req.TransferEncoding}); d != "" {
			t.Errorf("%s: the request is changed: %s", kind, d)
		}
	}
}

func make_chan() chan struct{} { return make(chan struct{}) }
