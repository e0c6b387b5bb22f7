package retryablehttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/worlds"
	ours "example.com/awsretry/retryablehttp"
	original "github.com/hashicorp/go-retryablehttp"
)

// The law of the names: in any world, a program sees the same of both packages, and
// a service too: the requests and their times, what the hooks are called with, and
// what Do returns. What differs on purpose is in the README of retryablehttp, and
// not in these worlds.

func TestLawOfNames(t *testing.T) {
	worlds.Each(t, 1500, lawOfNames)
}

// A world is what a program, its Client and a service do.
type world struct {
	protocol string
	replies  []answer // the last of them again and again
	method   string
	body     string // its kind
	data     string
	way      string // "Do", "FromRequest" or "StandardClient"
	header   http.Header

	retryMax         int
	waitMin, waitMax time.Duration
	check            string
	backoff          string
	errorHandler     string
	prepareRetry     string
	requestHook      string
	responseHook     string
	handler          string
	logger           string

	ends          time.Duration // of the context; 0: never
	canceled      bool          // at its end, which is no deadline
	clientTimeout time.Duration
}

// An answer is what the service does with one request.
type answer struct {
	status int // 0: the connection or the stream is reset
	header []string
	body   string
	after  time.Duration
}

// A view is what is compared.
type view struct {
	requests []string
	events   []string // of hooks and the log
	result   string
	took     time.Duration
}

