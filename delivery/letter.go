package delivery

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	"example.com/awsretry/internal/redact"
)

// A Letter is the head of a dead letter's file: what there is to know of it without its request.
// DirQueue writes Err without control characters, and the URLs in it without user,
// query and fragment.
type Letter struct {
	Name     string    `json:"-"`                // of the file
	Size     int64     `json:"-"`                // of the file, in bytes
	Time     time.Time `json:"time"`             // of the failure, to the nanosecond
	Method   string    `json:"method"`           //
	URL      string    `json:"url"`              // without user, query and fragment, which may be secret
	Attempts int       `json:"attempts"`         // that were made
	Reason   string    `json:"reason"`           // see DeadLetter
	Status   int       `json:"status,omitempty"` // of the last response; 0 where there was none
	Err      string    `json:"error,omitempty"`  // the last error's text; "" where there was a response
}

// A fileHead is the first line of a letter's file.
type fileHead struct {
	Letter
	Opaque []byte `json:"opaque,omitempty"` // the URL's, which says what is sent to URL.Host in place of a path
}

// A letter's file is its head as one line of JSON and then the request as HTTP/1.1 has it on the wire (RFC 9112), with the
// whole URL in the request line. It is read back by what is below and not by http.ReadRequest, which
// changes the letter case of header names.

// maxLetterHead bounds the part of a file that is held in memory: all but the body. It is as long as net/http lets a
// request's header be.
const maxLetterHead = 1 << 20

const maxErrText = 4 << 10

func writeLetter(w io.Writer, dead DeadLetter, now time.Time) error {
	req := dead.Request
	if req == nil || req.URL == nil {
		return errors.New("the dead letter has no request, or one without a URL")
	}
	head, err := letterHead(dead, now)
	if err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	return writeBody(w, req)
}

// letterHead returns everything up to the body.
func letterHead(dead DeadLetter, now time.Time) ([]byte, error) {
	req := dead.Request
	l := fileHead{Letter: Letter{Time: now.UTC(), Method: req.Method, URL: publicURL(req.URL), Attempts: dead.Attempts, Reason: dead.Reason}}
	if l.Method == "" {
		l.Method = http.MethodGet
	}
	u := *req.URL
	u.Fragment, u.RawFragment = "", "" // it is not sent
	if u.Opaque != "" {
		l.Opaque, u.Opaque = []byte(u.Opaque), "" // in the text of a URL it would take the place of the host
	}
	target := u.String()
	if dead.Response != nil {
		l.Status = dead.Response.StatusCode
	}
	if dead.Err != nil {
		l.Err = redact.Error(dead.Err) // it may quote a server
		l.Err = strings.ToValidUTF8(l.Err[:min(len(l.Err), maxErrText)], "")
	}
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(l); err != nil {
		return nil, err
	}

	line := func(text string) error {
		if strings.ContainsAny(text, "\r\n") {
			return fmt.Errorf("the request cannot be written: a line break in %.40q", text)
		}
		b.WriteString(text + "\r\n")
		return nil
	}
	if again, err := url.Parse(target); err != nil || again.String() != target || again.Host != u.Host || strings.Contains(l.Method, " ") {
		return nil, errors.New("the request cannot be written: its method or URL would not be read back as it is")
	}
	lines := []string{l.Method + " " + target + " HTTP/1.1", "Host: " + hostOf(req)}
	switch {
	case !hasBody(req) && req.ContentLength > 0:
		return nil, fmt.Errorf("the request cannot be written: ContentLength is %d and there is no body", req.ContentLength)
	case !hasBody(req):
	case chunked(req):
		lines = append(lines, "Transfer-Encoding: chunked")
	default:
		lines = append(lines, fmt.Sprintf("Content-Length: %d", req.ContentLength))
	}
	if req.Close && !slices.Contains(req.Header["Connection"], "close") {
		lines = append(lines, "Connection: close")
	}
	header, err := headerLines(req.Header, true)
	if err != nil {
		return nil, err
	}
	for _, text := range append(append(lines, header...), "") {
		if err := line(text); err != nil {
			return nil, err
		}
	}
	if b.Len() > maxLetterHead {
		return nil, fmt.Errorf("the request cannot be written: its header has %d bytes; it must have at most %d", b.Len(), maxLetterHead)
	}
	return b.Bytes(), nil
}

