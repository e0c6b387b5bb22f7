package retryablehttp

import (
	"errors"
	"net/http"
	"net/url"
	"sync"
)

// A RoundTripper is an http.RoundTripper that sends through a Client. As
// go-retryablehttp's, it may return both a response and an error, if the Client's
// ErrorHandler does.
type RoundTripper struct {
	Client *Client // nil: one with the defaults, which the first request sets

	once sync.Once
}

// RoundTrip implements http.RoundTripper.
func (rt *RoundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	rt.once.Do(func() {
		if rt.Client == nil {
			rt.Client = NewClient()
		}
	})
	own, err := FromRequest(req)
	if err != nil {
		return nil, err
	}
	resp, err := rt.Client.Do(own)
	if wrapped := (*url.Error)(nil); err != nil && errors.As(err, &wrapped) && error(wrapped) == err {
		return resp, wrapped.Err // an http.Client wraps it again
	}
	return resp, err
}
