package deliveryqueue

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A stored request is a line of JSON and then the body. The line has bytes where a
// request may have some that are not UTF-8. http.ReadRequest would change the letter
// case of header names.

// A requestHead is the line of JSON.
type requestHead struct {
	Method string              `json:"method"`
	URL    []byte              `json:"url"`              // without the fragment, which is not sent
	Opaque []byte              `json:"opaque,omitempty"` // by a version before the first release, in place of the URL's path
	Host   []byte              `json:"host,omitempty"`
	Header map[string][][]byte `json:"header"`
	Close  bool                `json:"close,omitempty"`
	Length int                 `json:"length"` // of the body, in bytes

	Endpoint string `json:"endpoint,omitempty"` // Options.Endpoint
}

// maxHead limits the line of JSON, in bytes.
const maxHead = 1 << 20

// framing lists the headers that net/http sets itself.
var framing = []string{"Host", "Content-Length", "Transfer-Encoding", "Trailer"}

// encodeRequest returns the stored form of a request that has this body and endpoint.
func encodeRequest(req *http.Request, body []byte, endpoint string) ([]byte, error) {
	bare := *req.URL
	bare.Fragment, bare.RawFragment = "", ""
	text := bare.String()
	if again, err := url.Parse(text); err != nil || again.String() != text || again.Host != bare.Host {
		return nil, errors.New("the request's URL would not be read back unchanged")
	}
	head := requestHead{
		Method: cmp.Or(req.Method, http.MethodGet), URL: []byte(text), Host: []byte(req.Host),
		Header: make(map[string][][]byte), Close: req.Close, Length: len(body),
		Endpoint: endpoint,
	}
	for name, values := range req.Header {
		if slices.ContainsFunc(framing, func(own string) bool { return strings.EqualFold(own, name) }) {
			continue
		}
		head.Header[name] = nil // User-Agent with no value keeps net/http from sending its own
		for _, value := range values {
			head.Header[name] = append(head.Header[name], []byte(value))
		}
	}
	line, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	if len(line) > maxHead {
		return nil, fmt.Errorf("the request's URL and header take %d bytes; they must take at most %d", len(line), maxHead)
	}
	return slices.Concat(line, []byte("\n"), body), nil
}

// decodeRequest returns a request from its stored form, and its endpoint. The body is
// read in place and any number of times.
func decodeRequest(stored []byte) (req *http.Request, endpoint string, err error) {
	line, body, whole := bytes.Cut(stored, []byte("\n"))
	var head requestHead
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, "", fmt.Errorf("its request: %w", err)
	}
	if head.Method == "" {
		return nil, "", errors.New("its request has no method")
	}
	if len(body) != head.Length || !whole {
		return nil, "", fmt.Errorf("its request's body has %d bytes, and should have %d", len(body), head.Length)
	}
	if len(head.Opaque) > 0 {
		return nil, "", errors.New("its request's URL is opaque, as only a version before the first release sends it")
	}
	u, err := url.Parse(string(head.URL))
	if err != nil {
		return nil, "", errors.New("its request has no URL") // err quotes it, with its query
	}
	req = &http.Request{
		Method: head.Method, URL: u, Host: string(head.Host), Header: make(http.Header), Close: head.Close,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	for name, values := range head.Header {
		req.Header[name] = nil
		for _, value := range values {
			req.Header[name] = append(req.Header[name], string(value))
		}
	}
	if len(body) > 0 {
		req.ContentLength = int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		req.Body, _ = req.GetBody()
	}
	return req, cmp.Or(head.Endpoint, endpointOf(u)), nil
}