// publicURL is u without what may be secret: user, query and fragment.
func publicURL(u *url.URL) string {
	if u.Opaque == "" {
		return redact.URL(u)
	}
	public := url.URL{Scheme: u.Scheme, Host: u.Host}
	path := u.Opaque
	if rest, ok := strings.CutPrefix(path, "//"); ok { // a host of its own, for the server alone
		_, path, _ = strings.Cut(rest, "/")
		path = "/" + path
	}
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		path = path[:end]
	}
	if !strings.HasPrefix(path, "/") {
		return public.String()
	}
	return public.String() + path
}

func hostOf(req *http.Request) string {
	if req.Host != "" {
		return req.Host
	}
	return req.URL.Host
}

// chunked reports whether a request with a body does not say how long it is, or has trailers.
func chunked(req *http.Request) bool { return req.ContentLength <= 0 || len(req.Trailer) > 0 }

// framing lists the headers that net/http makes itself, whatever the map says.
var framing = []string{"Host", "Content-Length", "Transfer-Encoding", "Trailer"}

func isFraming(name string) bool {
	return slices.ContainsFunc(framing, func(f string) bool { return strings.EqualFold(f, name) })
}

func headerLines(h http.Header, skipFraming bool) ([]string, error) {
	var lines []string
	for name, values := range h {
		if skipFraming && isFraming(name) {
			continue
		}
		if name == "" || strings.ContainsAny(name, ": ") {
			return nil, fmt.Errorf("the request cannot be written: %.40q is no header name", name)
		}
		if len(values) == 0 && name == "User-Agent" {
			values = []string{""} // to net/http both mean that none is sent
		}
		for _, value := range values {
			lines = append(lines, name+": "+value)
		}
	}
	// Stable, and by name alone: the order of one name's values has a meaning.
	slices.SortStableFunc(lines, func(a, b string) int {
		nameA, _, _ := strings.Cut(a, ":")
		nameB, _, _ := strings.Cut(b, ":")
		return strings.Compare(nameA, nameB)
	})
	return lines, nil
}

func writeBody(w io.Writer, req *http.Request) error {
	if !hasBody(req) {
		return nil
	}
	if !chunked(req) {
		n, err := io.Copy(w, io.LimitReader(req.Body, req.ContentLength))
		if err == nil && n == req.ContentLength {
			var extra int
			if extra, err = io.ReadFull(req.Body, make([]byte, 1)); extra == 0 && err == io.EOF {
				return nil
			}
			n += int64(extra)
		}
		if err == nil || err == io.EOF {
			err = fmt.Errorf("the request cannot be written: ContentLength is %d and the body has another length, %d bytes or more", req.ContentLength, n)
		}
		return err
	}
	cw := httputil.NewChunkedWriter(w)
	if _, err := io.Copy(cw, req.Body); err != nil {
		return err
	}
	if err := cw.Close(); err != nil {
		return err
	}
	trailer, err := headerLines(req.Trailer, false) // its values stand only now
	if err != nil {
		return err
	}
	left := maxLetterHead // of what lineReader reads
	for _, text := range append(trailer, "") {
		if left -= len(text) + len("\r\n"); left < 0 {
			return fmt.Errorf("the request cannot be written: its trailer has more than %d bytes", maxLetterHead)
		}
		if strings.ContainsAny(text, "\r\n") {
			return fmt.Errorf("the request cannot be written: a line break in %.40q", text)
		}
		if _, err := io.WriteString(w, text+"\r\n"); err != nil {
			return err
		}
	}
	return nil
}

// A lineReader reads lines and bounds what they hold together.
type lineReader struct {
	r    *bufio.Reader
	left int
	read int64
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: bufio.NewReader(r), left: maxLetterHead}
}

