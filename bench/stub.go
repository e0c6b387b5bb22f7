package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// errorBody is an error of the AWS JSON protocol, which DynamoDB and
// Kinesis use.
const errorBody = `{"__type":"com.amazonaws.example#ServiceUnavailable",` +
	`"message":"Service is unable to handle request."}`

// An exchange is one goroutine's request and the responses that it gets over
// and over. Both are made once, so that only the library allocates in a
// measured round.
type exchange struct {
	statuses []int // of the responses in turn; the last one is for the caller
	payload  []byte
	method   string

	req    *http.Request
	reader *bytes.Reader // of payload, below body
	body   io.ReadCloser
	cancel context.CancelFunc  // of req, until the process ends
	smithy *smithyhttp.Request // req for the AWS SDK, whose middleware takes no http.Request

	sent      int // attempts, since rewind
	received  int // bytes of the last attempt's body
	responses []http.Response
	text      strings.Reader // of an error
	errorBody io.ReadCloser  // text; like a body from the network it has no WriteTo
	buffer    [32 << 10]byte

	_ [128]byte // the next exchange is another goroutine's and shares no cache line
}

func (x *exchange) init(number int, c benchCase) error {
	x.statuses, x.payload, x.method = c.statuses, c.payload, c.method
	var body io.Reader
	if x.payload != nil {
		x.reader = bytes.NewReader(x.payload)
		body = x.reader
	}
	// Callers have deadlines. Without one, awsretry gives each attempt over a
	// Base that is not an http.Transport its own context.
	ctx, cancel := context.WithTimeout(context.Background(), 24*time.Hour)
	x.cancel = cancel
	req, err := http.NewRequestWithContext(ctx, c.method, "http://service.example/path", body)
	if err != nil {
		return err
	}
	req.Host = strconv.Itoa(number) // the stub finds the exchange by it, in every clone of the request
	x.req, x.body = req, req.Body

	sdk := smithyhttp.NewStackRequest().(*smithyhttp.Request)
	sdk.Method, sdk.URL, sdk.Host = req.Method, req.URL, req.Host
	if x.smithy, err = sdk.SetStream(body); err != nil {
		return err
	}

	x.errorBody = struct {
		io.Reader
		io.Closer
	}{&x.text, http.NoBody}
	x.responses = make([]http.Response, len(c.statuses))
	for i, status := range c.statuses {
		x.responses[i] = http.Response{StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}}
		if c.errorBody && status >= 400 {
			x.responses[i].Header.Set("Content-Type", "application/x-amz-json-1.0")
			x.responses[i].ContentLength = int64(len(errorBody))
		}
	}
	return nil
}

// rewind restores the request. Some libraries replace its body.
func (x *exchange) rewind() {
	x.sent = 0
	x.req.Body = x.body
	if x.reader != nil {
		x.reader.Reset(x.payload)
	}
}

// A stub is the RoundTripper below every library. It reads the request's body
// to its end and closes it, as the contract demands, responds from memory and
// allocates nothing. It has no state of its own that goroutines would share.
type stub struct{ exchanges []exchange }

func newStub(c benchCase, goroutines int) (*stub, error) {
	s := &stub{exchanges: make([]exchange, goroutines)}
	for i := range s.exchanges {
		if err := s.exchanges[i].init(i, c); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *stub) RoundTrip(req *http.Request) (*http.Response, error) {
	x := &s.exchanges[req.Host[0]-'0']
	x.received = 0
	if req.Body != nil {
		for {
			n, err := req.Body.Read(x.buffer[:])
			x.received += n
			if err == io.EOF {
				break
			}
			if err != nil {
				req.Body.Close()
				return nil, err
			}
		}
		req.Body.Close()
	}
	resp := &x.responses[x.sent%len(x.responses)]
	x.sent++
	resp.Request = req
	resp.Body = http.NoBody // each time, because libraries wrap it
	if resp.ContentLength > 0 {
		x.text.Reset(errorBody)
		resp.Body = x.errorBody
	}
	return resp, nil
}
