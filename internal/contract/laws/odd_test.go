package laws_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/worlds"
	"example.com/awsretry/services"
)

// The law of the odd: whatever the options and the request, nothing panics,
// RoundTrip returns either a response or an error, it closes the request's body
// once, and nothing is left. What net/http refuses without sending it, a Transport
// refuses with the same error.

func TestLawOfTheOdd(t *testing.T) {
	worlds.Each(t, 1500, lawOfTheOdd)
}

func TestOddSeeds(t *testing.T) {
	for _, seed := range []uint64{
		733515565, 3082321360, // an invalid trailer beside a body that is closed
	} {
		worlds.One(t, seed, lawOfTheOdd)
	}
}

// An oddRequest is a request that a program may make by mistake.
type oddRequest struct {
	kinds []string
	body  *httpfake.Body   // what must be closed; nil if there is none
	more  []*httpfake.Body // of GetBody
	early int              // how often the program has closed the body before
	end   func()           // ends the context
}

// An oddity changes a request.
type oddity struct {
	name  string
	apply func(r *rand.Rand, req *http.Request)
}

var oddities = []oddity{
	{"no URL", func(_ *rand.Rand, req *http.Request) { req.URL = nil }},
	{"empty URL", func(_ *rand.Rand, req *http.Request) { req.URL = new(url.URL) }},
	{"scheme", func(r *rand.Rand, req *http.Request) {
		req.URL = &url.URL{Scheme: worlds.Pick(r, "", "ftp", "file", "HTTP", "a b"), Host: req.URL.Host, Path: "/"}
	}},
	{"host", func(r *rand.Rand, req *http.Request) {
		req.URL = &url.URL{Scheme: "http", Host: worlds.Pick(r, "", ":", "h:x", "h h", "ü.example", "[::1", "h\r\nX: y"), Path: "/"}
	}},
	{"path", func(r *rand.Rand, req *http.Request) {
		req.URL = &url.URL{Scheme: "http", Host: req.URL.Host, Path: worlds.Pick(r, "", "no-slash", "/\n", "//x"),
			Opaque: worlds.Pick(r, "", "", "opaque", "//other/path"), RawQuery: worlds.Pick(r, "", "%zz", "a=b;c", "Action=ReceiveMessage")}
	}},
	{"user", func(_ *rand.Rand, req *http.Request) { req.URL.User = url.UserPassword("a", "b:c") }},
	{"no header", func(_ *rand.Rand, req *http.Request) { req.Header = nil }},
	{"method", func(r *rand.Rand, req *http.Request) {
		req.Method = worlds.Pick(r, "", "GET /", "PÖST", "get", "HEAD", "OPTIONS", "TRACE", "M-SEARCH", " ", "PRI")
	}},
	{"header", func(r *rand.Rand, req *http.Request) {
		req.Header[worlds.Pick(r, "X-Odd", "x odd", "", "Host", "Content-Length", "Transfer-Encoding", "Connection", "Range",
			"Authorization", "Idempotency-Key", "Amz-Sdk-Request", "Accept-Encoding")] = worlds.Pick(r,
			nil, []string{}, []string{""}, []string{"a\nb"}, []string{"\x00"}, []string{"1", "2"}, []string{"close"}, []string{"ü"})
	}},
	{"length", func(r *rand.Rand, req *http.Request) {
		req.ContentLength = worlds.Pick[int64](r, -5, -1, 0, 1, 9, 11, 1<<40)
	}},
	{"transfer encoding", func(r *rand.Rand, req *http.Request) {
		req.TransferEncoding = worlds.Pick(r, []string{"chunked"}, []string{"identity"}, []string{"gzip", "chunked"}, []string{})
	}},
	{"trailer", func(r *rand.Rand, req *http.Request) {
		req.Trailer = http.Header{worlds.Pick(r, "X-Sum", "Content-Length", "x y", ""): worlds.Pick(r, nil, []string{"1"}, []string{"\n"})}
	}},
	{"Host", func(r *rand.Rand, req *http.Request) {
		req.Host = worlds.Pick(r, "other.example", "", "a b", "a/b", "ü", "a\r\nX: y")
	}},
	{"Close", func(_ *rand.Rand, req *http.Request) { req.Close = true }},
	{"RequestURI", func(_ *rand.Rand, req *http.Request) { req.RequestURI, req.Proto, req.ProtoMajor = "/x", "HTTP/9", 9 }},
	{"redirect", func(r *rand.Rand, req *http.Request) {
		req.Response = worlds.Pick(r, &http.Response{}, &http.Response{Request: &http.Request{}})
	}},
	{"Cancel", func(_ *rand.Rand, req *http.Request) {
		closed := make(chan struct{})
		close(closed)
		req.Cancel = closed
	}},
}