// line returns the next line without its end.
func (l *lineReader) line(end string) (string, error) {
	var text []byte
	for {
		part, err := l.r.ReadSlice('\n')
		l.left -= len(part)
		l.read += int64(len(part))
		if l.left < 0 {
			return "", fmt.Errorf("more than %d bytes before the body", maxLetterHead)
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

func (l *lineReader) header(to http.Header) error {
	for {
		text, err := l.line("\r\n")
		if err != nil || text == "" {
			return err
		}
		name, value, ok := strings.Cut(text, ": ")
		if !ok || name == "" {
			return fmt.Errorf("no header line: %.40q", text)
		}
		to[name] = append(to[name], value)
	}
}

func (l *lineReader) head() (fileHead, error) {
	var letter fileHead
	text, err := l.line("\n")
	if err != nil {
		return letter, err
	}
	if err := json.Unmarshal([]byte(text), &letter); err != nil {
		return letter, fmt.Errorf("the head is not a dead letter's: %w", err)
	}
	if letter.Time.IsZero() || letter.Method == "" {
		return letter, errors.New("the head is not a dead letter's: no time or no method")
	}
	return letter, nil
}

// readLetter reads a file of the given size. The request's body is read from it, in place and any number of times; it was
// found to be whole.
func readLetter(r io.ReaderAt, size int64) (*http.Request, error) {
	l := newLineReader(io.NewSectionReader(r, 0, size))
	head, err := l.head()
	if err != nil {
		return nil, err
	}
	text, err := l.line("\r\n")
	if err != nil {
		return nil, err
	}
	method, rest, _ := strings.Cut(text, " ")
	target, isHTTP := strings.CutSuffix(rest, " HTTP/1.1")
	if method == "" || !isHTTP {
		return nil, fmt.Errorf("no request line: a method, a URL and HTTP/1.1 must stand in it")
	}
	req := &http.Request{Method: method, Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	if req.URL, err = url.Parse(target); err != nil {
		return nil, errors.New("no URL in the request line") // err has it, with its query
	}
	req.URL.Opaque = string(head.Opaque)
	if err := l.header(req.Header); err != nil {
		return nil, err
	}
	return req, readFraming(req, r, l.read, size)
}

// readFraming takes the headers that say where the body ends out of req, and gives it its body.
func readFraming(req *http.Request, r io.ReaderAt, at, size int64) error {
	var length, encoding string
	for name, values := range req.Header {
		if !isFraming(name) {
			continue
		}
		switch value := values[0]; {
		case len(values) > 1:
			return fmt.Errorf("%s stands twice", name)
		case strings.EqualFold(name, "Host"):
			req.Host = value
		case strings.EqualFold(name, "Content-Length"):
			length = value
		case strings.EqualFold(name, "Transfer-Encoding"):
			encoding = value
		}
		delete(req.Header, name)
	}
	section := func() *io.SectionReader { return io.NewSectionReader(r, at, size-at) }
	switch {
	case length == "" && encoding == "":
		if size != at {
			return fmt.Errorf("%d bytes behind a request without a body", size-at)
		}
		return nil
	case encoding == "":
		if length != fmt.Sprint(size-at) {
			return fmt.Errorf("the body has %d bytes, and should have %.20s", size-at, length)
		}
		req.ContentLength = size - at
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(section()), nil }
	case encoding == "chunked" && length == "":
		req.ContentLength = -1
		l := newLineReader(section())
		if _, err := io.Copy(io.Discard, httputil.NewChunkedReader(l.r)); err != nil {
			return fmt.Errorf("the body: %w", err)
		}
		trailer := http.Header{}
		if err := l.header(trailer); err != nil {
			return fmt.Errorf("behind the body: %w", err)
		}
		if _, err := l.r.ReadByte(); err != io.EOF {
			return errors.New("something stands behind the body")
		}
		if len(trailer) > 0 {
			req.Trailer = trailer
		}
		req.GetBody = func() (io.ReadCloser, error) {
			return io.NopCloser(httputil.NewChunkedReader(bufio.NewReader(section()))), nil
		}
	default:
		return fmt.Errorf("Transfer-Encoding is %.20q; it must be chunked, without a Content-Length", encoding)
	}
	if req.ContentLength == 0 {
		req.Body, req.GetBody = nil, nil
		return nil
	}
	req.Body, _ = req.GetBody()
	return nil
}
