package retrytest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/redact"
)

// A Base takes the place of a service. As the Base of an awsretry.Transport, or
// of any http.Client, it answers each request with the next step of its script.
// As the handler of an httptest.Server it does the same over a connection.
//
// If there is no step for a request, or a step is not valid, RoundTrip returns
// an error that says so, and that awsretry.DefaultPolicy does not retry. A
// server responds with 501 and the same text.
//
// A Base is safe for concurrent use: the steps are taken in the order in which
// the requests have arrived. It must not be copied after its first request.
type Base struct {
	// Script has one step for each request. It must not be changed after the
	// first one.
	Script []Step

	mu   sync.Mutex
	sent []Request
}

// A Step is how a Base answers a request.
type Step struct {
	// Status is the status of the response, from 200 to 999. 0 is allowed with
	// an Err only.
	Status int

	// Code is an AWS error code, such as ThrottlingException. It is sent in the
	// header X-Amzn-ErrorType. "" means none.
	Code string

	// Header has the other headers of the response.
	Header http.Header

	// Body is the body of the response, if its status and the method of the
	// request allow one.
	Body string

	// Err is the error of the transport if Status is 0. Else it is what a Read of
	// the response body returns after Body: the body breaks off. A server closes
	// the connection in both cases. Nil means no error.
	Err error

	// Delay is how long the answer takes once the request has arrived. A context
	// that ends before that ends it.
	Delay time.Duration
}

// A Request is what arrived at a Base.
type Request struct {
	Attempt int       // of its call, from 1; 0 at a server, which cannot know it
	Time    time.Time // when it had arrived, with its body
	Method  string
	URL     string
	Header  http.Header
	Body    string
}

// Statuses returns a Base that answers with one status after another, without a
// body.
func Statuses(statuses ...int) *Base {
	b := new(Base)
	for _, status := range statuses {
		b.Script = append(b.Script, Step{Status: status})
	}
	return b
}

// Sent returns the requests that have arrived so far, the first one first. One
// whose context ended before that is not among them.
func (b *Base) Sent() []Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.sent)
}

// RoundTrip implements http.RoundTripper. It reads and closes the body of the
// request.
func (b *Base) RoundTrip(req *http.Request) (*http.Response, error) {
	step, err := b.receive(req, awsretry.AttemptNumber(req.Context()))
	if err != nil {
		return nil, err
	}
	if step.Status == 0 {
		return nil, step.Err
	}
	var body io.ReadCloser = http.NoBody
	length := int64(len(step.Body))
	if step.Err != nil {
		length = -1
	}
	if allowsBody(req.Method, step.Status) {
		body = io.NopCloser(io.MultiReader(strings.NewReader(step.Body), failing{step.Err}))
	}
	resp := httpfake.Response(req, step.Status, body)
	resp.Status = strings.TrimSpace(fmt.Sprint(step.Status, " ", http.StatusText(step.Status)))
	resp.Header, resp.ContentLength = step.header(), length
	return resp, nil
}

// ServeHTTP implements http.Handler.
func (b *Base) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u := url.URL{Scheme: "http", Host: r.Host, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
	if r.TLS != nil {
		u.Scheme = "https"
	}
	arrived := *r
	arrived.URL = &u
	step, err := b.receive(&arrived, 0)
	switch {
	case r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // the client has gone
	case err != nil:
		http.Error(w, err.Error(), http.StatusNotImplemented)
		return
	case step.Status == 0:
		panic(http.ErrAbortHandler)
	}
	for name, values := range step.header() {
		w.Header()[name] = values
	}
	w.WriteHeader(step.Status)
	if allowsBody(r.Method, step.Status) {
		_, _ = io.WriteString(w, step.Body) // fails if the client has gone
	}
	if step.Err != nil {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// receive takes a request, and returns the step that answers it when its delay
// is over.
func (b *Base) receive(req *http.Request, attempt int) (Step, error) {
	sent, err := record(req)
	if err != nil {
		return Step{}, err
	}
	step, err := b.take(Request{
		Attempt: attempt, Time: time.Now(), Method: sent.Method, URL: sent.URL,
		Header: sent.Header.Clone(), Body: sent.Body,
	})
	if err != nil {
		return Step{}, err
	}
	delay := time.NewTimer(step.Delay)
	defer delay.Stop()
	select {
	case <-delay.C:
		return step, nil
	case <-req.Context().Done():
		return Step{}, context.Cause(req.Context())
	}
}

// record reads and closes the body of a request. If the context ends meanwhile,
// it closes the body, so that a Read that hangs returns.
func record(req *http.Request) (httpfake.Sent, error) {
	ctx := req.Context()
	if req.Body != nil {
		body := &closedOnce{ReadCloser: req.Body}
		stop := context.AfterFunc(ctx, func() { body.Close() })
		defer stop()
		copied := *req
		copied.Body = body
		req = &copied
	}
	if ctx.Err() != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return httpfake.Sent{}, context.Cause(ctx)
	}
	sent, err := httpfake.Record(req)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return sent, err
}

// take records what was sent, and returns the step that is its answer.
func (b *Base) take(sent Request) (Step, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, step := range b.Script {
		if err := step.validate(); err != "" {
			return Step{}, scriptError(fmt.Sprintf("Script[%d].%s", i, err))
		}
	}
	b.sent = append(b.sent, sent)
	n := len(b.sent)
	if n > len(b.Script) {
		shown := sent.URL
		if u, err := url.Parse(shown); err == nil {
			shown = redact.URL(u)
		}
		return Step{}, scriptError(fmt.Sprintf("there is no step for request %d, %s %s; the script has %d",
			n, sent.Method, shown, len(b.Script)))
	}
	return b.Script[n-1], nil
}

// validate returns what is wrong with a step, or "".
func (s Step) validate() string {
	switch {
	case s.Status == 0 && s.Err == nil:
		return "Status is 0; it must be from 200 to 999, or 0 with an Err"
	case s.Status != 0 && (s.Status < 200 || s.Status > 999):
		return fmt.Sprintf("Status is %d; it must be from 200 to 999, or 0 with an Err", s.Status)
	case s.Status == 0 && (s.Code != "" || s.Body != "" || len(s.Header) > 0):
		return "Status is 0; it must be from 200 to 999 with a Code, a Header or a Body"
	case s.Delay < 0:
		return fmt.Sprintf("Delay is %v; it must be 0 or more", s.Delay)
	}
	return ""
}

// header returns the headers of the response, in its own map.
func (s Step) header() http.Header {
	h := make(http.Header)
	for name, values := range s.Header {
		for _, value := range values {
			h.Add(name, value)
		}
	}
	if s.Code != "" {
		h.Set("X-Amzn-Errortype", s.Code)
	}
	return h
}

// A scriptError is what is wrong with a script.
type scriptError string

func (e scriptError) Error() string { return "retrytest: " + string(e) }

// Unwrap returns an error that awsretry.DefaultPolicy does not retry.
func (scriptError) Unwrap() error { return http.ErrNotSupported }

func allowsBody(method string, status int) bool {
	return method != http.MethodHead && status != http.StatusNoContent && status != http.StatusNotModified
}

// A failing is a reader that is at its end, or fails if there is an error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return 0, io.EOF
}

// A closedOnce passes on the first Close.
type closedOnce struct {
	io.ReadCloser
	once sync.Once
	err  error
}

func (c *closedOnce) Close() error {
	c.once.Do(func() { c.err = c.ReadCloser.Close() })
	return c.err
}