// addBody gives the request a body.
func (o *oddRequest) addBody(r *rand.Rand, req *http.Request) {
	const text = "0123456789"
	kind := worlds.Pick(r, "none", "NoBody", "GetBody alone", "in memory", "stream", "stream", "with GetBody", "closed", "fails", "empty")
	o.kinds = append(o.kinds, "body: "+kind)
	counted := func(r io.Reader) {
		o.body = httpfake.NewBody(r)
		req.Body = o.body
	}
	another := func() (io.ReadCloser, error) {
		b := httpfake.NewBody(strings.NewReader(text))
		o.more = append(o.more, b)
		return b, nil
	}
	switch kind {
	case "NoBody":
		req.Body = http.NoBody
	case "GetBody alone":
		req.GetBody = another
	case "in memory":
		made, _ := http.NewRequest("PUT", "/", strings.NewReader(text)) // of a valid method and URL
		req.Body, req.GetBody, req.ContentLength = made.Body, made.GetBody, made.ContentLength
	case "stream":
		counted(strings.NewReader(text))
		req.ContentLength = worlds.Pick[int64](r, 0, -1, 10)
	case "with GetBody":
		counted(strings.NewReader(text))
		req.GetBody, req.ContentLength = another, worlds.Pick[int64](r, 0, -1, 10)
	case "closed":
		counted(strings.NewReader(text))
		o.early = 1
		o.body.Close()
	case "fails":
		counted(io.MultiReader(strings.NewReader(text[:r.IntN(10)]), httpfake.ReadFunc(func([]byte) (int, error) { return 0, errSource })))
	case "empty":
		counted(strings.NewReader(""))
	}
}

// newOddRequest makes a request to a server. It is the same for the same seed.
func newOddRequest(t *testing.T, seed uint64, srv *httpfake.Server, options func(context.Context) context.Context) (*http.Request, *oddRequest) {
	r := rand.New(rand.NewPCG(seed, 1))
	o := new(oddRequest)
	ctx, cancel := context.WithCancel(options(t.Context()))
	hangs := time.AfterFunc(10*time.Hour, cancel) // net/http itself hangs with some requests
	o.end = func() { hangs.Stop(); cancel() }
	switch r.IntN(10) {
	case 0:
		o.kinds = append(o.kinds, "canceled")
		cancel()
	case 1:
		o.kinds = append(o.kinds, "deadline")
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, worlds.Pick(r, -time.Second, 0, time.Minute))
		o.end = func() { hangs.Stop(); end(); cancel() }
	}
	req := srv.Request(t, worlds.Pick(r, "GET", "GET", "POST", "PUT", "DELETE", "PATCH"), nil).WithContext(ctx)
	o.addBody(r, req)
	for range r.IntN(4) {
		odd := worlds.Pick(r, oddities...)
		if slices.Contains(o.kinds, odd.name) {
			continue // of two invalid headers, net/http names either one
		}
		if (req.URL == nil || req.Header == nil) && !slices.Contains([]string{"no header", "no URL", "length", "trailer"}, odd.name) {
			continue
		}
		if odd.name == "host" && srv.Base.Protocols != nil {
			continue // net/http alone dials for ever for some of them over HTTP/2 without TLS
		}
		o.kinds = append(o.kinds, odd.name)
		odd.apply(r, req)
	}
	return req, o
}

