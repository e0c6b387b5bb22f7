package respbody

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// A TimeoutError reports that an attempt took longer than
// Transport.AttemptTimeout, or that its body stalled for
// Transport.StallTimeout. It does not match context.DeadlineExceeded, which is
// the caller's own deadline.
type TimeoutError struct {
	After   time.Duration
	Stalled bool // After is the StallTimeout
}

func (e *TimeoutError) Error() string {
	if e.Stalled {
		return fmt.Sprintf("awsretry: the response body stalled for StallTimeout, %v", e.After)
	}
	return fmt.Sprintf("awsretry: the attempt took longer than AttemptTimeout, %v", e.After)
}

// Timeout returns true, as net.Error does for a timeout.
func (*TimeoutError) Timeout() bool { return true }

// Temporary returns true, as net.Error does for a timeout.
func (*TimeoutError) Temporary() bool { return true }

// A Context is the context of one attempt. It ends with a timeout, with its
// parent, or with the response body.
//
// It is not a context.WithTimeout because the headers of a 101 stop the timeout
// but do not end the context. An attempt that uses the caller's context has a nil
// Context. Ender, Left and Hold may be called on it.
type Context struct {
	context.Context
	Parent   context.Context
	cancel   context.CancelCauseFunc
	timeout  time.Duration // 0: none
	deadline time.Time     // expires, or the parent's deadline if that is earlier
	expires  time.Time     // when the timeout ends the context, unless Hold stops it; used only by the attempt's goroutine

	// timer is nil before Start, and without a timeout. It is atomic because
	// goroutines that Prepare started may use the context before Start.
	timer atomic.Pointer[time.Timer]

	connection *connection // nil unless it is traced

	stall      time.Duration // 0: none
	stallTimer *time.Timer   // runs during a Read of the body; nil before Bind, and without a stall

	body    boundBody    // after Bind
	request http.Request // after Copy
}

// NewContext returns a context with a timeout that begins with Start. stall limits
// how long a Read of the response body may take. 0 means no limit. trace is for
// Unsent.
func NewContext(parent context.Context, timeout, stall time.Duration, trace bool) *Context {
	c := &Context{Parent: parent, timeout: timeout, stall: stall}
	if trace {
		c.connection = new(connection)
		parent = c.connection.trace(parent)
	}
	c.Context, c.cancel = context.WithCancelCause(parent)
	return c
}

// A connection is what is known of the connection of an attempt.
type connection struct {
	httptrace.ClientTrace
	asked, got atomic.Bool // Base looked for one; it had one
}

func (c *connection) trace(parent context.Context) context.Context {
	c.GetConn = func(string) { c.asked.Store(true) }
	c.GotConn = func(httptrace.GotConnInfo) { c.got.Store(true) }
	return httptrace.WithClientTrace(parent, &c.ClientTrace)
}

// Unsent reports whether Base looked for a connection to send the request over, and
// got none: the proxy refused, for example, or the TLS handshake failed. It is false
// if the connection is not traced, and may be called on a nil Context.
func (c *Context) Unsent() bool {
	return c != nil && c.connection != nil && c.connection.asked.Load() && !c.connection.got.Load()
}

// Watch makes Unsent false once the body of req is read, and at once if it has none:
// Base may be several transports, and one of them may not call the hooks of httptrace.
func (c *Context) Watch(req *http.Request) {
	if c.connection == nil {
		return
	}
	if req.Body == nil || req.Body == http.NoBody {
		c.connection.got.Store(true)
		return
	}
	watch := func(body io.ReadCloser) io.ReadCloser { return &watched{body, &c.connection.got} }
	req.Body = watch(req.Body)
	if again := req.GetBody; again != nil {
		req.GetBody = func() (io.ReadCloser, error) {
			body, err := again()
			if body != nil {
				body = watch(body)
			}
			return body, err
		}
	}
}

// A watched is a request body that sets read with its first Read.
type watched struct {
	io.ReadCloser
	read *atomic.Bool
}

func (w *watched) Read(p []byte) (int, error) {
	w.read.Store(true)
	return w.ReadCloser.Read(p)
}

// Connected reports whether Base got a connection to send the request over. It is
// false if the connection is not traced, and may be called on a nil Context.
func (c *Context) Connected() bool { return c != nil && c.connection != nil && c.connection.got.Load() }

// Copy returns a shallow copy of req with the context c. The copy is a part of c,
// so Copy costs no allocation, and may be called once.
func (c *Context) Copy(req *http.Request) *http.Request {
	c.request = *req.WithContext(c)
	return &c.request
}

