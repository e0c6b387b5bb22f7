package retryablehttp

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
)

// base is the Base of a Client's Transport. It makes an attempt with HTTPClient,
// which follows redirects and has its own timeout.
type base struct{ owner *Client }

// RoundTrip implements http.RoundTripper.
func (b *base) RoundTrip(req *http.Request) (*http.Response, error) {
	c, ok := req.Context().Value(callKey{}).(*call)
	if !ok || c.Transport().Base != http.RoundTripper(b) { // of Transport, without Do
		return b.owner.HTTPClient.Do(req)
	}
	return c.attempt(req)
}

// CloseIdleConnections closes those of HTTPClient.
func (b *base) CloseIdleConnections() { b.owner.HTTPClient.CloseIdleConnections() }

// attempt makes an attempt, and asks CheckRetry about it. sent is Transport's
// request.
func (c *call) attempt(sent *http.Request) (*http.Response, error) {
	before := c.last.resp
	c.last = outcome{}
	o := &c.last
	own := editOf(c.given, sent) // before the hooks change the headers
	if c.attempts > 0 && c.PrepareRetry != nil {
		prepared := *c.req.Request // with the caller's headers
		if o.unprepared = c.PrepareRetry(&prepared); o.unprepared != nil {
			o.resp = before
			if sent.Body != nil {
				sent.Body.Close()
			}
			return nil, o.unprepared
		}
		c.req.Request = &prepared
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
	own.apply(&out)

	o.resp, o.err = c.HTTPClient.Do(&out)
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

// An edit is what Transport changed in the request of Do, by its Prepare or for the
// rest of a body that broke off, for example.
type edit struct {
	header http.Header // a nil value: removed
	url    *url.URL    // nil: not changed
	host   string      // "": not changed
}

// editOf returns the edit that made sent of given.
func editOf(given, sent *http.Request) edit {
	e := edit{header: make(http.Header)}
	for name, values := range sent.Header {
		if before, ok := given.Header[name]; !ok || !slices.Equal(before, values) {
			e.header[name] = values
		}
	}
	for name := range given.Header {
		if _, ok := sent.Header[name]; !ok {
			e.header[name] = nil
		}
	}
	if sent.URL != given.URL && sent.URL.String() != given.URL.String() {
		e.url = sent.URL
	}
	if sent.Host != given.Host {
		e.host = sent.Host
	}
	return e
}

// apply makes the edit in req, whose headers are its own.
func (e edit) apply(req *http.Request) {
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	maps.Copy(req.Header, e.header)
	maps.DeleteFunc(req.Header, func(_ string, values []string) bool { return values == nil })
	if e.url != nil {
		req.URL = e.url
	}
	if e.host != "" {
		req.Host = e.host
	}
}

// check asks CheckRetry about the attempt, which ended with err.
func (c *call) check(err error) {
	check := c.CheckRetry
	if check == nil {
		check = DefaultRetryPolicy
	}
	c.last.retry, c.last.checked = check(c.req.Context(), c.last.resp, err)
}