// drawOptions sets fields of a Transport.
func drawOptions(r *rand.Rand, tr *awsretry.Transport) {
	some := func() bool { return worlds.Chance(r, .15) }
	tr.Mode = worlds.Pick(r, "", awsretry.Standard, awsretry.Adaptive, awsretry.Adaptive, awsretry.Legacy)
	tr.Revision = worlds.Pick(r, awsretry.DefaultRevision, awsretry.Classic, awsretry.Revision2026)
	tr.MaxAttempts = r.IntN(4)
	tr.Backoff = worlds.Pick[awsretry.Backoff](r, nil, delayed(0), awsretry.Exponential{}, awsretry.Decorrelated{})
	if some() {
		tr.AttemptTimeout = worlds.Pick(r, time.Nanosecond, time.Second, time.Hour)
	}
	if some() {
		tr.StallTimeout = time.Minute
	}
	if some() {
		tr.Policy = awsretry.IdempotentOnly(worlds.Pick(r, nil, awsretry.Policy(awsretry.DefaultPolicy)))
	}
	if some() {
		tr.Partition = func(req *http.Request) string { return req.URL.Host + req.Header.Get("X-Odd") }
	}
	if some() {
		tr.Quota = awsretry.QuotaConfig{Capacity: worlds.Pick(r, -1, 100), Wait: some(), RefillPerSecond: 1}
		if tr.Quota.Capacity > 0 {
			tr.Quota.InitialCost = r.IntN(3)
		}
	}
	if some() {
		tr.MaxBodyBuffer = worlds.Pick[int64](r, -1, 5, 1<<20)
	}
	if some() {
		tr.Prepare = func(req *http.Request, _ int) error { req.Header.Set("X-Signed", "yes"); return nil }
	}
	if some() {
		tr.SDKHeaders = true
	}
	if some() {
		tr.IdempotencyKey = awsretry.RandomKey
	}
	if some() {
		tr.LongPoll = func(*http.Request) bool { return true }
	}
	if some() {
		tr.Peek = func(_ *http.Response, body []byte) bool { return len(body) < 10 }
	}
	if some() {
		tr.RetryAfter = func(*http.Response, []byte) (time.Duration, bool) { return time.Second, true }
	}
	if some() {
		tr.Observe = func(awsretry.Attempt) {}
	}
	if some() {
		tr.MaxPartitions = 1
	}
	tr.NestedRetries, tr.ShareRetryAfter, tr.KeepConnections, tr.Resume = some(), some(), some(), some()
	switch {
	case tr.Mode != awsretry.Adaptive || some():
	case some():
		service := worlds.Pick(r, services.GitHub, services.OpenAI, services.Okta, services.Slack, services.Stripe)
		service.Apply(tr)
	default:
		tr.RateLimit = awsretry.RateLimitConfig{
			Pacing: worlds.Pick(r, awsretry.CubicPacing, awsretry.ScaledPacing), FailFast: some(),
			Limits: awsretry.ReadLimits, Reserve: worlds.Pick(r, 0, .1),
		}
		if some() {
			tr.RateLimit.Cost = func(req *http.Request, _ string) float64 { return float64(len(req.URL.Path)) }
		}
	}
}

