package retryablehttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

// A Request is an http.Request whose body can be sent again.
type Request struct {
	*http.Request

	body            *body // nil: that of Request
	responseHandler ResponseHandlerFunc
}

// ReaderFunc returns a reader of the whole body. It is called for each attempt. If
// the reader is an io.Closer, it is closed.
type ReaderFunc func() (io.Reader, error)

// LenReader is a reader that knows its length, which becomes the Content-Length.
type LenReader interface{ Len() int }

// ResponseHandlerFunc handles a response that CheckRetry does not want retried. If
// it returns an error, CheckRetry decides about that. It, or the caller of Do,
// closes the response's body.
type ResponseHandlerFunc func(*http.Response) error

// NewRequest is NewRequestWithContext with the background context.
func NewRequest(method, url string, rawBody any) (*Request, error) {
	return NewRequestWithContext(context.Background(), method, url, rawBody)
}

// NewRequestWithContext returns a request. rawBody is nil, a ReaderFunc, a
// func() (io.Reader, error), a []byte, a *bytes.Buffer, a *bytes.Reader, an
// io.ReadSeeker or an io.Reader. It is not read before the request is sent, and
// it must not be changed while the request is used.
//
// A *bytes.Buffer and a *bytes.Reader are sent from where they were read. A file and
// any other io.ReaderAt with a length are read in place, from the beginning, and not
// closed. An io.ReadSeeker is set back to the beginning for each attempt.
// For any other io.Reader, the part that was sent is kept for retries, up to the
// MaxBodyBuffer of Client.Transport; beyond it the request is not retried.
func NewRequestWithContext(ctx context.Context, method, url string, rawBody any) (*Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	req := &Request{Request: r}
	if err := req.SetBody(rawBody); err != nil {
		return nil, err
	}
	return req, nil
}

// FromRequest returns a Request for r, whose body it takes over. GetBody is
// called for each attempt. A body without GetBody is an io.Reader, as for
// NewRequestWithContext.
func FromRequest(r *http.Request) (*Request, error) {
	req := &Request{Request: r}
	switch {
	case r.Body == nil || r.Body == http.NoBody:
	case r.GetBody != nil:
		first := r.Body
		req.body = &body{length: r.ContentLength, again: true, open: func() (io.ReadCloser, error) {
			if first != nil {
				own := first
				first = nil
				return own, nil
			}
			return r.GetBody()
		}}
	default:
		req.body = once(r.Body, r.ContentLength)
	}
	return req, nil
}

// WithContext returns a copy of r with the context ctx, which must not be nil.
func (r *Request) WithContext(ctx context.Context) *Request {
	own := *r
	own.Request = r.Request.WithContext(ctx)
	return &own
}

// SetResponseHandler sets the function that handles the response.
func (r *Request) SetResponseHandler(fn ResponseHandlerFunc) { r.responseHandler = fn }

// SetBody replaces the body. rawBody is as for NewRequestWithContext.
func (r *Request) SetBody(rawBody any) error {
	b, err := bodyOf(rawBody)
	if err != nil {
		return err
	}
	r.body, r.ContentLength, r.GetBody = b, 0, nil
	switch {
	case b == nil:
		r.Body = nil
		r.GetBody = func() (io.ReadCloser, error) { return http.NoBody, nil }
	case b.again:
		r.ContentLength, r.GetBody = b.length, b.open
	default:
		r.ContentLength = b.length
	}
	return nil
}

// BodyBytes returns a copy of the body, and nil if there is none. It reads an
// io.Reader alone into memory, from where it is sent then. It must not be called
// while the request is sent.
func (r *Request) BodyBytes() ([]byte, error) {
	if r.body == nil {
		if r.Request.Body == nil || r.Request.Body == http.NoBody {
			return nil, nil
		}
		r.body = once(r.Request.Body, r.ContentLength)
	}
	rc, err := r.body.open()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(rc)
	if err = errors.Join(err, rc.Close()); err != nil {
		return nil, err
	}
	if !r.body.again {
		if err := r.SetBody(data); err != nil {
			return nil, err
		}
		return bytes.Clone(data), nil
	}
	return data, nil
}

// WriteTo writes the body to w, and implements io.WriterTo. It reads an io.Reader
// alone into memory first, as BodyBytes does.
func (r *Request) WriteTo(w io.Writer) (int64, error) {
	if r.body == nil || !r.body.again {
		data, err := r.BodyBytes()
		if err != nil {
			return 0, err
		}
		n, err := w.Write(data)
		return int64(n), err
	}
	rc, err := r.body.open()
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(w, rc)
	return n, errors.Join(err, rc.Close())
}

