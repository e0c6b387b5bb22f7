// Package letters keeps dead letters, requests whose delivery failed for good,
// as files in a folder, and sends them again. Package delivery makes the dead
// letters.
package letters

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A Letter is the head of a dead letter's file: all that is known of the dead
// letter except its request. Control characters are removed from Err, as are
// the user, query and fragment of the URLs in it.
type Letter struct {
	Name     string    `json:"-"`                // of the file
	Size     int64     `json:"-"`                // of the file, in bytes
	Time     time.Time `json:"time"`             // of the failure, to the nanosecond
	Method   string    `json:"method"`           //
	URL      string    `json:"url"`              // without user, query and fragment, which may be secret
	Attempts int       `json:"attempts"`         // that were made
	Reason   string    `json:"reason"`           // see DeadLetter
	Status   int       `json:"status,omitempty"` // of the last response; 0 if there was none
	Err      string    `json:"error,omitempty"`  // the last error's text; "" if there was a response
}

// Write writes a dead letter to w as [Dir.Put] writes it to a file, with the
// request's body, which it streams. It is for a store that is not a folder, and
// for a request that is stored before its first attempt: Attempts may be 0 and
// Reason "". The error is of w or of the body, or says why the request cannot
// be written and read back unchanged. After an error, w may have part of the
// letter.
func Write(w io.Writer, dead DeadLetter, now time.Time) error {
	if err := writeLetter(w, dead, now); err != nil {
		return fmt.Errorf("letters: Write: %w", err)
	}
	return nil
}

// Read reads a letter that Write wrote to r, which has size bytes and nothing
// after the letter. The request's body is read from r, in place and any number
// of times. Read returns an error unless the letter is complete.
func Read(r io.ReaderAt, size int64) (Letter, *http.Request, error) {
	head, req, err := readLetter(r, size)
	if err != nil {
		return head, nil, fmt.Errorf("letters: Read: %w", err)
	}
	head.Size = size
	return head, req, nil
}

// A letter's file is its head as one line of JSON, and then the request as in
// HTTP/1.1 (RFC 9112), with the absolute URL in the request line. writeLetter
// and readLetter do not use http.ReadRequest, which changes the letter case of
// header names.

// A fileHead is the first line of a letter's file.
type fileHead struct {
	Letter
	Opaque []byte `json:"opaque,omitempty"` // the URL's, which is sent to URL.Host in place of a path
}

// maxHead limits what is read into memory of a file, in bytes: all but the
// body. It is net/http's default limit of a request's header.
const maxHead = 1 << 20

func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// chunked reports whether a request with a body does not give its length, or
// has trailers.
func chunked(req *http.Request) bool { return req.ContentLength <= 0 || len(req.Trailer) > 0 }

// framing lists the headers that net/http sets itself, whatever the map has.
var framing = []string{"Host", "Content-Length", "Transfer-Encoding", "Trailer"}

func isFraming(name string) bool {
	return slices.ContainsFunc(framing, func(f string) bool { return strings.EqualFold(f, name) })
}