// drawCallOptions returns options of one request, and whether those that hold are
// valid.
func drawCallOptions(r *rand.Rand) (with func(context.Context) context.Context, valid bool) {
	var steps []func(context.Context) context.Context
	validity := make(map[string]bool)
	for range r.IntN(2) * r.IntN(6) {
		ok := worlds.Chance(r, .6)
		switch r.IntN(6) {
		case 0:
			n := 3
			if !ok {
				n = -r.IntN(2)
			}
			validity["attempts"] = ok
			steps = append(steps, func(ctx context.Context) context.Context { return awsretry.WithMaxAttempts(ctx, n) })
		case 1:
			d := worlds.Pick(r, 0, time.Second)
			if !ok {
				d = -1
			}
			validity["timeout"] = ok
			steps = append(steps, func(ctx context.Context) context.Context { return awsretry.WithAttemptTimeout(ctx, d) })
		case 2:
			b := worlds.Pick[awsretry.Backoff](r, nil, delayed(0), awsretry.Exponential{})
			if !ok {
				b = worlds.Pick[awsretry.Backoff](r, awsretry.Exponential{Factor: .1}, (*awsretry.Exponential)(nil))
			}
			validity["backoff"] = ok
			steps = append(steps, func(ctx context.Context) context.Context { return awsretry.WithBackoff(ctx, b) })
		case 3:
			steps = append(steps, awsretry.WithoutRetry)
		case 4:
			p := worlds.Pick(r, nil, awsretry.IdempotentOnly(nil))
			steps = append(steps, func(ctx context.Context) context.Context { return awsretry.WithPolicy(ctx, p) })
		case 5:
			o := worlds.Pick(r, nil, func(awsretry.Attempt) {})
			steps = append(steps, func(ctx context.Context) context.Context { return awsretry.WithObserver(ctx, o) })
		}
	}
	valid = true
	for _, ok := range validity {
		valid = valid && ok
	}
	return func(ctx context.Context) context.Context {
		for _, step := range steps {
			ctx = step(ctx)
		}
		return ctx
	}, valid
}

