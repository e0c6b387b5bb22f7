package simulate

import "net/http"

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func newRequest() *http.Request {
	req, _ := http.NewRequest(http.MethodGet, "http://"+host, nil) // the URL is well-formed
	return req
}