// open returns the request with a body to read.
func (r *Request) open() (*http.Request, error) {
	if r.body == nil {
		return r.Request, nil
	}
	rc, err := r.body.open()
	if err != nil {
		return nil, err
	}
	own := *r.Request
	own.Body, own.ContentLength, own.GetBody = rc, r.body.length, nil
	if r.body.again {
		own.GetBody = r.body.open
	}
	return &own, nil
}

// close closes the body of a request that is not sent.
func (r *Request) close() {
	if out, err := r.open(); err == nil && out.Body != nil {
		out.Body.Close()
	}
}

// A body is what a request sends.
type body struct {
	open   func() (io.ReadCloser, error)
	length int64 // -1: not known
	again  bool  // open may be called again
}

// errSent is the error of a body that can be read only once.
var errSent = errors.New("retryablehttp: the body is an io.Reader that was sent already; " +
	"give NewRequest a []byte, an io.ReadSeeker or a ReaderFunc, or call BodyBytes before Do")

// once returns the body of a reader that can be read only once.
func once(r io.Reader, length int64) *body {
	return &body{length: length, open: func() (io.ReadCloser, error) {
		if r == nil {
			return nil, errSent
		}
		own := r
		r = nil
		return closer(own), nil
	}}
}

// closer returns r with its own Close, or with one that does nothing.
func closer(r io.Reader) io.ReadCloser {
	if rc, ok := r.(io.ReadCloser); ok {
		return rc
	}
	return io.NopCloser(r)
}

// lengthOf returns the length of a reader, or -1.
func lengthOf(r any) int64 {
	if l, ok := r.(LenReader); ok {
		return int64(l.Len())
	}
	return -1
}

// bodyOf returns the body of what NewRequest got, or nil for none.
func bodyOf(raw any) (*body, error) {
	switch raw := raw.(type) {
	case nil:
		return nil, nil
	case ReaderFunc:
		return bodyOfFunc(raw)
	case func() (io.Reader, error):
		return bodyOfFunc(raw)
	case []byte:
		return section(bytes.NewReader(raw), 0, int64(len(raw))), nil
	case *bytes.Buffer:
		data := raw.Bytes()
		return section(bytes.NewReader(data), 0, int64(len(data))), nil
	case *bytes.Reader: // what was not read of it
		own := *raw
		return section(&own, own.Size()-int64(own.Len()), int64(own.Len())), nil
	case *os.File:
		if info, err := raw.Stat(); err == nil && info.Mode().IsRegular() {
			return section(raw, 0, info.Size()), nil
		}
		return once(raw, -1), nil
	case io.ReaderAt:
		if sized, ok := raw.(interface{ Size() int64 }); ok {
			return section(raw, 0, sized.Size()), nil
		}
	}
	switch raw := raw.(type) {
	case io.ReadSeeker:
		return bodyOfSeeker(raw)
	case io.Reader:
		if raw == http.NoBody {
			return nil, nil
		}
		return once(raw, lengthOf(raw)), nil
	}
	return nil, fmt.Errorf("retryablehttp: the body is a %T; it must be nil, a ReaderFunc, a func() (io.Reader, error), "+
		"a []byte, a *bytes.Buffer or an io.Reader", raw)
}

// section returns the body of what can be read at any place.
func section(r io.ReaderAt, from, size int64) *body {
	if size == 0 {
		return nil
	}
	return &body{length: size, again: true, open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(r, from, size)), nil
	}}
}

// bodyOfFunc calls f once for the length.
func bodyOfFunc(f ReaderFunc) (*body, error) {
	r, err := f()
	if err != nil {
		return nil, err
	}
	length := lengthOf(r)
	if err := closer(r).Close(); err != nil {
		return nil, err
	}
	return &body{length: length, again: true, open: func() (io.ReadCloser, error) {
		r, err := f()
		if err != nil {
			return nil, err
		}
		return closer(r), nil
	}}, nil
}

func bodyOfSeeker(s io.ReadSeeker) (*body, error) {
	length, err := s.Seek(0, io.SeekEnd)
	if err != nil {
		length = -1
	}
	return &body{length: length, again: true, open: func() (io.ReadCloser, error) {
		if _, err := s.Seek(0, io.SeekStart); err != nil {
			return nil, fmt.Errorf("retryablehttp: setting the body back: %w", err)
		}
		return io.NopCloser(s), nil
	}}, nil
}