func lawOfTheOdd(t *testing.T, r *rand.Rand) {
	protocol := worlds.Pick(r, "HTTP/1.1", "h2c")
	status := worlds.Pick(r, 200, 200, 400, 429, 503)
	serve := func(handled *int) *httpfake.Server {
		return httpfake.Serve(t, protocol, func(w http.ResponseWriter, req *http.Request) {
			if *handled++; req.URL.Path == "/warm" {
				w.Header().Set("X-Ratelimit-Limit", "1000")
				w.Header().Set("X-Ratelimit-Remaining", "999")
				w.Header().Set("X-Ratelimit-Reset", "60")
				return
			}
			io.Copy(io.Discard, req.Body)
			w.WriteHeader(status)
			io.WriteString(w, `{"__type": "Odd"}`)
		})
	}
	options, valid := drawCallOptions(r)
	seed := r.Uint64()

	// What net/http does.
	var bareSent int
	alone := serve(&bareSent)
	bareReq, bareOdd := newOddRequest(t, seed, alone, func(ctx context.Context) context.Context { return ctx })
	tr := new(awsretry.Transport)
	drawOptions(r, tr)
	keyed := tr.IdempotencyKey != nil && (bareReq.Method == http.MethodPost || bareReq.Method == http.MethodPatch)
	if bareReq.Header == nil && (keyed || tr.SDKHeaders || tr.Prepare != nil) {
		bareReq.Header = make(http.Header) // the header that these options add to
	}
	if tr.SDKHeaders {
		delete(bareReq.Header, "Amz-Sdk-Request") // which they replace
	}
	bare, bareErr := alone.Base.RoundTrip(bareReq)
	if bareErr == nil {
		io.Copy(io.Discard, bare.Body)
		bare.Body.Close()
	}
	bareOdd.end()
	synctest.Wait()

	var sent int
	srv := serve(&sent)
	tr.Base = srv.Base
	if worlds.Chance(r, .3) {
		tr.Base = httpfake.Base(srv.Base.RoundTrip)
	}
	if err := tr.Validate(); err != nil {
		t.Fatal(err)
	}
	if warm := worlds.Chance(r, .5); warm {
		// The partition of the odd request has limits.
		shared := options
		options = func(ctx context.Context) context.Context { return awsretry.WithPartition(shared(ctx), "p") }
		req := srv.Request(t, "GET", nil)
		req.URL.Path = "/warm"
		resp, err := tr.RoundTrip(req.WithContext(awsretry.WithAttemptTimeout(awsretry.WithPartition(t.Context(), "p"), 0)))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		sent = 0
	}
	req, odd := newOddRequest(t, seed, srv, options)
	describe := func() string {
		return fmt.Sprintf("%s, %d, %s, %q, options %+v, valid: %v; net/http alone: %v, sent %d", protocol, status, req.Method, odd.kinds,
			shown(tr), valid, bareErr, bareSent)
	}
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("panic: %v\n%s", p, describe())
			panic(p)
		}
	}()
	resp, err := tr.RoundTrip(req)
	if (resp == nil) == (err == nil) {
		t.Fatalf("%v and %v\n%s", resp, err, describe())
	}
	if err == nil {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	odd.end()
	tr.CloseIdleConnections()
	time.Sleep(2 * time.Second) // a Read of the request's body may go on for one
	synctest.Wait()
	if odd.body != nil {
		if n := odd.body.Closes() - odd.early; n != 1 {
			t.Errorf("the body is closed %d times (net/http alone: %d): %v\n%s", n, bareOdd.body.Closes()-odd.early, err, describe())
		}
		if odd.body.Overlaps() > 0 || odd.body.ReadsAfterClose() > 0 && odd.early == 0 {
			t.Errorf("%d reads overlap, %d after Close\n%s", odd.body.Overlaps(), odd.body.ReadsAfterClose(), describe())
		}
	}
	for _, b := range odd.more {
		if b.Closes() != 1 {
			t.Errorf("a body of GetBody is closed %d times\n%s", b.Closes(), describe())
		}
	}
	ended := slices.Contains(odd.kinds, "canceled") || slices.Contains(odd.kinds, "deadline") || slices.Contains(odd.kinds, "Cancel")
	switch {
	case !valid:
		if err == nil || sent > 0 || !strings.Contains(err.Error(), ": With") && !ended {
			t.Errorf("%v, sent %d, although an option is not valid\n%s", err, sent, describe())
		}
	case bareErr != nil && resp != nil && resp.StatusCode == 400 && sent == 0:
		// The server itself refused what was sent, and net/http alone did not wait
		// for that response after it failed to write or read the body.
	case bareErr != nil && strings.Contains(bareErr.Error(), "http: ContentLength="):
		// net/http notices such a body when it has written what there is. By then
		// the server may have called its handler, and even have responded.
	case bareErr != nil && bareSent == 0:
		own := new(awsretry.Error) // its text has no query; that of its Err has
		same := err != nil && (errors.Is(err, bareErr) || brokenConn(bareErr) || brokenConn(err) || errors.As(err, &own) && strings.Contains(textOf(own), bareErr.Error()) ||
			// Known limit: net/http asks for the body again if it wrote nothing, and
			// the error that GetBody returns then replaces its own. That of a body
			// that failed is the body's.
			strings.Contains(textOf(own), "the request body cannot be sent again") ||
			errors.Is(err, os.ErrClosed) && slices.Contains(odd.kinds, "body: closed") ||
			errors.Is(err, errSource) ||
			ended && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)))
		if !same || sent > 0 {
			t.Errorf("%v, sent %d\n%s", err, sent, describe())
		}
	}
}

// brokenConn reports whether the connection broke. net/http closes it if it cannot
// write a request, and returns either error, whichever it sees first.
func brokenConn(err error) bool {
	return errors.Is(err, io.ErrClosedPipe) || errors.Is(err, io.EOF) || strings.Contains(err.Error(), io.ErrClosedPipe.Error())
}

// textOf returns the text of what an Error wraps, or "".
func textOf(e *awsretry.Error) string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

// shown returns the names of the fields that are set.
func shown(tr *awsretry.Transport) string {
	return fmt.Sprintf("%s %v attempts %d timeout %v stall %v prepare %v sdk %v key %v resume %v buffer %d base %T limits %v peek %v keep %v policy %v",
		tr.Mode, tr.Revision, tr.MaxAttempts, tr.AttemptTimeout, tr.StallTimeout, tr.Prepare != nil, tr.SDKHeaders, tr.IdempotencyKey != nil,
		tr.Resume, tr.MaxBodyBuffer, tr.Base, tr.RateLimit.Limits != nil, tr.Peek != nil, tr.KeepConnections, tr.Policy != nil)
}