// Send starts the timeout and sends req, whose context is c, through rt. The
// context ends with the body of the response, or at once if there is no response or
// rt panics.
func (c *Context) Send(rt http.RoundTripper, req *http.Request) (*http.Response, error) {
	c.Start()
	bound := false
	defer func() {
		if !bound {
			c.End()
		}
	}()
	resp, err := rt.RoundTrip(req)
	switch {
	case err != nil:
		err = c.Explain(err)
	case resp != nil:
		c.Bind(resp)
		bound = true
	}
	return resp, err
}

// Start begins the timeout. It is called once.
func (c *Context) Start() {
	if c.timeout == 0 {
		return
	}
	c.expires = time.Now().Add(c.timeout)
	c.deadline = c.expires
	if earlier, ok := c.Context.Deadline(); ok && earlier.Before(c.deadline) {
		c.deadline = earlier
	}
	c.timer.Store(time.AfterFunc(c.timeout, func() { c.cancel(&TimeoutError{After: c.timeout}) }))
}

// Deadline implements context.Context. Until Start, and without a timeout, it
// is the parent's.
func (c *Context) Deadline() (time.Time, bool) {
	if c.timer.Load() == nil {
		return c.Context.Deadline()
	}
	return c.deadline, true
}

// End ends the context and releases its resources. It may be called more than once,
// and by several goroutines.
func (c *Context) End() {
	c.cancel(context.Canceled)
	if timer := c.timer.Load(); timer != nil {
		timer.Stop()
	}
}

// Ender returns End, or nil for a nil Context.
func (c *Context) Ender() func() {
	if c == nil {
		return nil
	}
	return c.End
}

// Left returns how much of the timeout is left, at least a nanosecond. ok is false
// if there is no timeout.
func (c *Context) Left() (left time.Duration, ok bool) {
	if c == nil || c.timer.Load() == nil {
		return 0, false
	}
	return max(time.Until(c.expires), 1), true
}

// Hold stops the timeout of an attempt until resume is called, while its response
// is kept.
func (c *Context) Hold() (resume func()) {
	if c == nil {
		return func() {}
	}
	timer := c.timer.Load()
	if timer == nil || !timer.Stop() {
		return func() {}
	}
	left := time.Until(c.expires)
	return func() {
		c.expires = time.Now().Add(left)
		timer.Reset(left)
		if c.Err() != nil { // End stops the timer, but possibly before the Reset
			timer.Stop()
		}
	}
}

// Explain returns the TimeoutError if a timeout ended the attempt, and err
// otherwise.
func (c *Context) Explain(err error) error {
	var timeout *TimeoutError
	if errors.As(context.Cause(c.Context), &timeout) {
		return timeout
	}
	return err
}

// Bind makes the end or the Close of the response's body end the context. For a
// body that can be written to, such as a 101's, only Close does: the peer may
// have sent everything while the caller has not.
func (c *Context) Bind(resp *http.Response) {
	body := resp.Body
	if body == nil || body == http.NoBody {
		c.End()
		return
	}
	if timer := c.timer.Load(); timer != nil && resp.StatusCode == http.StatusSwitchingProtocols {
		timer.Stop() // the caller has taken over the connection
	}
	c.body = boundBody{body, c}
	if w, ok := body.(io.Writer); ok {
		resp.Body = &boundWriter{&c.body, w}
		return
	}
	if c.stall > 0 {
		c.stallTimer = time.AfterFunc(c.stall, func() { c.cancel(&TimeoutError{c.stall, true}) })
		c.stallTimer.Stop()
	}
	resp.Body = &c.body
}

// A boundBody is a response body that ends the context of its attempt.
type boundBody struct {
	src io.ReadCloser
	ctx *Context
}

func (b *boundBody) Read(p []byte) (int, error) {
	if b.ctx.stallTimer != nil {
		b.ctx.stallTimer.Reset(b.ctx.stall)
		defer b.ctx.stallTimer.Stop()
	}
	n, err := b.read(p)
	if err != nil {
		b.ctx.End()
	}
	return n, err
}

// read explains an io.EOF, too: a server that sees that the request was canceled
// may end its response as if it were complete.
func (b *boundBody) read(p []byte) (int, error) {
	n, err := b.src.Read(p)
	if err != nil {
		err = b.ctx.Explain(err)
	}
	return n, err
}

func (b *boundBody) Close() error {
	err := b.src.Close()
	b.ctx.End()
	return err
}

// A boundWriter is the body of a response that can be written to, such as a
// 101's.
type boundWriter struct {
	*boundBody
	io.Writer
}

func (b *boundWriter) Read(p []byte) (int, error) { return b.read(p) }

// CloseWrite closes the sending side, as net/http's own body does.
func (b *boundWriter) CloseWrite() error { return CloseWrite(b.Writer) }
