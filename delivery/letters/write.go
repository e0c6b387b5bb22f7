package letters

import (
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

// maxErrText limits Letter.Err, in bytes.
const maxErrText = 4 << 10

// unwritable returns the error of a request that cannot be written and read
// back unchanged.
func unwritable(format string, args ...any) error {
	return fmt.Errorf("the request cannot be written: "+format, args...)
}

// writeLetter writes a letter. It streams the body.
func writeLetter(w io.Writer, dead DeadLetter, now time.Time) error {
	req := dead.Request
	if req == nil || req.URL == nil {
		return errors.New("the dead letter has no request, or one without a URL")
	}
	var b bytes.Buffer
	if err := writeHead(&b, dead, now); err != nil {
		return err
	}
	if err := writeHeader(&b, req); err != nil {
		return err
	}
	if b.Len() > maxHead {
		return unwritable("its header has %d bytes; it must have at most %d", b.Len(), maxHead)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return err
	}
	return writeBody(w, req)
}

// writeHead writes the line of JSON.
func writeHead(b *bytes.Buffer, dead DeadLetter, now time.Time) error {
	req := dead.Request
	head := fileHead{
		Letter: Letter{
			Time:     now.UTC(),
			Method:   methodOf(req),
			URL:      publicURL(req.URL),
			Attempts: dead.Attempts,
			Reason:   dead.Reason,
		},
		Opaque: []byte(req.URL.Opaque),
	}
	if dead.Response != nil {
		head.Status = dead.Response.StatusCode
	}
	if dead.Err != nil {
		text := redact.Error(dead.Err) // it may quote a server
		head.Err = strings.ToValidUTF8(text[:min(len(text), maxErrText)], "")
	}
	return json.NewEncoder(b).Encode(head)
}

// writeHeader writes the request line and the header.
func writeHeader(b *bytes.Buffer, req *http.Request) error {
	target, err := targetOf(req)
	if err != nil {
		return err
	}
	lines := []string{methodOf(req) + " " + target + " HTTP/1.1", "Host: " + hostOf(req)}
	switch {
	case !hasBody(req) && req.ContentLength > 0:
		return unwritable("ContentLength is %d and there is no body", req.ContentLength)
	case !hasBody(req):
	case chunked(req):
		lines = append(lines, "Transfer-Encoding: chunked")
	default:
		lines = append(lines, fmt.Sprintf("Content-Length: %d", req.ContentLength))
	}
	if req.Close && !slices.Contains(req.Header["Connection"], "close") {
		lines = append(lines, "Connection: close")
	}
	header, err := headerLines(req.Header, isFraming)
	if err != nil {
		return err
	}
	return writeLines(b, append(lines, header...))
}

func methodOf(req *http.Request) string {
	if req.Method == "" {
		return http.MethodGet
	}
	return req.Method
}

func hostOf(req *http.Request) string {
	if req.Host != "" {
		return req.Host
	}
	return req.URL.Host
}

// targetOf returns the URL for the request line: without the fragment, which is
// not sent, and without Opaque, which would replace the host in a URL's text.
func targetOf(req *http.Request) (string, error) {
	u := *req.URL
	u.Fragment, u.RawFragment, u.Opaque = "", "", ""
	target := u.String()
	again, err := url.Parse(target)
	if err != nil || again.String() != target || again.Host != u.Host || strings.Contains(req.Method, " ") {
		return "", unwritable("its method or URL would not be read back unchanged")
	}
	return target, nil
}

// publicURL returns u without what may be secret: user, query and fragment.
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

// headerLines returns the lines of h, sorted by name, except those that skip
// reports.
func headerLines(h http.Header, skip func(name string) bool) ([]string, error) {
	var lines []string
	for name, values := range h {
		if skip(name) {
			continue
		}
		if name == "" || strings.ContainsAny(name, ": ") {
			return nil, unwritable("%.40q is not a header name", name)
		}
		if len(values) == 0 && name == "User-Agent" {
			values = []string{""} // net/http sends none in either case
		}
		for _, value := range values {
			lines = append(lines, name+": "+value)
		}
	}
	// The order of a name's values is significant.
	slices.SortStableFunc(lines, func(a, b string) int {
		nameA, _, _ := strings.Cut(a, ":")
		nameB, _, _ := strings.Cut(b, ":")
		return strings.Compare(nameA, nameB)
	})
	return lines, nil
}

// writeLines writes the lines of a header and the empty line after it.
func writeLines(b *bytes.Buffer, lines []string) error {
	for _, text := range append(lines, "") {
		if strings.ContainsAny(text, "\r\n") {
			return unwritable("a line break in %.40q", text)
		}
		b.WriteString(text + "\r\n")
	}
	return nil
}

// writeBody writes the body and the trailer.
func writeBody(w io.Writer, req *http.Request) error {
	switch {
	case !hasBody(req):
		return nil
	case !chunked(req):
		return writeExactly(w, req.Body, req.ContentLength)
	}
	cw := httputil.NewChunkedWriter(w)
	if _, err := io.Copy(cw, req.Body); err != nil {
		return err
	}
	if err := cw.Close(); err != nil {
		return err
	}
	trailer, err := headerLines(req.Trailer, func(string) bool { return false }) // complete only now
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := writeLines(&b, trailer); err != nil {
		return err
	}
	if b.Len() > maxHead {
		return unwritable("its trailer has %d bytes; it must have at most %d", b.Len(), maxHead)
	}
	_, err = w.Write(b.Bytes())
	return err
}

// writeExactly copies a body, which must have the given length in bytes.
func writeExactly(w io.Writer, body io.Reader, length int64) error {
	n, err := io.Copy(w, io.LimitReader(body, length))
	if err == nil && n == length {
		var extra int
		if extra, err = io.ReadFull(body, make([]byte, 1)); extra == 0 && err == io.EOF {
			return nil
		}
		n += int64(extra)
	}
	if err == nil || err == io.EOF {
		err = unwritable("ContentLength is %d and the body has another length, %d bytes or more", length, n)
	}
	return err
}