func draw(r *rand.Rand) *world {
	w := &world{
		protocol: worlds.Pick(r, "HTTP/1.1", "HTTP/1.1", "h2c"),
		method:   worlds.Pick(r, "GET", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"),
		data:     httpfake.Text(worlds.Pick(r, 1, 10, 5_000, 100_000)),
		way:      worlds.Pick(r, "Do", "Do", "Do", "FromRequest", "StandardClient"),
		header:   http.Header{"X-Own": {"yes"}},
		retryMax: worlds.Pick(r, -1, 0, 1, 2, 4, 7),
		waitMin:  worlds.Pick(r, 0, time.Millisecond, time.Second),
		waitMax:  worlds.Pick(r, 0, time.Second, 30*time.Second),
		check:    worlds.Pick(r, "default", "default", "propagated", "404", "error of 403", "always", "never", "reads", "error and retry"),
		backoff:  worlds.Pick(r, "default", "default", "linear", "rate limit", "own"),

		errorHandler: worlds.Pick(r, "", "", "pass", "own"),
		prepareRetry: worlds.Pick(r, "", "", "signs", "fails", "other URL"),
		requestHook:  worlds.Pick(r, "", "", "looks", "sets"),
		responseHook: worlds.Pick(r, "", "", "looks", "reads"),
		handler:      worlds.Pick(r, "", "", "", "looks", "fails", "reads and fails"),
		logger:       worlds.Pick(r, "", "plain", "leveled"),
	}
	w.body = worlds.Pick(r, "bytes", "buffer", "bytes.Reader", "read bytes.Reader", "strings.Reader", "seeker", "ReaderFunc", "func",
		"reader", "reader with a length", "empty", "NoBody")
	if w.method == "GET" || w.method == "HEAD" {
		w.body = ""
	}
	switch {
	case w.way != "Do":
		w.handler = ""
	case w.body == "strings.Reader" || w.body == "seeker":
		w.body = "bytes" // the original sets an io.ReadSeeker back while net/http may still read it
	}
	if w.prepareRetry == "fails" && w.check == "reads" {
		w.check = "default" // how much is left of a response that was dropped is not promised
	}
	for range 1 + r.IntN(6) {
		a := answer{
			status: worlds.Pick(r, 200, 200, 204, 404, 403, 429, 429, 500, 500, 501, 502, 503, 503, 0, 0, 301, 302, 303, 307, 308, 599),
			body:   worlds.Pick(r, "", "a text", httpfake.Text(10_000)),
			after:  worlds.Pick(r, 0, 0, 0, time.Millisecond, 3*time.Second),
		}
		if worlds.Chance(r, .3) {
			a.header = append(a.header, "Retry-After", worlds.Pick(r, "0", "1", "30", "59", "-1", "soon", "1.5", "", "a date", "a date that is over"))
		}
		if a.status/100 == 3 {
			a.header = append(a.header, "Location", worlds.Pick(r, "/other", "other", "http://["))
			if strings.Contains("reader, reader with a length, func", w.body) && a.status > 303 {
				a.status = 303 // a difference that the README has
			}
		}
		w.replies = append(w.replies, a)
	}
	if last := &w.replies[len(w.replies)-1]; last.status/100 == 3 && worlds.Chance(r, .7) {
		last.status = 200
	}
	if worlds.Chance(r, .3) {
		w.ends = worlds.Pick(r, 501*time.Microsecond, 1537*time.Millisecond, 10_011*time.Millisecond)
		w.canceled = worlds.Chance(r, .5)
	}
	if worlds.Chance(r, .1) {
		w.clientTimeout = 1613 * time.Millisecond
	}
	return w
}

func (w *world) String() string {
	var replies []string
	for _, a := range w.replies {
		replies = append(replies, fmt.Sprintf("%d %q after %v with %d bytes", a.status, a.header, a.after, len(a.body)))
	}
	return fmt.Sprintf("%s %s %s, body %q of %d, RetryMax %d, waits %v to %v, CheckRetry %q, Backoff %q, ErrorHandler %q, "+
		"PrepareRetry %q, hooks %q and %q, handler %q, logger %q, ends %v canceled %v, Timeout %v\nreplies %q",
		w.protocol, w.way, w.method, w.body, len(w.data), w.retryMax, w.waitMin, w.waitMax, w.check, w.backoff, w.errorHandler,
		w.prepareRetry, w.requestHook, w.responseHook, w.handler, w.logger, w.ends, w.canceled, w.clientTimeout, replies)
}

// rawBody returns what NewRequest gets.
func (w *world) rawBody() any {
	open := func() (io.Reader, error) { return strings.NewReader(w.data), nil }
	switch w.body {
	case "bytes":
		return []byte(w.data)
	case "buffer":
		return bytes.NewBufferString(w.data)
	case "bytes.Reader":
		return bytes.NewReader([]byte(w.data))
	case "read bytes.Reader":
		r := bytes.NewReader([]byte(w.data))
		r.Seek(int64(len(w.data)/2), io.SeekStart)
		return r
	case "strings.Reader":
		return strings.NewReader(w.data)
	case "seeker":
		return struct{ io.ReadSeeker }{strings.NewReader(w.data)}
	case "ReaderFunc", "func":
		return open
	case "reader":
		return iotest.HalfReader(strings.NewReader(w.data))
	case "reader with a length":
		return sized{strings.NewReader(w.data)}
	case "empty":
		return []byte{}
	case "NoBody":
		return http.NoBody
	}
	return nil
}

type sized struct{ r *strings.Reader }

func (s sized) Read(p []byte) (int, error) { return s.r.Read(p) }

func (s sized) Len() int { return s.r.Len() }

// plain returns an http.Request for FromRequest and StandardClient.
func (w *world) plain(ctx context.Context, url string) *http.Request {
	var body io.Reader
	switch raw := w.rawBody().(type) {
	case []byte:
		body = bytes.NewReader(raw)
	case io.Reader:
		body = raw
	case func() (io.Reader, error):
		body, _ = raw()
	}
	req, err := http.NewRequestWithContext(ctx, w.method, url, body)
	if err != nil {
		panic(err)
	}
	req.Header = w.header.Clone()
	return req
}

// A program is the code that a Client calls. It notes the calls.
type program struct {
	*world
	view     *view
	prepared int
}

func (p *program) note(format string, values ...any) {
	p.view.events = append(p.view.events, fmt.Sprintf(format, values...))
}

func statusOf(resp *http.Response) int {
	if resp == nil {
		return 0
	}
	return resp.StatusCode
}

// checker returns the CheckRetry. usual and propagated are those of the package.
func (p *program) checker(usual, propagated func(context.Context, *http.Response, error) (bool, error)) func(context.Context, *http.Response, error) (bool, error) {
	return func(ctx context.Context, resp *http.Response, err error) (bool, error) {
		p.note("CheckRetry %d %v", statusOf(resp), err)
		switch {
		case p.check == "propagated":
			return propagated(ctx, resp, err)
		case p.check == "404" && statusOf(resp) == 404:
			return true, nil
		case p.check == "error of 403" && statusOf(resp) == 403:
			return false, errors.New("forbidden")
		case p.check == "always" && ctx.Err() == nil:
			return true, nil
		case p.check == "error and retry" && ctx.Err() == nil && statusOf(resp) != 200:
			return true, errors.New("again")
		case p.check == "never":
			return false, nil
		case p.check == "reads" && resp != nil:
			data, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			resp.Body = io.NopCloser(bytes.NewReader(data))
		}
		return usual(ctx, resp, err)
	}
}

// backer returns the Backoff. The others are those of the package.
func (p *program) backer(usual, linear, limited func(min, max time.Duration, n int, resp *http.Response) time.Duration) func(min, max time.Duration, n int, resp *http.Response) time.Duration {
	return func(min, max time.Duration, n int, resp *http.Response) time.Duration {
		p.note("Backoff %v %v %d %d", min, max, n, statusOf(resp))
		switch p.backoff {
		case "linear":
			return linear(min, min, n, resp)
		case "rate limit":
			return limited(min, min, n, resp)
		case "own":
			return time.Duration(n+1) * 700 * time.Millisecond
		}
		return usual(min, max, n, resp)
	}
}

func (p *program) handleError(resp *http.Response, err error, tries int) (*http.Response, error) {
	p.note("ErrorHandler %d %v %d", statusOf(resp), err, tries)
	if p.errorHandler == "pass" {
		return resp, err
	}
	if resp != nil {
		resp.Body.Close()
	}
	return nil, errors.New("of the ErrorHandler")
}

func (p *program) prepare(req *http.Request) error {
	p.prepared++
	p.note("PrepareRetry %s", req.URL.Path)
	switch {
	case p.prepareRetry == "signs":
		req.Header.Set("X-Signature", fmt.Sprint(p.prepared))
	case p.prepareRetry == "other URL":
		other := *req.URL
		other.Path = fmt.Sprintf("/prepared/%d", p.prepared)
		req.URL = &other
	case p.prepareRetry == "fails" && p.prepared == 2:
		return errors.New("of PrepareRetry")
	}
	return nil
}

func (p *program) beforeRequest(req *http.Request, n int) {
	p.note("RequestLogHook %s %d %q", req.URL.Path, n, req.Header["X-Hook"])
	if p.requestHook == "sets" {
		req.Header.Set("X-Hook", fmt.Sprint(n))
		if n == 0 {
			req.Header.Del("X-Own")
		}
	}
}

func (p *program) afterResponse(resp *http.Response) {
	p.note("ResponseLogHook %d", resp.StatusCode)
	if p.responseHook == "reads" {
		io.ReadAll(resp.Body)
	}
}

func (p *program) handle(resp *http.Response) error {
	p.note("handler %d", resp.StatusCode)
	if p.handler == "reads and fails" {
		io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	if p.handler != "looks" && resp.StatusCode == 200 {
		return errors.New("of the handler")
	}
	return nil
}

type lines struct{ p *program }

func (l lines) Printf(format string, values ...any) {
	text := fmt.Sprintf(format, values...)
	sent := strings.HasPrefix(text, "[DEBUG]") && strings.Count(text, " ") == 2
	if !sent && !strings.HasPrefix(text, "[ERR] error reading response body") {
		l.p.note("%s", text)
	}
}

type levels struct{ p *program }

func (l levels) log(level, msg string, kv []any) {
	if msg != "performing request" && msg != "error reading response body" {
		l.p.note("%s %s %v", level, msg, kv)
	}
}

func (l levels) Error(msg string, kv ...any) { l.log("error", msg, kv) }
func (l levels) Info(msg string, kv ...any)  { l.log("info", msg, kv) }
func (l levels) Debug(msg string, kv ...any) { l.log("debug", msg, kv) }
func (l levels) Warn(msg string, kv ...any)  { l.log("warn", msg, kv) }

func (p *program) log() any {
	switch p.logger {
	case "plain":
		return lines{p}
	case "leveled":
		return levels{p}
	}
	return nil
}

// A library makes the world's call.
type library func(ctx context.Context, p *program, client *http.Client, url string) (*http.Response, error)

func callOurs(ctx context.Context, p *program, client *http.Client, url string) (*http.Response, error) {
	c := &ours.Client{
		HTTPClient: client, Logger: p.log(), RetryMax: p.retryMax, RetryWaitMin: p.waitMin, RetryWaitMax: p.waitMax,
		CheckRetry: p.checker(ours.DefaultRetryPolicy, ours.ErrorPropagatedRetryPolicy),
		Backoff:    p.backer(ours.DefaultBackoff, ours.LinearJitterBackoff, ours.RateLimitLinearJitterBackoff),
	}
	c.Transport().Quota.Capacity = -1
	if p.errorHandler != "" {
		c.ErrorHandler = p.handleError
	}
	if p.prepareRetry != "" {
		c.PrepareRetry = p.prepare
	}
	if p.requestHook != "" {
		c.RequestLogHook = func(_ ours.Logger, req *http.Request, n int) { p.beforeRequest(req, n) }
	}
	if p.responseHook != "" {
		c.ResponseLogHook = func(_ ours.Logger, resp *http.Response) { p.afterResponse(resp) }
	}
	var req *ours.Request
	var err error
	switch p.way {
	case "StandardClient":
		return c.StandardClient().Do(p.plain(ctx, url))
	case "FromRequest":
		req, err = ours.FromRequest(p.plain(ctx, url))
	default:
		raw := p.rawBody()
		if p.body == "ReaderFunc" {
			raw = ours.ReaderFunc(raw.(func() (io.Reader, error)))
		}
		req, err = ours.NewRequestWithContext(ctx, p.method, url, raw)
	}
	if err != nil {
		return nil, err
	}
	req.Header = p.header.Clone()
	if p.handler != "" {
		req.SetResponseHandler(p.handle)
	}
	return c.Do(req)
}

func callOriginal(ctx context.Context, p *program, client *http.Client, url string) (*http.Response, error) {
	c := &original.Client{
		HTTPClient: client, Logger: p.log(), RetryMax: p.retryMax, RetryWaitMin: p.waitMin, RetryWaitMax: p.waitMax,
		CheckRetry: p.checker(original.DefaultRetryPolicy, original.ErrorPropagatedRetryPolicy),
		Backoff:    p.backer(original.DefaultBackoff, original.LinearJitterBackoff, original.RateLimitLinearJitterBackoff),
	}
	if p.errorHandler != "" {
		c.ErrorHandler = p.handleError
	}
	if p.prepareRetry != "" {
		c.PrepareRetry = p.prepare
	}
	if p.requestHook != "" {
		c.RequestLogHook = func(_ original.Logger, req *http.Request, n int) { p.beforeRequest(req, n) }
	}
	if p.responseHook != "" {
		c.ResponseLogHook = func(_ original.Logger, resp *http.Response) { p.afterResponse(resp) }
	}
	var req *original.Request
	var err error
	switch p.way {
	case "StandardClient":
		return c.StandardClient().Do(p.plain(ctx, url))
	case "FromRequest":
		req, err = original.FromRequest(p.plain(ctx, url))
	default:
		raw := p.rawBody()
		if p.body == "ReaderFunc" {
			raw = original.ReaderFunc(raw.(func() (io.Reader, error)))
		}
		req, err = original.NewRequestWithContext(ctx, p.method, url, raw)
	}
	if err != nil {
		return nil, err
	}
	req.Header = p.header.Clone()
	if p.handler != "" {
		req.SetResponseHandler(p.handle)
	}
	return c.Do(req)
}

// watch makes the world's call with a library.
func watch(t *testing.T, w *world, call library) *view {
	v := new(view)
	var begin time.Time
	srv := httpfake.Serve(t, w.protocol, func(rw http.ResponseWriter, req *http.Request) {
		at := time.Since(begin)
		data, err := io.ReadAll(req.Body)
		header := req.Header.Clone()
		header.Del("Content-Length") // the README has where it differs
		var fields []string
		for _, name := range slices.Sorted(maps.Keys(header)) {
			fields = append(fields, fmt.Sprintf("%s=%q", name, header[name]))
		}
		a := w.replies[min(len(v.requests), len(w.replies)-1)]
		v.requests = append(v.requests, fmt.Sprintf("%v %s %s %v %d %.20q %v", at, req.Method, req.URL.Path, fields, len(data), data, err))
		select {
		case <-time.After(a.after):
		case <-req.Context().Done():
			panic(http.ErrAbortHandler)
		}
		if a.status == 0 {
			panic(http.ErrAbortHandler)
		}
		for i := 0; i < len(a.header); i += 2 {
			value := a.header[i+1]
			switch value {
			case "a date":
				value = begin.Add(20 * time.Second).UTC().Format(http.TimeFormat)
			case "a date that is over":
				value = begin.Add(-20 * time.Second).UTC().Format(http.TimeFormat)
			}
			rw.Header().Set(a.header[i], value)
		}
		rw.WriteHeader(a.status)
		if a.status != 204 {
			io.WriteString(rw, a.body)
		}
	})
	srv.Base.DisableKeepAlives = w.protocol == "HTTP/1.1" // net/http sends a request on a connection that was closed again
	defer srv.Base.CloseIdleConnections()
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // a date in Retry-After has whole seconds
	begin = time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	switch {
	case w.ends > 0 && w.canceled:
		defer time.AfterFunc(w.ends, cancel).Stop()
	case w.ends > 0:
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, w.ends)
		defer end()
	}
	resp, err := call(ctx, &program{world: w, view: v}, &http.Client{Transport: srv.Base, Timeout: w.clientTimeout}, srv.URL+"/path")
	v.took = time.Since(begin)
	var data []byte
	var readErr error
	if resp != nil {
		data, readErr = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	v.result = fmt.Sprintf("%d %d bytes %.20q %v; %v; canceled %v, deadline %v", statusOf(resp), len(data), data, readErr, err,
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded))
	return v
}

func lawOfNames(t *testing.T, r *rand.Rand) {
	w := draw(r)
	want := watch(t, w, callOriginal)
	got := watch(t, w, callOurs)
	early := strings.Contains(strings.Join(append(got.events, got.result), "\n"), "the delay would end after the context's deadline")
	if w.ends > 0 && !w.canceled && early && strings.HasSuffix(want.result, "deadline true") && got.took <= want.took {
		// A delay that would end after the deadline is not begun. The original begins
		// it, and does not call the ErrorHandler after it.
		got.result, got.took, got.events = want.result, want.took, want.events
	}
	for _, part := range []struct {
		name      string
		got, want any
	}{
		{"requests", strings.Join(got.requests, "\n"), strings.Join(want.requests, "\n")},
		{"events", strings.Join(got.events, "\n"), strings.Join(want.events, "\n")},
		{"result", got.result, want.result},
		{"time", got.took, want.took},
	} {
		if part.got != part.want {
			t.Errorf("%s:\n%v\nwant\n%v\n%v\n%+v\nwant\n%+v", part.name, part.got, part.want, w, got, want)
			break
		}
	}
}
