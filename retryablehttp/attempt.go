package retryablehttp

import (
	"net/http"
	"sync"
)

// base is the Base of a Transport. It makes an attempt with an HTTPClient, which
// follows redirects and has its own timeout.
type base struct{ client *http.Client }

// RoundTrip implements http.RoundTripper.
func (b *base) RoundTrip(req *http.Request) (*http.Response, error) {
	c, ok := req.Context().Value(callKey{}).(*call)
	if !ok || c.Transport().Base != http.RoundTripper(b) { // of Transport, without Do
		return b.client.Do(req)
	}
	return c.attempt(req)
}

// CloseIdleConnections closes those of HTTPClient.
func (b *base) CloseIdleConnections() { b.client.CloseIdleConnections() }

// pooled is for Clients without an HTTPClient.
var pooled = sync.OnceValue(newHTTPClient)

func (c *Client) httpClient() *http.Client {
	if c.HTTPClient == nil {
		return pooled()
	}
	return c.HTTPClient
}

// attempt makes an attempt, and asks CheckRetry about it. sent is Transport's
// request.
func (c *call) attempt(sent *http.Request) (*http.Response, error) {
	c.last = outcome{}
	o := &c.last
	if c.attempts > 0 && c.PrepareRetry != nil {
		own := *c.req.Request // with the caller's headers
		if o.unprepared = c.PrepareRetry(&own); o.unprepared != nil {
			if sent.Body != nil {
				sent.Body.Close()
			}
			return nil, o.unprepared
		}
		c.req.Request = &own
	}
	c.attempts++
	shown := c.req.Request.WithContext(sent.Context())
	shown.Body, shown.ContentLength = sent.Body, sent.ContentLength
	c.log.sending(c)
	if c.RequestLogHook != nil {
		c.RequestLogHook(c.log.hook(), shown, c.attempts-1)
	}
	out := *shown // so that a hook's changes of the headers stay, and HTTPClient's do not
	out.Header = shown.Header.Clone()
	for name, values := range sent.Header {
		if _, ok := out.Header[name]; !ok && !has(c.req.Header, name) { // Transport has set it
			out.Header[name] = values
		}
	}

	o.resp, o.err = c.Transport().Base.(*base).client.Do(&out)
	c.check(o.err)
	if !o.retry && o.err == nil && c.req.responseHandler != nil {
		o.handled = c.req.responseHandler(o.resp)
		c.check(o.handled)
	}
	switch err := firstOf(o.err, o.handled); {
	case err != nil:
		c.log.failed(c, err)
	case c.ResponseLogHook != nil:
		c.ResponseLogHook(c.log.hook(), o.resp)
	}
	if o.err != nil {
		return nil, o.err
	}
	return o.resp, nil
}

func has(h http.Header, name string) bool {
	_, ok := h[name]
	return ok
}

// check asks CheckRetry about the attempt, which ended with err.
func (c *call) check(err error) {
	check := c.CheckRetry
	if check == nil {
		check = DefaultRetryPolicy
	}
	c.last.retry, c.last.checked = check(c.req.Context(), c.last.resp, err)
}
