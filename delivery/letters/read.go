package letters

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

// readLetter reads a letter of the given size, and checks that its body is
// complete.
func readLetter(r io.ReaderAt, size int64) (Letter, *http.Request, error) {
	l := newLineReader(io.NewSectionReader(r, 0, size))
	head, err := l.head()
	if err != nil {
		return Letter{}, nil, err
	}
	req, err := l.request()
	if err != nil {
		return head.Letter, nil, err
	}
	req.URL.Opaque = string(head.Opaque)
	f, err := takeFraming(req)
	if err != nil {
		return head.Letter, nil, err
	}
	return head.Letter, req, f.setBody(req, r, l.read, size)
}

// A lineReader reads lines and limits their total length.
type lineReader struct {
	r    *bufio.Reader
	left int
	read int64
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: bufio.NewReader(r), left: maxHead}
}

// line returns the next line without end, which it must have.
func (l *lineReader) line(end string) (string, error) {
	var text []byte
	for {
		part, err := l.r.ReadSlice('\n')
		l.left -= len(part)
		l.read += int64(len(part))
		if l.left < 0 {
			return "", fmt.Errorf("more than %d bytes before the body", maxHead)
		}
		text = append(text, part...)
		if err == nil {
			break
		}
		if err == io.EOF {
			return "", io.ErrUnexpectedEOF
		}
		if err != bufio.ErrBufferFull {
			return "", err
		}
	}
	if !strings.HasSuffix(string(text), end) {
		return "", fmt.Errorf("a line without its end: %.40q", text)
	}
	return string(text[:len(text)-len(end)]), nil
}

// head reads the line of JSON.
func (l *lineReader) head() (fileHead, error) {
	var head fileHead
	text, err := l.line("\n")
	if err != nil {
		return head, err
	}
	if err := json.Unmarshal([]byte(text), &head); err != nil {
		return head, fmt.Errorf("the head is not a dead letter's: %w", err)
	}
	if head.Time.IsZero() || head.Method == "" {
		return head, errors.New("the head is not a dead letter's: no time or no method")
	}
	return head, nil
}

// request reads the request line and the header.
func (l *lineReader) request() (*http.Request, error) {
	text, err := l.line("\r\n")
	if err != nil {
		return nil, err
	}
	method, rest, _ := strings.Cut(text, " ")
	target, isHTTP := strings.CutSuffix(rest, " HTTP/1.1")
	if method == "" || !isHTTP {
		return nil, errors.New("the request line is not a method, a URL and HTTP/1.1")
	}
	req := &http.Request{Method: method, Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	if req.URL, err = url.Parse(target); err != nil {
		return nil, errors.New("the request line has no URL") // err quotes it, with its query
	}
	return req, l.header(req.Header)
}

func (l *lineReader) header(to http.Header) error {
	for {
		text, err := l.line("\r\n")
		if err != nil || text == "" {
			return err
		}
		name, value, ok := strings.Cut(text, ": ")
		if !ok || name == "" {
			return fmt.Errorf("not a header line: %.40q", text)
		}
		to[name] = append(to[name], value)
	}
}

// A frame is how a request delimits its body: two headers' values.
type frame struct{ length, encoding string }

// takeFraming removes from req the headers that net/http sets itself.
func takeFraming(req *http.Request) (frame, error) {
	var f frame
	for name, values := range req.Header {
		if !isFraming(name) {
			continue
		}
		switch value := values[0]; {
		case len(values) > 1:
			return f, fmt.Errorf("%s is there twice", name)
		case strings.EqualFold(name, "Host"):
			req.Host = value
		case strings.EqualFold(name, "Content-Length"):
			f.length = value
		case strings.EqualFold(name, "Transfer-Encoding"):
			f.encoding = value
		}
		delete(req.Header, name)
	}
	return f, nil
}

// setBody sets the body of req to the bytes of r from at to size.
func (f frame) setBody(req *http.Request, r io.ReaderAt, at, size int64) error {
	section := func() *io.SectionReader { return io.NewSectionReader(r, at, size-at) }
	switch {
	case f.length == "" && f.encoding == "":
		if size != at {
			return fmt.Errorf("%d bytes after a request without a body", size-at)
		}
		return nil
	case f.encoding == "":
		if f.length != fmt.Sprint(size-at) {
			return fmt.Errorf("the body has %d bytes, and should have %.20s", size-at, f.length)
		}
		if req.ContentLength = size - at; req.ContentLength == 0 {
			return nil
		}
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(section()), nil }
	case f.encoding == "chunked" && f.length == "":
		req.ContentLength = -1
		var err error
		if req.Trailer, err = checkChunks(section()); err != nil {
			return err
		}
		req.GetBody = func() (io.ReadCloser, error) {
			return io.NopCloser(httputil.NewChunkedReader(bufio.NewReader(section()))), nil
		}
	default:
		return fmt.Errorf("Transfer-Encoding is %.20q; it must be chunked, without a Content-Length", f.encoding)
	}
	req.Body, _ = req.GetBody()
	return nil
}

// checkChunks reads a chunked body to its end, and returns the trailer or nil.
func checkChunks(r io.Reader) (http.Header, error) {
	l := newLineReader(r)
	if _, err := io.Copy(io.Discard, httputil.NewChunkedReader(l.r)); err != nil {
		return nil, fmt.Errorf("the body: %w", err)
	}
	trailer := http.Header{}
	if err := l.header(trailer); err != nil {
		return nil, fmt.Errorf("after the body: %w", err)
	}
	if _, err := l.r.ReadByte(); err != io.EOF {
		return nil, errors.New("there is something after the body")
	}
	if len(trailer) == 0 {
		return nil, nil
	}
	return trailer, nil
}
