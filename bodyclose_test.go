package awsretry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
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
	{name: "permanent", answers: []answerFunc{says(400)}, sends: 1, stop: awsretry.StopPermanent},
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

// A bodyUse is one of the ways in which Base treats a request body.
type bodyUse struct {
	name   string
	read   int           // bytes, -1: all
	late   time.Duration // how long after its return Base closes the body
	twice  bool          // Base closes it twice, as net/http does at times: not where it has the caller's own
	warm   bool          // another request went before, so that nothing is left to be set up
	change func(*transport)
}

var bodyUses = []bodyUse{
	{name: "read whole", read: -1},
	{name: "read whole by a second request", read: -1, warm: true},
	{name: "read whole and closed twice", read: -1, twice: true},
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
			for _, use := range bodyUses {
				t.Run(way.name+"/"+kind+"/"+use.name, func(t *testing.T) {
					sent := bodyKinds[kind](t, "the request's body")
					synctest.Test(t, func(t *testing.T) { way.test(t, sent, use) })
				})
			}
		}
	}
}

func (way wayOut) test(t *testing.T, sent *sentBody, use bodyUse) {
	var answers []answerFunc
	var given []*tracked // bodies of answers
	sends := 0
	tr := &awsretry.Transport{Backoff: pauseOf(0)}
	if way.change != nil {
		way.change(tr)
	}
	if change := use.change; change != nil {
		change(tr)
	}
	tr.Base = baseFunc(func(req *http.Request) (*http.Response, error) {
		sends++
		if req.Body != nil {
			if n := use.read; n < 0 {
				io.Copy(io.Discard, req.Body)
			} else {
				io.CopyN(io.Discard, req.Body, int64(n))
			}
			if late := use.late; late > 0 {
				time.AfterFunc(late, func() { req.Body.Close() })
			} else {
				req.Body.Close()
			}
			if use.twice && sent.getBody == nil {
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
	if use.warm && way.before == nil && tr.Validate() == nil && !way.panics {
		answers = []answerFunc{says(200)}
		tryRoundTrip(tr, request(t, t.Context(), "GET", nil))
		given, sends = nil, 0
	}
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

// TestBasePanicsWithTheBody: what is certainly the call's own, it closes for Base.
func TestBasePanicsWithTheBody(t *testing.T) {
	for _, kind := range []string{"file", "section", "stream"} {
		sent := bodyKinds[kind](t, "the body")
		tr := &awsretry.Transport{Base: baseFunc(func(*http.Request) (*http.Response, error) { panic("base") })}
		req := request(t, t.Context(), "PUT", nil)
		req.Body = sent.reader
		if _, _, panicked := tryRoundTrip(tr, req); !panicked || sent.closes[0].Load() != 1 {
			t.Errorf("%s: panicked: %v; closed %d times", kind, panicked, sent.closes[0].Load())
		}
	}
}
